"""What happened in a training run, as numbers and as a picture."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from onnxgrad.engine.errors import OptionError


@dataclass(frozen=True)
class Epoch:
    """One pass over the data. number: from 1 on; loss: mean over the batches; validation: metrics on held-out data."""

    number: int
    loss: float
    validation: dict[str, float]
    seconds: float

    def __str__(self) -> str:
        held_out = "".join(f"  held-out {name} {value:.4f}" for name, value in self.validation.items())
        return f"epoch {self.number}: loss {self.loss:.4f}{held_out}  ({self.seconds:.1f} s)"


@dataclass
class History:
    """losses: of every step; epochs: a record of each epoch."""

    losses: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the loss of every step and the metrics of every epoch to an image file (PNG, SVG or PDF)."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise OptionError("drawing needs matplotlib", fix='pip install "onnxgrad[plot]"') from error
        figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
        axes = figure.add_subplot(
            xlabel="step", ylabel="loss", yscale="log" if min(self.losses, default=1) > 0 else "linear"
        )
        axes.plot(range(1, len(self.losses) + 1), self.losses, linewidth=0.6, alpha=0.5, label="loss of a batch")
        ends = [round(len(self.losses) * (i + 1) / len(self.epochs)) for i in range(len(self.epochs))]
        axes.plot(ends, [epoch.loss for epoch in self.epochs], marker="o", label="mean of an epoch")
        held_out = [(end, epoch.validation) for end, epoch in zip(ends, self.epochs, strict=True) if epoch.validation]
        if held_out:
            axes.plot([end for end, _ in held_out], [m["loss"] for _, m in held_out], marker="s", label="held-out loss")
        if held_out and "accuracy" in held_out[0][1]:
            right = axes.twinx()
            right.set_ylabel("accuracy")
            right.plot(
                [end for end, _ in held_out], [m["accuracy"] for _, m in held_out], "g^--", label="held-out accuracy"
            )
            right.legend(loc="upper right")
        axes.legend(loc="upper left")
        figure.savefig(path)
