"""Straight-through gradients, on request: rounding counts as the identity on the way back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import onnx_ir as ir

from onnxgrad.engine.errors import OptionError
from onnxgrad.grad.registry import GradientBuilder, Grads, Rule

ROUNDING = ("Ceil", "Floor", "Round", "Sign")
QUANTIZING = ("DynamicQuantizeLinear", "QuantizeLinear")

_chosen: ContextVar[frozenset[str]] = ContextVar("straight_through", default=frozenset())


@contextmanager
def straight_through(*op_types: str) -> Iterator[None]:
    """While the block runs, gradients that are built go straight through these operators, which have none otherwise:
    that is how models with rounding and quantization are trained. No operator named: all that can be.

    Ceil, Floor, Round and Sign count as identities. QuantizeLinear followed by DequantizeLinear counts as clipping to
    the range of the integers: x gets the gradient where it is not saturated, and the scale gets one too (as in "Learned
    Step Size Quantization"). DynamicQuantizeLinear followed by DequantizeLinear counts as the identity of x.

        with og.straight_through("QuantizeLinear"):
            model = og.gradient_model(model)

    Raises: OptionError for another operator.
    """
    unknown = set(op_types) - {*ROUNDING, *QUANTIZING}
    if unknown:
        raise OptionError(
            f"no straight-through gradient for {', '.join(sorted(unknown))}",
            why="only operators that round can be taken for identities",
            fix=f"name some of {', '.join((*ROUNDING, *QUANTIZING))}",
        )
    token = _chosen.set(_chosen.get() | frozenset(op_types or (*ROUNDING, *QUANTIZING)))
    try:
        yield
    finally:
        _chosen.reset(token)


def goes_straight() -> bool:
    """Whether a `straight_through` block is running."""
    return bool(_chosen.get())


def straight_rule(node: ir.Node) -> Rule | None:
    """The rule of a rounding operator that was chosen; None for all others."""
    if node.domain in ("", "ai.onnx") and node.op_type in ROUNDING and node.op_type in _chosen.get():
        return Rule("", node.op_type, _identity)
    return None


def quantizer(node: ir.Node) -> ir.Node | None:
    """The quantizing node, if chosen, whose integers a DequantizeLinear reads; None for all other nodes."""
    if node.op_type != "DequantizeLinear" or not node.inputs or node.inputs[0] is None:
        return None
    source = node.inputs[0].producer()
    return source if source is not None and source.op_type in QUANTIZING and source.op_type in _chosen.get() else None


def rounded_inputs(node: ir.Node) -> Sequence[ir.Value]:
    """The float values that a DequantizeLinear depends on through the integers, if gradients go through those."""
    source = quantizer(node)
    return () if source is None else [value for value in source.inputs[:2] if value is not None]


def _identity(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    return (dy,)
