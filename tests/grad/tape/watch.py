"""Watching callbacks of gradients."""

import numpy as np

import onnxgrad as og


def t(*values) -> og.Tensor:
    """A vector of float64."""
    return og.Tensor(np.array(values, np.float64))


class Watch:
    """Collects gradients in the order in which they come."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.values: dict[str, og.Tensor] = {}

    def of(self, name):
        """The callback that writes down a gradient under this name."""

        def callback(grad):
            self.order.append(name)
            self.values[name] = grad

        return callback

    def __getitem__(self, name):
        return self.values[name].numpy().tolist()
