"""Forward mode: Jacobian-vector products, as the transpose of the transpose.

A vector-Jacobian product u -> J^T u is linear in u; the gradient of sum(t * J^T u) with respect to u is J t. So every
operator with a reverse rule whose graph can itself be differentiated has a forward mode, and there is one table of
rules. The value of u does not matter; the nodes that use it fall away.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.ir.functions import adopt_functions
from onnxgrad.grad.gradient_model import add_output, claim_name, differentiable_copy, pick_outputs, pick_values
from onnxgrad.grad.reverse import gradients
from onnxgrad.grad.subgraphs import remove_dead
from onnxgrad.importers import ModelSource


def jvp_model(model: ModelSource, wrt: Sequence[str] | None = None, of: Sequence[str] | None = None) -> ir.Model:
    """The Jacobian-vector product of a model, as a model.

    Inputs: those of `model`, and "<name>.tangent" for each name in `wrt`, with its shape and dtype. Outputs: those of
    `model`, then "<output>.tangent" for each output in `of`: the directional derivative along the tangents, with the
    shape and dtype of the output; zeros where it does not depend on them. `wrt` and `of` are as in `gradient_model`.

    Raises: GradientRuleMissing, if an operator on the way has no rule; OptionError for an unknown name.
    """
    model = differentiable_copy(model)
    graph = model.graph
    targets, inputs = pick_outputs(graph, of), pick_values(graph, wrt)
    own = set(graph)
    tangents = [_tangent(graph, value) for value in inputs]
    spelled = [value.name or "" for value in targets]
    results = jvp(targets, inputs, tangents)
    op = Builder(graph)
    # Outputs are looked up again: one that a function made has been replaced.
    for target, result in zip(pick_outputs(graph, spelled), results, strict=True):
        add_output(op, op.zeros_like(target) if result is None else result, f"{target.name}.tangent", target, own)
    adopt_functions(model)
    return model


def jvp(targets: Sequence[ir.Value], wrt: Sequence[ir.Value], tangents: Sequence[ir.Value]) -> list[ir.Value | None]:
    """Add to a graph the nodes that compute the derivative of `targets` along `tangents` of `wrt`. In place.

    Each tangent has the shape and dtype of its value. Returns one value per target, or None where it does not depend on
    `wrt`.
    """
    graph = targets[0].graph
    if graph is None or len(wrt) != len(tangents):
        raise GradientError(f"{len(wrt)} values need as many tangents, not {len(tangents)}")
    own = set(graph)
    op = Builder(graph)
    probes = [op.node("Mul", value, 0.0)[0] for value in targets]
    cotangents = gradients(targets, wrt, probes)
    pairs = [(c, t) for c, t in zip(cotangents, tangents, strict=True) if c is not None]
    if not pairs:
        remove_dead(graph, own, [])
        return [None] * len(targets)
    results = gradients([c for c, _ in pairs], probes, [t for _, t in pairs])
    remove_dead(graph, own, [value for value in results if value is not None])
    return results


def _tangent(graph: ir.Graph, value: ir.Value) -> ir.Value:
    name = claim_name(Builder(graph), f"{value.name}.tangent")
    tangent = ir.Value(name=name, type=value.type, shape=None if value.shape is None else value.shape.copy())
    graph.inputs.append(tangent)
    return tangent
