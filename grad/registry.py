"""The table of gradient rules, keyed by (domain, op_type, opset range)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.errors import GradientRuleMissing
from onnxgrad.engine.ir.builder import Builder, describe

Grads = Sequence[ir.Value | None] | Mapping[ir.Value, ir.Value]
"""What a rule returns: a gradient (or None) for each input of the node, or a map from values (inputs of the node and
outer values that its sub-graphs capture) to their gradients."""

RuleFunction = Callable[..., Grads]
PullBack = Callable[
    ["GradientBuilder", Sequence[ir.Node], Mapping[ir.Value, ir.Value], Collection[ir.Value]], dict[ir.Value, ir.Value]
]


class GradientBuilder(Builder):
    """The builder that rules get. `wanted` holds the values that need a gradient; `pull_back` runs the walk on the
    nodes of a sub-graph: (builder to write with, nodes, gradients of their results, values wanted) -> gradients.
    in_place: whether a node that only its function body gives a gradient is replaced by that; else both are kept.
    follow: is told of the outputs of such nodes, and what took their places."""

    pull_back: PullBack
    wanted: Collection[ir.Value] = ()
    in_place: bool = True
    follow: Callable[[ir.Value, ir.Value], None] | None = None

    def wants(self, value: ir.Value | None) -> bool:
        """Whether somebody needs the gradient of `value`: lets a rule leave out costly or impossible parts."""
        return value is not None and value in self.wanted


@dataclass(frozen=True)
class Rule:
    """How one operator is differentiated in opsets since <= opset < until.

    function: (op, node, *gradients of the outputs) -> Grads, or None if the operator is declared without a gradient,
    for `reason`. broadcasts: the walk sums each result back to the shape of its operand. note: conventions, for
    docs/gradients.md.
    """

    domain: str
    op_type: str
    function: RuleFunction | None
    since: int = 1
    until: int | None = None
    broadcasts: bool = False
    reason: str = ""
    note: str = ""

    def covers(self, opset: int) -> bool:
        """Whether the rule holds in this opset."""
        return self.since <= opset and (self.until is None or opset < self.until)


RULES: dict[tuple[str, str], list[Rule]] = {}
_CHANGES = [0]


def gradient(
    *op_types: str,
    domain: str = "",
    since: int = 1,
    until: int | None = None,
    broadcasts: bool = False,
    note: str = "",
) -> Callable[[RuleFunction], RuleFunction]:
    """Make the decorated function the package's own gradient rule of `op_types`, behind those that users registered.

    The function gets (op, node, *dys): the builder, the forward node, and the gradient of each of its outputs (None for
    an output that has none; the only output of a node always has one). It emits nodes through `op` and returns `Grads`.
    """

    def register(function: RuleFunction) -> RuleFunction:
        for op_type in op_types:
            rule = Rule(domain, op_type, function, since, until, broadcasts, note=note)
            RULES.setdefault((domain, op_type), []).append(rule)
        return function

    return register


def no_gradient(*op_types: str, reason: str, domain: str = "") -> None:
    """Declare operators whose outputs do not vary smoothly with their inputs: the walk stops there."""
    for op_type in op_types:
        RULES.setdefault((domain, op_type), []).append(Rule(domain, op_type, None, reason=reason))


def register_gradient(
    op_type: str, *, domain: str = "", since: int = 1, until: int | None = None, broadcasts: bool = False
) -> Callable[[RuleFunction], RuleFunction]:
    """Give a custom operator a gradient, or a standard one another gradient. A decorator.

    The decorated function gets (op, node, *dys): a builder (`op.Mul(dy, x)` adds a node), the forward node (an
    onnx_ir.Node), and the gradients of its outputs. It returns one gradient, or None, for each input of the node.
    `since` and `until` bound the opsets of `domain` that it holds for. What is registered last goes first.

        @og.register_gradient("Square", domain="my.ops")
        def square(op, node, dy):
            (x,) = node.inputs
            return (op.Mul(dy, op.Mul(x, 2.0)),)
    """

    def register(function: RuleFunction) -> RuleFunction:
        rule = Rule(domain, op_type, function, since, until, broadcasts)
        RULES.setdefault((domain, op_type), []).insert(0, rule)
        _CHANGES[0] += 1
        return function

    return register


def changes() -> int:
    """How often users have registered a rule: what was made from the table before holds while this number stays."""
    return _CHANGES[0]


def find_rule(node: ir.Node, opset: int) -> Rule | None:
    """The rule for `node` where its domain is imported at version `opset`; None if there is none."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    return next((rule for rule in RULES.get((domain, node.op_type), ()) if rule.covers(opset)), None)


def missing(node: ir.Node) -> GradientRuleMissing:
    """The error for a node that has no rule and no function body."""
    name = f"{node.domain or 'ai.onnx'}::{node.op_type}"
    output = node.outputs[0].name if node.outputs else ""
    domain = f", domain={node.domain!r}" if node.domain else ""
    return GradientRuleMissing(
        f"no gradient rule for {name}",
        where=describe(node),
        fix=f'register one with @og.register_gradient("{node.op_type}"{domain}), '
        f"or cut the path with og.stop_gradient({output!r})",
    )
