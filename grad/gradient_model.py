"""Gradients as a model: what `gradients` does inside a graph, for a file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError, OptionError
from onnxgrad.engine.ir.builder import Builder, describe_value, is_float
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.functions import adopt_functions, link_functions
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.names import values_in
from onnxgrad.engine.ir.opset import raise_opset
from onnxgrad.engine.ir.output_names import tell_apart
from onnxgrad.engine.ir.scatter import order_scatters
from onnxgrad.engine.ir.serialize import DIM_NAMES
from onnxgrad.grad.reverse import gradients
from onnxgrad.importers import ModelSource, load

OPSET = 18  # the first opset whose scatter operators can add, which gradients of gathers need


def gradient_model(model: ModelSource, wrt: Sequence[str] | None = None, of: Sequence[str] | None = None) -> ir.Model:
    """The vector-Jacobian product of a model, as a model.

    Inputs: those of `model`, and "<output>.grad" for each output in `of`, with its shape and dtype; for a scalar output
    this seed is optional and 1 by default. Outputs: those of `model`, then "<name>.grad" for each name in `wrt`: the
    gradient of sum(seed * output) over all of `of`, with the shape and dtype of that value.

    wrt: names of inputs, initializers or other values of the main graph; by default all floating-point inputs that the
    outputs depend on. A name given here on which the outputs do not depend gets zeros. of: names of outputs; by default
    all floating-point ones. A name that an input, output or initializer of the model has already gets a number behind
    it: "x.grad_1". The argument is not changed; the opset of the result is at least 18.

    Raises: GradientRuleMissing, if an operator on the way has no rule; OptionError for an unknown name.
    """
    model = differentiable_copy(model)
    graph = model.graph
    targets = pick_outputs(graph, of)
    inputs = pick_values(graph, wrt)
    labels = [value.name for value in inputs]
    own = set(graph)
    op = Builder(graph)
    seeds = [_seed(op, value) for value in targets]
    tell_apart(graph.meta.setdefault(DIM_NAMES, {}), seeds)
    spelled = [value.name or "" for value in inputs]
    found = gradients(targets, inputs, seeds)
    op = Builder(graph)
    # Values are looked up again: one that a function made has been replaced.
    for label, value, grad in zip(labels, pick_values(graph, spelled), found, strict=True):
        if grad is None and wrt is not None:
            grad = op.zeros_like(value)
        if grad is not None:
            add_output(op, grad, f"{label}.grad", like=value, own=own)
    adopt_functions(model)
    return model


def differentiable_copy(source: ModelSource) -> ir.Model:
    """A copy that rules understand: opset 18 or later, types and shapes of all values known, functions at hand."""
    model = clone(load(source))
    raise_opset(model, OPSET)
    link_functions(model)
    infer_shapes(model)
    order_scatters(model.graph)
    return model


def pick_outputs(graph: ir.Graph, names: Sequence[str] | None) -> list[ir.Value]:
    """The named outputs of `graph`; by default all floating-point ones."""
    if names is None:
        found = [value for value in graph.outputs if is_float(value)]
        if not found:
            raise GradientError("the model has no floating-point output", where=f"graph {graph.name!r}")
        return list(dict.fromkeys(found))
    known = {value.name or "": value for value in graph.outputs}
    return [_named(name, known, "output", "output") for name in names]


def pick_values(graph: ir.Graph, names: Sequence[str] | None) -> list[ir.Value]:
    """The named values of the main graph; by default its floating-point inputs that are not initializers."""
    if names is None:
        found = [v for v in graph.inputs if is_float(v) and v.name not in graph.initializers]
        if not found:
            raise GradientError(
                "the model has no floating-point input to differentiate by",
                where=", ".join(describe_value(value) for value in graph.inputs),
                fix='name initializers: gradient_model(model, wrt=["weight"])',
            )
        return found
    own = {*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)}
    known = {value.name or "": value for value in values_in(graph) if value in own}
    return [_named(name, known, "input, initializer or value", "name") for name in names]


def _named(name: str, known: dict[str, ir.Value], kind: str, option: str) -> ir.Value:
    value = known.get(name)
    if value is None:
        close = get_close_matches(name, known, n=3)
        raise OptionError(
            f"the model has no {kind} {name!r}",
            fix=f"did you mean {' or '.join(map(repr, close))}?"
            if close
            else f"give the {option} as the model spells it",
        )
    if not is_float(value):
        raise GradientError("only floating-point values have gradients", where=describe_value(value))
    return value


def _seed(op: Builder, target: ir.Value) -> ir.Value:
    """The input "<output>.grad"; optional, with the value 1, where the target is a scalar."""
    name = claim_name(op, f"{target.name}.grad")
    seed = ir.Value(name=name, type=target.type, shape=None if target.shape is None else target.shape.copy())
    op.graph.inputs.append(seed)
    if target.shape is not None and len(target.shape) == 0 and target.dtype is not None:
        seed.const_value = ir.tensor(1.0, dtype=target.dtype, name=name)
        op.graph.register_initializer(seed)
    return seed


def add_output(op: Builder, value: ir.Value, name: str, like: ir.Value, own: Collection[ir.Node]) -> ir.Value:
    """Make `value` an output of the graph called `name`, with the type and shape of `like`.

    What the model's `own` nodes made keeps its name: an Identity goes out.
    """
    if value.producer() is None or value.producer() in own or value.is_graph_output():
        value = op.Identity(value)
    value.name = claim_name(op, name)
    value.shape = None if like.shape is None else like.shape.copy()
    value.type = like.type
    op.graph.outputs.append(value)
    return value


def claim_name(op: Builder, name: str) -> str:
    """`name` for a new input or output: inner values that have it are renamed.

    Inputs, outputs and initializers keep theirs, and the new value gets a number behind it.
    """
    if name not in op.names:
        return op.names.fresh(name)
    holders = list(dict.fromkeys(value for value in values_in(op.graph) if value.name == name))
    interface = {*op.graph.inputs, *op.graph.outputs, *op.graph.initializers.values()}
    if not interface.isdisjoint(holders):
        return op.names.fresh(name)
    for value in holders:
        value.name = op.names.fresh(name)
    return name
