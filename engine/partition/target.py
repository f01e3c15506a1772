"""What the partition asks of a runtime. The answers come from engine/runtime, which is a layer above."""

from collections.abc import Sequence
from typing import Protocol

import onnx_ir as ir


class Target(Protocol):
    """A runtime that runs some nodes and refuses others."""

    name: str
    """For reports: "onnxruntime"."""

    on_cpu: bool
    """Whether the CPU is what it runs on."""

    def newest(self, domain: str) -> int:
        """The newest version of an operator domain that it loads."""

    def refusal(self, node: ir.Node, opset: int, inputs: Sequence[ir.Value | None] | None = None) -> str:
        """Why it does not run `node` as one of `opset`; "" if it does. `inputs` stand for those of the node."""
