"""Calls of operators in layers: what comes out is of the kind that went in, a Tensor or a Var."""

from __future__ import annotations

from typing import TypeVar

from onnxgrad.engine.graph.operand import Input, Operand, apply

Kind = TypeVar("Kind", bound=Operand)


def one(like: Kind, op_type: str, *inputs: Input, **attributes: object) -> Kind:
    """The only output of an operator; `like` is the operand whose kind it has."""
    return apply(op_type, inputs, attributes, outputs=1)[0]  # type: ignore[return-value]


def several(like: Kind, outputs: int, op_type: str, *inputs: Input, **attributes: object) -> tuple[Kind, ...]:
    """So many outputs of an operator; see `one`."""
    return apply(op_type, inputs, attributes, outputs=outputs)  # type: ignore[return-value]
