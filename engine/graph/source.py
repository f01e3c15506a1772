"""What stands behind the inputs of a graph."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import onnx_ir as ir

from onnxgrad.engine.graph.operand import Dim


@runtime_checkable
class Source(Protocol):
    """What stands behind an input of a graph and gives its value at run time: host tensors, parameters, scalars."""

    @property
    def element_type(self) -> ir.DataType:
        """The ONNX type of the elements."""

    @property
    def static_shape(self) -> tuple[Dim, ...] | None:
        """The shape, with names or None where it may change; None where not even the rank is known."""

    @property
    def source_name(self) -> str:
        """What its variable is called, if that name is free."""
