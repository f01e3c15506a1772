"""The progress of training: a bar with loss, speed and time left, on stderr."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from onnxgrad.models.finetune.history import Epoch

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """A bar on a terminal, a line an epoch elsewhere; nothing if it is not enabled."""

    def __init__(self, steps: int, examples: int, enabled: bool = True) -> None:
        self._bar: Bar | None = None
        self._smooth: float | None = None
        if not enabled:
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("{task.fields[speed]} examples/s"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("training", total=steps, loss="-", speed="-")
        self._done = 0

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, loss: float, examples: int, epoch: int, epochs: int) -> None:
        """One more step was made."""
        if self._bar is None:
            return
        self._smooth = loss if self._smooth is None else 0.95 * self._smooth + 0.05 * loss
        self._done += examples
        elapsed = self._bar.tasks[0].elapsed or 0.0
        speed = f"{self._done / elapsed:.0f}" if elapsed else "-"
        label = f"epoch {epoch}/{epochs}"
        self._bar.update(self._task, advance=1, loss=f"{self._smooth:.4f}", speed=speed, description=label)

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is over: its line stays."""
        if self._bar is not None:
            self._bar.console.print(str(epoch), highlight=False)
