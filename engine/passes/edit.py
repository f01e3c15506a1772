"""Changes of a graph that keep it valid: one value in the place of another, nodes that nobody reads removed."""

from collections.abc import Iterable, Iterator

import onnx_ir as ir

from onnxgrad.engine.ir.builder import describe_value
from onnxgrad.engine.ir.names import bodies
from onnxgrad.engine.passes.scope import Scope


def needs_identity(old: ir.Value, new: ir.Value) -> bool:
    """Whether `new` can stand for `old` only through an Identity: `old` is a graph output, and `new` is an input, an
    initializer, made in another graph, or a graph output already."""
    if not old.is_graph_output():
        return False
    maker = new.producer()
    return maker is None or maker.graph is not old.graph or new.is_graph_output()


def replace_value(scope: Scope, old: ir.Value, new: ir.Value, *, fresh: bool) -> ir.Value:
    """Let everything that reads `old` read `new`; returns what did replace it.

    Graph outputs keep their names and declared types. `fresh`: `new` was made to replace `old`, and takes its name.
    What is known of the shape of `old` is added to that of `new`.
    """
    is_output = old.is_graph_output()
    if needs_identity(old, new):
        new, fresh = _identity(scope, old, new), True
    if new.producer() is not None:
        _merge_shapes(old, new, declared=is_output)
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    if is_output or (fresh and not new.is_graph_output()):
        new.name, old.name = old.name, None
    scope.moved[old] = new
    return new


def kinds_differ(old: ir.Value, new: ir.Value) -> str:
    """Why `new` cannot stand for `old`: another type, or certainly another shape; "" where nothing speaks against it.

    The declared shapes of graph outputs count for nothing here: files have wrong ones.
    """
    if old.type is not None and new.type is not None and old.type != new.type:
        return f"{describe_value(new)} is of another type than {describe_value(old)}"
    if old.shape is None or new.shape is None or old.is_graph_output():
        return ""
    pairs = zip(old.shape, new.shape, strict=False)
    if len(old.shape) != len(new.shape) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
        return f"{describe_value(new)} has another shape than {describe_value(old)}"
    return ""


def _identity(scope: Scope, old: ir.Value, new: ir.Value) -> ir.Value:
    maker = old.producer()
    assert maker is not None and maker.graph is not None
    return scope.builder(maker.graph, before=maker).Identity(new)


def _merge_shapes(old: ir.Value, new: ir.Value, *, declared: bool) -> None:
    if new.type is None:
        new.type = old.type
    if old.shape is None or new.shape is None or declared:
        new.shape = old.shape or new.shape
        return
    pairs = zip(old.shape.dims, new.shape.dims, strict=True)
    new.shape = ir.Shape([b if isinstance(b, int) else a for a, b in pairs])


def remove_dead(nodes: Iterable[ir.Node]) -> int:
    """Remove those of `nodes` that nobody reads, and then what only they read; returns how many went."""
    pending, removed = list(nodes), 0
    while pending:
        node = pending.pop()
        if node.graph is None or not is_dead(node):
            continue
        pending.extend(remove(node))
        removed += 1
    return removed


def is_dead(node: ir.Node) -> bool:
    """Whether nothing reads any output of `node`."""
    return not any(output.uses() or output.is_graph_output() for output in node.outputs)


def remove(node: ir.Node) -> list[ir.Node]:
    """Take a node out of its graph, with the uses that it and its bodies hold; returns who made what they read."""
    graph = node.graph
    assert graph is not None
    makers: dict[ir.Node, None] = {}
    for inner in [node, *_inner_nodes(node)]:
        for index, value in enumerate(inner.inputs):
            if value is None:
                continue
            if (maker := value.producer()) is not None:
                makers[maker] = None
            inner.replace_input_with(index, None)
    graph.remove(node)
    return [maker for maker in makers if maker.graph is not None]


def _inner_nodes(node: ir.Node) -> Iterator[ir.Node]:
    for body in bodies(node):
        yield from body.all_nodes()


def move_nodes(scope: Scope, source: ir.Graph, before: ir.Node) -> list[ir.Node]:
    """Take all nodes out of a body and put them in front of a node of the graph around it, under fresh names.

    The initializers of the body become Constant nodes. Its inputs and outputs are the caller's business.
    """
    target = before.graph
    assert target is not None and not isinstance(target, ir.Function)
    names = scope.builder(target).names
    constants = [_as_constant(value) for value in list(source.initializers.values())]
    nodes = [*constants, *source]
    source.initializers.clear()
    source.remove(list(source))
    for node in nodes:
        node.name = names.fresh_node(node.name or node.op_type)
        for output in node.outputs:
            output.name = names.fresh(output.name) if output.name else output.name
    target.insert_before(before, nodes)
    return nodes


def _as_constant(value: ir.Value) -> ir.Node:
    tensor = value.const_value
    assert tensor is not None
    node = ir.node("Constant", [], {"value": tensor})
    (output,) = node.outputs
    output.name, output.type, output.shape = value.name, value.type, value.shape
    output.const_value = tensor
    ir.convenience.replace_all_uses_with(value, output, replace_graph_outputs=True)
    return node
