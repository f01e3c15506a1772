"""onnxgrad finetune: a better model from a model and data."""

import json
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxgrad.engine.errors import OptionError

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnxgrad.grad.losses import Loss
    from onnxgrad.grad.optimizers import Optimizer
    from onnxgrad.models.finetune.schedule import Schedule
    from onnxgrad.models.finetune.sources import Examples, ImageFormat

EXAMPLE = (
    "Example: onnxgrad finetune in.onnx out.onnx --data photos/ --head replace\n\n"
    "Example: onnxgrad finetune in.onnx out.onnx --data train.npz --loss mse --lr 1e-4"
)


class HeadChoice(StrEnum):
    """What happens to the last layer."""

    keep = "keep"
    renew = "replace"
    add = "add"


class LossChoice(StrEnum):
    """Losses of the command line."""

    cross_entropy = "cross-entropy"
    mse = "mse"
    l1 = "l1"
    bce = "bce"


def finetune(
    file: Annotated[Path, typer.Argument(help="The ONNX file to start from.", show_default=False)],
    output: Annotated[Path, typer.Argument(help="Where the tuned ONNX file goes.", show_default=False)],
    data: Annotated[
        Path,
        typer.Option(
            help=".npz arrays, a folder of images by class, or .tsv lines label<tab>text.", show_default=False
        ),
    ],
    validation: Annotated[
        str, typer.Option(help="Data of the same kind, or the share of --data to hold out; 0 for none.")
    ] = "0.1",
    head: Annotated[
        HeadChoice, typer.Option(help="Replace the last layer by one for the classes of the data, or add one.")
    ] = HeadChoice.keep,
    head_output: Annotated[str | None, typer.Option(help="The output that the head belongs to.")] = None,
    classes: Annotated[
        int | None, typer.Option(min=1, help="Classes of a new head; by default counted in the data.")
    ] = None,
    loss: Annotated[LossChoice, typer.Option(help="What to make small.")] = LossChoice.cross_entropy,
    optimizer: Annotated[
        str, typer.Option(help="adamw, sgd, or momentum (SGD with Nesterov's momentum 0.9).")
    ] = "adamw",
    lr: Annotated[float, typer.Option(help="The learning rate at its highest.")] = 1e-3,
    weight_decay: Annotated[float, typer.Option(help="Weight decay.")] = 0.01,
    schedule: Annotated[str, typer.Option(help="constant, linear or cosine, after a short warm-up.")] = "cosine",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 3,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples in a step.")] = 32,
    trainable: Annotated[
        list[str] | None, typer.Option(help='Patterns of parameter names, "!" in front takes out.')
    ] = None,
    size: Annotated[str | None, typer.Option(help="HEIGHT,WIDTH of images, if other than the model declares.")] = None,
    mean: Annotated[str, typer.Option(help="Mean of the pixels (0..1), one number or one per channel.")] = "0.5",
    std: Annotated[str, typer.Option(help="Deviation of the pixels.")] = "0.5",
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json, for texts.")] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of a text.")] = 64,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Go on from this checkpoint if it exists; write it at every epoch.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the loss curve to this image file.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, a new head and the order.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of one operator.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON, for machines.")] = False,
) -> None:
    """Fine-tune a model on your data and write it back as ONNX."""
    from onnxgrad.cli.tables import print_table
    from onnxgrad.exporters.atomic import check_targets
    from onnxgrad.importers import load
    from onnxgrad.models.finetune.trainer import Trainer

    check_targets(output, checkpoint, plot)
    model = load(file)
    if size:
        model = _resized(model, *_numbers(size, 2))
    form = ExampleReader(model, mean, std, tokenizer, tokens)
    train, held_out = _split(form, data, validation, seed)
    model = _with_head(model, head, head_output, classes or _count(train), seed)
    trainer = Trainer(model, _loss(loss), _optimizer(optimizer, lr, weight_decay), trainable or "*", threads=threads)
    if checkpoint is not None and checkpoint.exists():
        trainer.load(checkpoint)
    typer.echo(f"{len(trainer.parameters)} parameter tensors to train", err=True)
    before = trainer.evaluate(held_out.data, batch_size) if held_out else {}
    trainer.fit(
        train.data,
        epochs,
        batch_size,
        validation=held_out.data if held_out else None,
        schedule=_schedule(schedule),
        seed=seed,
        on_epoch=lambda _: trainer.save(checkpoint) if checkpoint is not None else None,
    )
    after = trainer.history.epochs[-1].validation
    trainer.export(output)
    if plot is not None:
        trainer.history.plot(plot)
    if as_json:
        result = {"output": str(output), "before": before, "after": after, "losses": trainer.history.losses}
        typer.echo(json.dumps({**result, "classes": list(train.classes)}, indent=2))
        return
    if after:
        print_table(["held-out", "before", "after"], [[n, f"{before[n]:.4f}", f"{v:.4f}"] for n, v in after.items()])
    if train.classes:
        typer.echo(f"classes: {', '.join(train.classes)}")
    typer.echo(f"wrote {output}")


class ExampleReader:
    """Reads data of the kind that a path tells, as the model's inputs want them."""

    def __init__(self, model: "ir.Model", mean: str, std: str, tokenizer: Path | None, tokens: int) -> None:
        self._inputs = [v.name or "" for v in model.graph.inputs if v.name not in model.graph.initializers]
        self._shape = model.graph.inputs[0].shape
        self._mean, self._std = mean, std
        self._tokenizer, self._tokens = tokenizer, tokens

    def read(self, path: Path, classes: tuple[str, ...] = ()) -> "Examples":
        """The examples at `path`; `classes` are those of the training data. Raises: InputError, OptionError."""
        from onnxgrad.models.finetune import sources

        if path.is_dir():
            return sources.read_image_folder(path, self._image_format(), classes)
        if path.suffix == ".npz":
            return sources.read_arrays(path, self._inputs, ["label"])
        if path.suffix in (".tsv", ".tab", ".txt"):
            if self._tokenizer is None:
                raise OptionError("texts need a tokenizer", fix="--tokenizer tokenizer.json")
            return sources.read_text_table(path, self._tokenizer, self._tokens, self._inputs, classes)
        raise OptionError(
            f"{path} is no data that is understood", fix="a folder of images, an .npz file, or a .tsv file"
        )

    def _image_format(self) -> "ImageFormat":
        from onnxgrad.models.finetune.sources import ImageFormat

        dims = list(self._shape or ())
        if len(dims) != 4:
            raise OptionError("the model's first input is no image [N, C, H, W]", where=str(self._shape))
        height, width = dims[2:]
        if not isinstance(dims[1], int) or not isinstance(height, int) or not isinstance(width, int):
            raise OptionError("the model leaves the size of images open", fix="--size HEIGHT,WIDTH")
        channels = dims[1]
        means, deviations = ([float(n) for n in text.split(",")] for text in (self._mean, self._std))
        return ImageFormat(int(height), int(width), channels, means, deviations)


def _resized(model: "ir.Model", height: int, width: int) -> "ir.Model":
    """The model with its first input made for images of this size. Raises: OptionError if it takes no images."""
    from onnxgrad.engine.ir.input_shapes import with_input_shapes

    first = model.graph.inputs[0]
    if first.shape is None or len(first.shape) != 4:
        raise OptionError("--size is for models whose first input is an image [N, C, H, W]", where=str(first))
    return with_input_shapes(model, {first.name or "": (None, None, height, width)})


def _numbers(text: str, count: int) -> list[int]:
    parts = text.replace("x", ",").split(",")
    if len(parts) != count or not all(part.strip().isdigit() for part in parts):
        raise OptionError(f"{text!r} must be {count} whole numbers with a comma between")
    return [int(part) for part in parts]


def _split(reader: ExampleReader, data: Path, validation: str, seed: int) -> "tuple[Examples, Examples | None]":
    """Training and held-out examples. Raises: OptionError for a share that is none."""
    from onnxgrad.models.finetune.data import split

    train = reader.read(data)
    try:
        share = float(validation)
    except ValueError:
        return train, reader.read(Path(validation), train.classes)
    if not 0 <= share < 1:
        raise OptionError(f"--validation is a path or a share from 0 to 1, not {validation}")
    if not share:
        return train, None
    first, second = split(train.data, share, seed)
    return replace(train, data=first), replace(train, data=second)


def _count(examples: "Examples") -> int:
    """The number of classes of the labels."""
    import numpy as np

    if examples.classes:
        return len(examples.classes)
    labels = examples.data[1]
    only = next(iter(labels.values())) if isinstance(labels, dict) else labels
    array = np.asarray(only)
    return int(array.max()) + 1 if array.dtype.kind in "iu" and array.size else 1


def _with_head(model: "ir.Model", choice: HeadChoice, output: str | None, classes: int, seed: int) -> "ir.Model":
    from onnxgrad.models.finetune.head import add_head, head_of, replace_head

    if choice is HeadChoice.keep:
        return model
    put = replace_head if choice is HeadChoice.renew else add_head
    model = put(model, classes, output=output, seed=seed)
    typer.echo(f"head: {head_of(model)}", err=True)
    return model


def _loss(choice: LossChoice) -> "Loss":
    from onnxgrad.grad import losses

    kinds: dict[LossChoice, type[Loss]] = {
        LossChoice.cross_entropy: losses.CrossEntropy,
        LossChoice.mse: losses.MSE,
        LossChoice.l1: losses.L1,
        LossChoice.bce: losses.BCEWithLogits,
    }
    return kinds[choice]()


def _optimizer(name: str, lr: float, weight_decay: float) -> "Optimizer":
    from onnxgrad.grad.optimizers import SGD, AdamW

    made: dict[str, Callable[[], Optimizer]] = {
        "adamw": lambda: AdamW(lr, weight_decay=weight_decay),
        "sgd": lambda: SGD(lr, weight_decay=weight_decay),
        "momentum": lambda: SGD(lr, momentum=0.9, nesterov=True, weight_decay=weight_decay),
    }
    if name not in made:
        raise OptionError(f"there is no optimizer {name!r}", fix=f"one of {', '.join(made)}")
    return made[name]()


def _schedule(name: str) -> "Schedule":
    from onnxgrad.models.finetune import schedule

    made = {"constant": schedule.constant, "linear": schedule.linear, "cosine": schedule.cosine}
    if name not in made:
        raise OptionError(f"there is no schedule {name!r}", fix=f"one of {', '.join(made)}")
    return made[name](warmup=0.05)
