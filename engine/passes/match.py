"""Find a pattern in a graph: the ways in which it fits at a node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir

from onnxgrad.engine.ir.signatures import AttributeValue
from onnxgrad.engine.passes.pattern import (
    COMMUTATIVE,
    Anything,
    Either,
    Leaf,
    Literal,
    NodePattern,
    Output,
    Pattern,
)
from onnxgrad.engine.passes.queries import equals, is_constant

Bound = object
"""What a parameter is bound to: ir.Value | None, a tuple of values, an attribute's Python value, a dict of them."""


@dataclass(frozen=True)
class Fit:
    """One way in which a pattern fits: what its parameters are bound to, and the node that each NodePattern met."""

    bound: Mapping[str, Bound]
    nodes: Mapping[NodePattern, ir.Node]

    def bind(self, name: str, value: Bound) -> "Fit":
        """The same with one more parameter."""
        return Fit({**self.bound, name: value}, self.nodes)


EMPTY = Fit({}, {})


class Matcher:
    """Matches in one graph; `opset` decides the defaults of attributes."""

    def __init__(self, graph: ir.Graph, opset: int) -> None:
        self._graph = graph
        self._opset = opset

    def value(self, pattern: Pattern, value: ir.Value | None, fit: Fit) -> Iterator[Fit]:
        """The ways in which `pattern` fits `value`, given what is bound already."""
        if isinstance(pattern, Leaf):
            if _leaf_takes(pattern, value):
                yield from _bind(fit, pattern.name, value)
        elif isinstance(pattern, Literal):
            if equals(value, pattern.value):
                yield fit
        elif isinstance(pattern, Either):
            for option in pattern.options:
                yield from self.value(option, value, fit)
        elif value is not None and (node := value.producer()) is not None and value.index() == pattern.index:
            for found in self.node(pattern.node, node, fit):
                yield from _bind(found, pattern.name, value)

    def node(self, pattern: NodePattern, node: ir.Node, fit: Fit) -> Iterator[Fit]:
        """The ways in which `pattern` fits `node`."""
        if pattern in fit.nodes:
            if fit.nodes[pattern] is node:
                yield fit
            return
        if node.op_type not in pattern.op_types or node.domain != pattern.domain or node.graph is not self._graph:
            return
        if not may_fit(pattern, node.op_type, kinds_of(node)):
            return
        bound = self._attributes(pattern, node, fit)
        if bound is None:
            return
        begun = Fit(bound.bound, {**bound.nodes, pattern: node})
        operands = list(node.inputs)
        while operands and operands[-1] is None:
            operands.pop()
        swaps = node.op_type in COMMUTATIVE and len(pattern.inputs) == len(operands) == 2
        yield from self._inputs(pattern.inputs, operands, begun)
        if swaps and operands[0] is not operands[1]:
            yield from self._inputs(pattern.inputs, operands[::-1], begun)

    def _inputs(self, patterns: tuple[Pattern, ...], operands: list[ir.Value | None], fit: Fit) -> Iterator[Fit]:
        if not patterns:
            if not operands:
                yield fit
            return
        first, rest = patterns[0], patterns[1:]
        if isinstance(first, Leaf) and first.many:
            if all(value is not None for value in operands):
                yield from _bind(fit, first.name, tuple(operands))
            return
        for found in self.value(first, operands[0] if operands else None, fit):
            yield from self._inputs(rest, operands[1:], found)

    def _attributes(self, pattern: NodePattern, node: ir.Node, fit: Fit) -> Fit | None:
        given_attributes = node.attributes
        if not given_attributes and not pattern.attributes and not isinstance(pattern.rest, Leaf):
            return fit
        if any(attribute.is_ref() for attribute in given_attributes.values()):
            return None  # the value is known where the function is called
        defaults = default_attributes(node.domain, node.op_type, self._opset)
        rest = {name: attribute.value for name, attribute in given_attributes.items()}
        for name, wanted in pattern.attributes:
            given = rest.pop(name, defaults.get(name))
            if isinstance(wanted, Leaf):
                again = next(_bind(fit, wanted.name, _plain(given)), None)
                if again is None:
                    return None
                fit = again
            elif not _same_attribute(given, wanted):
                return None
        if isinstance(pattern.rest, Leaf):
            return next(_bind(fit, pattern.rest.name, {name: _plain(value) for name, value in rest.items()}), None)
        if isinstance(pattern.rest, Anything):
            return fit
        return fit if all(_same_attribute(value, defaults.get(name)) for name, value in rest.items()) else None


Kind = tuple[str, bool]
"""Of an operand: the operator that makes it, or "", and whether it may be a constant."""


def kinds_of(node: ir.Node) -> list[Kind | None]:
    """The kinds of the inputs of a node up to the last that is there; None for those that are absent."""
    kinds: list[Kind | None] = []
    for value in node.inputs:
        maker = None if value is None else value.producer()
        kind = "" if maker is None else maker.op_type
        kinds.append(None if value is None else (kind, value.const_value is not None or kind == "Constant"))
    while kinds and kinds[-1] is None:
        kinds.pop()
    return kinds


def may_fit(pattern: NodePattern, op_type: str, kinds: list[Kind | None]) -> bool:
    """Whether the inputs of a node are of the kinds that a pattern asks for: false for most nodes, and soon."""
    if pattern.most_inputs is not None and len(kinds) > pattern.most_inputs:
        return False
    if _are_right(pattern, kinds):
        return True
    return len(kinds) == 2 and op_type in COMMUTATIVE and _are_right(pattern, kinds[::-1])


def _are_right(pattern: NodePattern, kinds: list[Kind | None]) -> bool:
    count = len(kinds)
    for index, demand in pattern.demands:
        kind = kinds[index] if index < count else None
        if kind is None or not (kind[0] in demand if demand else kind[1]):
            return False
    return True


def _leaf_takes(leaf: Leaf, value: ir.Value | None) -> bool:
    if value is None:
        return leaf.optional
    return leaf.name != "" and (not leaf.constant or is_constant(value))


def _bind(fit: Fit, name: str, value: Bound) -> Iterator[Fit]:
    if not name:
        yield fit
    elif name not in fit.bound:
        yield fit.bind(name, value)
    else:
        known = fit.bound[name]
        if known is value or (not isinstance(known, ir.Value) and _same_attribute(known, value)):
            yield fit


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _same_attribute(given: object, wanted: object) -> bool:
    if given is None or wanted is None:
        return given is wanted
    if isinstance(given, (list, tuple)) and isinstance(wanted, (list, tuple, np.ndarray)):
        return len(given) == len(wanted) and list(given) == list(wanted)
    if isinstance(given, float) and isinstance(wanted, (int, float)):
        return float(np.float32(given)) == float(np.float32(wanted))
    return bool(given == wanted)


@cache
def default_attributes(domain: str, op_type: str, opset: int) -> Mapping[str, AttributeValue]:
    """The values that attributes have where a node leaves them out; empty for operators that are not standard."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, "") if domain == "" else onnx.defs.get_schema(op_type, domain)
    except onnx.defs.SchemaError:
        return {}
    found: dict[str, AttributeValue] = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name:
            value = ir.serde.deserialize_attribute(attribute.default_value).value
            found[name] = value
    return found


def outputs_in(pattern: Pattern) -> Iterator[Output]:
    """Every Output in a pattern, the outermost first."""
    if isinstance(pattern, Output):
        yield pattern
        for operand in pattern.node.inputs:
            yield from outputs_in(operand)
    elif isinstance(pattern, Either):
        for option in pattern.options:
            yield from outputs_in(option)


def parameters_in(pattern: Pattern) -> Iterator[str]:
    """The names of all parameters that a pattern may bind."""
    if isinstance(pattern, Leaf):
        yield pattern.name
    for output in outputs_in(pattern):
        yield output.name
        for operand in output.node.inputs:
            yield from parameters_in(operand)
        yield from (value.name for _, value in output.node.attributes if isinstance(value, Leaf))
        if isinstance(output.node.rest, Leaf):
            yield output.node.rest.name
