"""Conv with activation and addend as one node of onnxruntime's: not portable, and off unless it is asked for."""

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxgrad.engine.passes.fusions.channels import Attributes
from onnxgrad.engine.passes.queries import same_shape, scalar_value
from onnxgrad.engine.passes.rewrite import (
    ANY,
    Builder,
    Hits,
    Leaf,
    Match,
    Ops,
    Output,
    Pattern,
    Rewrite,
    apply_rewrites,
)
from onnxgrad.engine.passes.scope import Scope, hidden_defaults

_DOMAIN = "com.microsoft"
_PLAIN = ("Relu", "Sigmoid", "Tanh")


def _activation(op: Ops, x: Output, low: Leaf, high: Leaf) -> tuple[Output, ...]:
    return (
        op.one_of((*_PLAIN, "LeakyRelu", "HardSigmoid"), x, attributes=ANY),
        op.Clip(x, op.constant(low), op.constant(high)),
    )


def _parameters(y: ir.Value) -> list[float] | None:
    """The numbers of an activation as FusedConv wants them; None where they are not known."""
    node = y.producer()
    if node is None:
        return None
    named = {name: attribute.value for name, attribute in node.attributes.items()}
    if node.op_type == "LeakyRelu":
        return [named.get("alpha", 0.01)]
    if node.op_type == "HardSigmoid":
        return [named.get("alpha", 0.2), named.get("beta", 0.5)]
    if node.op_type == "Clip":
        bounds = [scalar_value(value) for value in node.inputs[1:]]
        numbers = [float(bound) for bound in bounds if bound is not None]
        return numbers if len(numbers) == len(bounds) == 2 else None
    return []


def _fused(
    op: Builder,
    inputs: tuple[ir.Value | None, ...],
    kept: Attributes,
    y: ir.Value | None,
) -> ir.Value:
    """FusedConv with the activation that makes `y`."""
    node = None if y is None else y.producer()
    named = (
        {} if node is None or y is None else {"activation": node.op_type, "activation_params": _parameters(y) or None}
    )
    emit: Callable[..., ir.Value] = op.FusedConv
    return emit(*inputs, domain=_DOMAIN, **{**kept, **named})


class FuseConvBiasNonlinearity(Rewrite):
    """Relu(Conv(x, w, b)) -> com.microsoft.FusedConv, of float32; Sigmoid, Tanh, LeakyRelu, HardSigmoid, Clip too."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, low: Leaf, high: Leaf) -> Pattern:
        conv = op.Conv(x, w, op.optional(b), attributes=kept)
        return op.either(*(option.named("y") for option in _activation(op, conv, low, high)))

    def check(self, w: ir.Value, y: ir.Value) -> Match:
        return Match.all(w.dtype == ir.DataType.FLOAT, _parameters(y) is not None)

    def rewrite(
        self, op: Builder, x: ir.Value, w: ir.Value, b: ir.Value | None, kept: Attributes, y: ir.Value
    ) -> ir.Value:
        return _fused(op, (x, w, b), kept, y)


class FuseConvBiasWithZ(Rewrite):
    """Relu(Conv(x, w, b) + z) -> com.microsoft.FusedConv, of float32 and for z of the shape of the convolution."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, z: Leaf, kept: Leaf) -> Pattern:
        conv = op.Conv(x, w, op.optional(b), attributes=kept).named("h")
        return op.Relu(op.Add(conv, z)).named("y")

    def check(self, w: ir.Value, h: ir.Value, z: ir.Value) -> Match:
        return Match.all(w.dtype == ir.DataType.FLOAT, same_shape(h, z))

    def rewrite(
        self,
        op: Builder,
        x: ir.Value,
        w: ir.Value,
        b: ir.Value | None,
        z: ir.Value,
        kept: Attributes,
        y: ir.Value,
    ) -> ir.Value:
        return _fused(op, (x, w, b, z), kept, y)


RUNTIME_RULES: tuple[Rewrite, ...] = (FuseConvBiasWithZ(), FuseConvBiasNonlinearity())
"""Only onnxruntime runs what they make."""

_MARK = "onnxgrad.runs_only_on"


def chosen(nonlinearity: bool, with_z: bool) -> tuple[Rewrite, ...]:
    """The rewrites that these options ask for, the larger pattern first."""
    wanted = dict(zip(RUNTIME_RULES, (with_z, nonlinearity), strict=True))
    return tuple(rule for rule, is_wanted in wanted.items() if is_wanted)


def fuse_for_onnxruntime(scope: Scope, rules: Sequence[Rewrite]) -> dict[str, int]:
    """Apply these rewrites, and mark the model as not portable if they did anything; how often each did.

    The mark is the entry "onnxgrad.runs_only_on" of the metadata of the model.
    """
    record: dict[str, Hits] = {}
    with hidden_defaults(scope.model.graph):
        if apply_rewrites(scope, rules, record):
            scope.forget_graphs()
            scope.model.metadata_props[_MARK] = "onnxruntime"
    return {name: found.hits for name, found in record.items() if found.hits}
