"""Rewrites: a pattern of nodes, a check, and what takes its place; and the walk that applies many of them.

class MatMulAddToGemm(Rewrite):
    \"\"\"Add(MatMul(a, b), c) -> Gemm(a, b, c), for 2-D a and b and a bias that broadcasts one way.\"\"\"

    def pattern(self, op: Ops, a: Leaf, b: Leaf, c: Leaf) -> Pattern:
        return op.Add(op.MatMul(a, b), c)

    def check(self, a: ir.Value, b: ir.Value, c: ir.Value) -> Match:
        return Match.all(rank(a) == 2, rank(b) == 2, broadcasts_into(c, (dim(a, 0), dim(b, 1))))

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return op.Gemm(a, b, c)
"""

import ast
import inspect
import re
import textwrap
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import onnx_ir as ir

from onnxgrad.engine.errors import ShapeError
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.passes.edit import is_dead, kinds_differ, needs_identity, remove_dead, replace_value
from onnxgrad.engine.passes.match import EMPTY, Fit, Matcher, kinds_of, may_fit, outputs_in, parameters_in
from onnxgrad.engine.passes.pattern import ANY, Leaf, NodePattern, Ops, Output, Pattern, depth, roots, starts_of
from onnxgrad.engine.passes.scope import Scope

__all__ = ["ANY", "Builder", "Hits", "Leaf", "Match", "Ops", "Output", "Pattern", "Rewrite", "apply_rewrites"]


@dataclass(frozen=True)
class Match:
    """The answer of a check: true, or false with a reason."""

    holds: bool
    reason: str = ""
    condition: int | None = None
    """Which argument of Match.all was false, where it came without a reason."""

    def __bool__(self) -> bool:
        return self.holds

    @staticmethod
    def all(*conditions: "bool | Match") -> "Match":
        """True if all are. The reason is that of the first that is not; of a plain bool, its source text."""
        for index, condition in enumerate(conditions):
            if not condition:
                return condition if isinstance(condition, Match) else Match(False, condition=index)
        return Match(True)

    @staticmethod
    def when(condition: bool, reason: str) -> "Match":
        """True if the condition is; `reason` says why not otherwise."""
        return Match(True) if condition else Match(False, reason)

    @staticmethod
    def no(reason: str) -> "Match":
        """False, because of this."""
        return Match(False, reason)


class Rewrite:
    """One rewrite. Its name is that of the class in snake_case; the docstring is what `--list-passes` shows.

    pattern(op, x, ...): what is looked for. Its parameters are leaves; interior values are bound with `.named("h")`.
    check(x, ...): whether it may be rewritten; takes any of what the pattern binds, by name, and `opset`, the version
      of ai.onnx that holds there. May be left out.
    rewrite(op, x, ...): builds the replacement in front of the last node of the match; takes any of what is bound.
      Returns a value per output of the pattern: one value, or a tuple where the pattern is one.

    Values inside a match have no readers outside it, and are no graph outputs, unless the pattern says `.keep()`.
    All nodes of a match are in one graph; leaves may come from graphs around it.
    since: the first opset that has the operators of the replacement; graphs of older ones are left alone.
    """

    since: ClassVar[int] = 1
    pattern: Callable[..., Pattern | tuple[Pattern, ...]]
    check: ClassVar[Callable[..., Match]]
    rewrite: Callable[..., ir.Value | tuple[ir.Value, ...]]

    @cached_property
    def name(self) -> str:
        """MatMulAddToGemm -> mat_mul_add_to_gemm."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The pattern of each output that is replaced; the first is where the search begins."""
        leaves = [Leaf(name) for name in list(inspect.signature(self.pattern).parameters)[1:]]
        made = self.pattern(Ops(), *leaves)
        return made if isinstance(made, tuple) else (made,)

    @cached_property
    def known(self) -> frozenset[str]:
        """All parameters that the pattern may bind, and `opset`."""
        bound = {name for pattern in self.patterns for name in parameters_in(pattern) if name}
        return frozenset(bound | {"opset"})

    @cached_property
    def kept(self) -> frozenset[tuple[object, int]]:
        """The interior outputs that others may read."""
        outputs = (output for pattern in self.patterns for output in outputs_in(pattern))
        return frozenset((output.node, output.index) for output in outputs if output.kept)

    @cached_property
    def check_parameters(self) -> tuple[str, ...]:
        """What check takes."""
        method = getattr(self, "check", None)
        return () if method is None else self._names(method, 0)

    @cached_property
    def rewrite_parameters(self) -> tuple[str, ...]:
        """What rewrite takes, after the builder."""
        return self._names(self.rewrite, 1)

    def _names(self, method: Callable[..., object], skipped: int) -> tuple[str, ...]:
        names = tuple(inspect.signature(method).parameters)[skipped:]
        if unknown := set(names) - self.known:
            raise TypeError(f"{type(self).__name__}.{method.__name__} takes {unknown}, which its pattern does not bind")
        return names

    def examine(self, fit: Fit) -> Match:
        """The answer of the check, with a reason where it is false."""
        method = getattr(self, "check", None)
        if method is None:
            return Match(True)
        answer: Match = method(*(fit.bound.get(name) for name in self.check_parameters))
        if answer or answer.condition is None:
            return answer
        conditions = self._conditions
        text = conditions[answer.condition] if answer.condition < len(conditions) else "a condition"
        return Match(False, f"not {text}")

    @cached_property
    def _conditions(self) -> tuple[str, ...]:
        """The source of the conditions of the only Match.all in check, else nothing."""
        method = getattr(self, "check", None)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(method)))  # type: ignore[arg-type]
        except (OSError, TypeError, SyntaxError):
            return ()  # no source at hand (a frozen program)
        calls = [c for c in ast.walk(tree) if isinstance(c, ast.Call) and ast.unparse(c.func) == "Match.all"]
        return tuple(map(ast.unparse, calls[0].args)) if len(calls) == 1 else ()


@dataclass
class Hits:
    """What a pass or rewrite did: how often, and why not where it nearly did."""

    hits: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def apply_rewrites(scope: Scope, rules: Sequence[Rewrite], record: dict[str, Hits]) -> int:
    """Apply rewrites wherever they fit, in every graph of the model, until none does; returns how often one did."""
    return sum(_Walk(scope, graph, rules, record).run() for graph in scope.graphs() if scope.opset(graph))


class _Walk:
    """One graph: a work list of nodes, to which the neighbourhood of every change is added again."""

    def __init__(self, scope: Scope, graph: ir.Graph, rules: Sequence[Rewrite], record: dict[str, Hits]) -> None:
        self._scope, self._graph, self._record = scope, graph, record
        self._matcher = Matcher(graph, scope.opset(graph))
        self._start = EMPTY.bind("opset", scope.opset(graph))
        self._rules: dict[tuple[str, str], list[tuple[Rewrite, list[NodePattern]]]] = {}
        for rule in rules:
            for root in roots(rule.patterns[0]) if rule.since <= scope.opset(graph) else ():
                starts = [start for start in starts_of(rule.patterns[0]) if root[1] in start.op_types]
                self._rules.setdefault(root, []).append((rule, starts))
        self._reach = max((depth(pattern) for rule in rules for pattern in rule.patterns), default=0)
        self._queue: OrderedDict[ir.Node, None] = OrderedDict()

    def run(self) -> int:
        """Work until the list is empty, or a bound says that rules undo each other."""
        rooted = (node for node in self._graph if (node.domain, node.op_type) in self._rules)
        self._queue = OrderedDict.fromkeys(rooted)
        count, bound = 0, 20 * len(self._graph) + 1000
        while self._queue and count < bound:
            node, _ = self._queue.popitem(last=False)
            if node.graph is self._graph and self._visit(node):
                count += 1
        return count

    def _visit(self, node: ir.Node) -> bool:
        kinds, op_type = kinds_of(node), node.op_type
        for rule, starts in self._rules[node.domain, op_type]:
            if any(may_fit(start, op_type, kinds) for start in starts) and self._try(rule, node):
                return True
        return False

    def _try(self, rule: Rewrite, node: ir.Node) -> bool:
        for output in node.outputs:
            for fit in self._matcher.value(rule.patterns[0], output, self._start):
                for whole, tops in self._others(rule.patterns[1:], fit, (output,)):
                    if not self._is_closed(rule, whole, tops):
                        continue
                    answer = rule.examine(whole)
                    if answer and self._apply(rule, whole, tops):
                        return True
                    if answer.reason:
                        self._hits(rule).reasons[answer.reason] += 1
        return False

    def _hits(self, rule: Rewrite) -> Hits:
        return self._record.setdefault(rule.name, Hits())

    def _others(
        self, patterns: Sequence[Pattern], fit: Fit, tops: tuple[ir.Value, ...]
    ) -> Iterator[tuple[Fit, tuple[ir.Value, ...]]]:
        """The ways in which the further outputs of a pattern fit: made by a node of the match, or by one beside it."""
        if not patterns:
            yield fit, tops
            return
        for node in _candidates(patterns[0], fit):
            for output in node.outputs:
                if output in tops:
                    continue
                for found in self._matcher.value(patterns[0], output, fit):
                    yield from self._others(patterns[1:], found, (*tops, output))

    def _is_closed(self, rule: Rewrite, fit: Fit, tops: Sequence[ir.Value]) -> bool:
        """Whether nothing outside the match reads what is inside it."""
        nodes = set(fit.nodes.values())
        for pattern, node in fit.nodes.items():
            for index, output in enumerate(node.outputs):
                if output in tops or (pattern, index) in rule.kept:
                    continue
                if output.is_graph_output() or any(user not in nodes for user, _ in output.uses()):
                    return False
        return True

    def _apply(self, rule: Rewrite, fit: Fit, tops: Sequence[ir.Value]) -> bool:
        before = self._place(fit, tops)
        if before is None:
            self._hits(rule).reasons["the outputs have no common place"] += 1
            return False
        op = self._scope.builder(self._graph, before=before)
        try:
            answer = rule.rewrite(op, *(fit.bound.get(name) for name in rule.rewrite_parameters))
            results = answer if isinstance(answer, tuple) else (answer,)
            refusal = next(filter(None, map(_refusal, tops, results)), "")
        except ShapeError as error:  # a model whose shapes contradict each other
            refusal = str(error)
        if refusal:
            remove_dead(reversed(op.made))
            self._hits(rule).reasons[refusal] += 1
            return False
        self._replace(fit, tops, results, op.made)
        self._hits(rule).hits += 1
        return True

    def _place(self, fit: Fit, tops: Sequence[ir.Value]) -> ir.Node | None:
        """The node to write in front of: after all that the match reads, before all that reads its outputs."""
        makers = {maker for value in tops if (maker := value.producer()) is not None}
        if len(makers) == 1:
            return makers.pop()
        order = {node: index for index, node in enumerate(self._graph)}
        first = min(makers, key=order.__getitem__)
        inside = set(fit.nodes.values())
        read = (value.producer() for node in inside for value in node.inputs if value is not None)
        outside = {maker for maker in read if maker is not None and maker in order} - inside
        return first if all(order[maker] < order[first] for maker in outside) else None

    def _replace(
        self, fit: Fit, tops: Sequence[ir.Value], results: Sequence[ir.Value], made: Sequence[ir.Node]
    ) -> None:
        inside = list(fit.nodes.values())
        read = [value for node in inside for value in node.inputs if value is not None]
        _describe_made(made, tops)
        for domain in {node.domain for node in made if node.domain}:
            self._scope.import_domain(self._graph, domain)
        changed = [
            replace_value(self._scope, old, new, fresh=new.producer() in made)
            for old, new in zip(tops, results, strict=True)
        ]
        for old, new in zip(tops, changed, strict=True):
            _pass_name_on(old.producer(), new.producer(), made)
        remove_dead([*inside, *reversed(made)])
        near = [*made, *(user for value in (*changed, *read) for user, _ in value.uses())]
        self._requeue(near)

    def _requeue(self, near: Iterable[ir.Node]) -> None:
        """Visit these nodes, and those that read from them as far as a pattern reaches."""
        front, seen = list(near), dict.fromkeys(near)
        for _ in range(self._reach):
            front = [user for node in front for output in node.outputs for user, _ in output.uses() if user not in seen]
            seen.update(dict.fromkeys(front))
            if len(seen) > _NEIGHBOURS:
                break
        for node in seen:
            if node.graph is self._graph and (node.domain, node.op_type) in self._rules:
                self._queue[node] = None


_NEIGHBOURS = 256


def _candidates(pattern: Pattern, fit: Fit) -> list[ir.Node]:
    """The nodes that may make a further output: the one that the match holds, or readers of a value in the match."""
    if not isinstance(pattern, Output):
        return []
    if pattern.node in fit.nodes:
        return [fit.nodes[pattern.node]]
    for output in outputs_in(pattern):
        for operand in output.node.inputs:
            value = _bound_value(operand, fit)
            if value is not None:
                return _readers_up_to(value, depth(pattern), roots(pattern))
    return []


def _bound_value(operand: Pattern, fit: Fit) -> ir.Value | None:
    if isinstance(operand, Output) and operand.node in fit.nodes:
        return fit.nodes[operand.node].outputs[operand.index]
    bound = fit.bound.get(operand.name) if isinstance(operand, Leaf) else None
    return bound if isinstance(bound, ir.Value) else None


def _readers_up_to(value: ir.Value, steps: int, kinds: frozenset[tuple[str, str]]) -> list[ir.Node]:
    front, found = [value], dict[ir.Node, None]()
    for _ in range(steps):
        nodes = dict.fromkeys(user for read in front for user, _ in read.uses())
        found.update(nodes)
        front = [output for node in nodes for output in node.outputs]
    return [node for node in found if (node.domain, node.op_type) in kinds]


def _refusal(old: ir.Value, new: ir.Value) -> str:
    maker = old.producer()
    if new is old or (maker is not None and maker.op_type == "Identity" and needs_identity(old, new)):
        return "nothing would change"
    return kinds_differ(old, new)


def _describe_made(made: Sequence[ir.Node], tops: Sequence[ir.Value]) -> None:
    """New nodes inherit the metadata of the node that they replace."""
    maker = tops[0].producer()
    for node in made if maker is not None else ():
        node.metadata_props.update(maker.metadata_props)  # type: ignore[union-attr]


def _pass_name_on(old: ir.Node | None, new: ir.Node | None, made: Sequence[ir.Node]) -> None:
    """The node that makes the replacement takes the name of the one that goes."""
    if old is not None and new is not None and new in made and is_dead(old):
        new.name, old.name = old.name, new.name
