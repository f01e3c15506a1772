"""onnxgrad demo: fine-tuning on real models and real data, end to end."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: onnxgrad demo\n\nExample: onnxgrad demo text --folder out"


class Which(StrEnum):
    """The demos there are."""

    image = "image"
    text = "text"


def demo(
    which: Annotated[
        Which, typer.Argument(help="image: digits with PP-LCNet; text: news topics with MiniLM.")
    ] = Which.image,
    folder: Annotated[Path, typer.Option(help="Where the tuned model and the loss curve go.")] = Path("demo_output"),
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the training data.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, the head and the order.")] = 0,
) -> None:
    """Fine-tune a trained model that somebody else made, on data that ships in a package."""
    from onnxgrad.cli.tables import print_table
    from onnxgrad.models.finetune.demos import image_demo, text_demo

    run = image_demo if which is Which.image else text_demo
    result = run(folder, typer.echo, seed=seed) if epochs is None else run(folder, typer.echo, epochs, seed)
    rows = [[f"held-out {name}", f"{result.before[name]:.4f}", f"{value:.4f}"] for name, value in result.after.items()]
    print_table(["", "before", "after"], rows)
    typer.echo(f"tuned model: {result.model} ({result.model.stat().st_size / 1e6:.1f} MB), loss curve: {result.curve}")
    typer.echo(f"the file in plain onnxruntime gives the same outputs (largest difference {result.agreement:.1e})")
    typer.echo(f"{result.seconds:.0f} s")
