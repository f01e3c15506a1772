"""Patterns of nodes, written by calling operators: `op.Add(op.MatMul(a, b), c)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

Scalar = int | float | bool
Content = Scalar | Sequence[int] | Sequence[float] | np.ndarray
AttributePattern = "Leaf | int | float | str | Sequence[int] | Sequence[str] | None"

COMMUTATIVE: Final = frozenset(
    {"Add", "Mul", "And", "Or", "Xor", "Equal", "Max", "Min", "Sum", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}
)


class Anything:
    """The type of ANY."""

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = Anything()
"""`attributes=ANY`: the attributes that a pattern does not name may have any value."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """A parameter of a pattern: any value, or an attribute where it stands as one. Bound to what it meets."""

    name: str
    optional: bool = False
    many: bool = False
    constant: bool = False


@dataclass(frozen=True, eq=False)
class Literal:
    """A constant of this value: a number (one element, of any rank) or a list or array (same shape)."""

    value: Content


@dataclass(frozen=True, eq=False)
class NodePattern:
    """A node of one of `op_types`. `rest` says what the attributes that are not named must be: their defaults (None),
    anything (ANY), or anything, bound as a dict (a Leaf)."""

    op_types: frozenset[str]
    domain: str
    inputs: tuple[Pattern, ...]
    attributes: tuple[tuple[str, object], ...]
    rest: Leaf | Anything | None

    @cached_property
    def demands(self) -> tuple[tuple[int, frozenset[str]], ...]:
        """Input -> the operators one of which must make it; CONSTANT where it must be a constant. Others are left out.

        What most nodes fail, and is quick to ask.
        """
        asked = ((index, _demand(operand)) for index, operand in enumerate(self.inputs))
        return tuple((index, demand) for index, demand in asked if demand is not None)

    @cached_property
    def most_inputs(self) -> int | None:
        """The number of inputs that it takes at most; None for any number."""
        return None if any(isinstance(operand, Leaf) and operand.many for operand in self.inputs) else len(self.inputs)


@dataclass(frozen=True, eq=False)
class Output:
    """An output of a node. `name` binds it; `kept`: others may read it, and it stays when they do."""

    node: NodePattern
    index: int
    name: str = ""
    kept: bool = False

    def named(self, name: str) -> Output:
        """The same, bound to this parameter of check and rewrite. To be used in the place of the first."""
        return replace(self, name=name)

    def keep(self) -> Output:
        """The same, but other nodes and graph outputs may read it: it then stays beside what replaces the match."""
        return replace(self, kept=True)


@dataclass(frozen=True, eq=False)
class Either:
    """One of several patterns; the first that fits counts. Parameters that it does not bind are None."""

    options: tuple[Pattern, ...]


Pattern = Leaf | Literal | Output | Either
Operand = Pattern | Content | None
"""What stands as an input in a pattern; None is an input that must be absent."""

_ABSENT: Final = Leaf("", optional=True)


class Ops:
    """Makes patterns. `op.Conv(x, w, op.optional(b), attributes=kept)`.

    Inputs are parameters, patterns, numbers and lists (constants of that value), None (absent). Attributes are values
    that they must have (given or by default), or parameters that are bound to them. Attributes that are not named must
    have their default, unless `attributes=` is ANY or a parameter, which is bound to a dict of them. Operators that
    commute match either way round.
    """

    outputs_of: ClassVar[type[Output]] = Output

    def __getattr__(self, op_type: str) -> Callable[..., Output]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def emit(
            *inputs: Operand, domain: str = "", attributes: Leaf | Anything | None = None, **named: object
        ) -> Output:
            return Output(_node(frozenset({op_type}), inputs, domain, attributes, named), 0)

        return emit

    def one_of(
        self,
        op_types: Sequence[str],
        *inputs: Operand,
        domain: str = "",
        attributes: Leaf | Anything | None = None,
        **named: object,
    ) -> Output:
        """A node of any of these operators; name it to see which."""
        return Output(_node(frozenset(op_types), inputs, domain, attributes, named), 0)

    def node(
        self,
        op_type: str,
        *inputs: Operand,
        outputs: int,
        domain: str = "",
        attributes: Leaf | Anything | None = None,
        **named: object,
    ) -> tuple[Output, ...]:
        """A node with several outputs."""
        made = _node(frozenset({op_type}), inputs, domain, attributes, named)
        return tuple(Output(made, index) for index in range(outputs))

    def either(self, *options: Pattern) -> Either:
        """One of these patterns."""
        return Either(options)

    def optional(self, leaf: Leaf) -> Leaf:
        """An input that may be absent: the parameter is None then."""
        return replace(leaf, optional=True)

    def many(self, leaf: Leaf) -> Leaf:
        """All remaining inputs: the parameter is a tuple. Must stand last."""
        return replace(leaf, many=True)

    def constant(self, leaf: Leaf) -> Leaf:
        """An input that is a constant of any value: an initializer that no input overrides, or a Constant."""
        return replace(leaf, constant=True)

    def const(self, value: Content) -> Literal:
        """A constant of this value: a number (one element, of any rank) or a list or array (same shape)."""
        return Literal(value)


def _node(
    op_types: frozenset[str],
    inputs: Sequence[Operand],
    domain: str,
    rest: Leaf | Anything | None,
    named: dict[str, object],
) -> NodePattern:
    operands = tuple(
        value if isinstance(value, Pattern) else _ABSENT if value is None else Literal(value) for value in inputs
    )
    return NodePattern(op_types, domain, operands, tuple(named.items()), rest)


CONSTANT: Final = frozenset[str]()
"""A demand of `NodePattern.demands`."""


def _demand(operand: Pattern) -> frozenset[str] | None:
    if isinstance(operand, Output):
        return operand.node.op_types
    if isinstance(operand, Literal):
        return CONSTANT
    if isinstance(operand, Leaf):
        return CONSTANT if operand.constant and not operand.optional and not operand.many else None
    demands = [_demand(option) for option in operand.options]
    if not all(demands):
        return None  # one of them is free, or a constant
    return frozenset().union(*(demand for demand in demands if demand is not None))


def depth(pattern: Pattern) -> int:
    """The number of nodes on the longest way through a pattern."""
    if isinstance(pattern, Output):
        return 1 + max((depth(operand) for operand in pattern.node.inputs), default=0)
    if isinstance(pattern, Either):
        return max(map(depth, pattern.options))
    return 0


def starts_of(pattern: Pattern) -> list[NodePattern]:
    """The nodes that may make what the pattern describes."""
    if isinstance(pattern, Output):
        return [pattern.node]
    return [start for option in pattern.options for start in starts_of(option)] if isinstance(pattern, Either) else []


def roots(pattern: Pattern) -> frozenset[tuple[str, str]]:
    """(domain, op_type) of the nodes that may make what the pattern describes."""
    return frozenset((start.domain, op_type) for start in starts_of(pattern) for op_type in start.op_types)
