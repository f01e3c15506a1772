"""`optimize_for_inference` on variables: a new graph, and where each variable went."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxgrad.engine.graph.conversion import graph_of_model, model_of_vars
from onnxgrad.engine.graph.node import list_of, same_graph
from onnxgrad.engine.graph.optimization import for_inference
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.optimize import replaced


def optimize_vars(vars: Var | Sequence[Var]) -> list[Var]:
    """The same variables in a new graph, after all passes of `optimize_for_inference`; options of the graph say more.

    Parameters are constants with their present values. Inputs on the host have the same sources.
    """
    targets = list_of(vars)
    graph = same_graph(targets)
    named = {f"{var.name}.output" if var.owner is None else var.name: var for var in targets}
    model = for_inference(model_of_vars(named), graph.options)
    copy, outputs = graph_of_model(model, parameters=False)
    copy.options = graph.options
    by_name = {value.name: value for value in (*copy.ir.inputs, *copy.ir.initializers.values())}
    by_name |= {value.name: value for node in copy.ir for value in node.outputs}
    for value, source in graph.sources.items():
        if value.name in by_name and by_name[value.name] in copy.sources:
            copy.sources[by_name[value.name]] = source
    went: dict[ir.Value, Var | None] = {}
    for value in (*graph.ir.inputs, *(value for node in graph.ir for value in node.outputs)):
        found = _follow(value, model)
        if found is not None:
            there = by_name.get(found.name)
            went[value] = None if there is None else Var(copy, there)
    graph.went = went
    return [outputs[name] for name in named]


def _follow(value: ir.Value, model: ir.Model) -> ir.Value | None:
    """The value that stands for one of these in the optimized model; None for one that the model never had."""
    try:
        return replaced(value.name or "", model) or ir.Value(name="")
    except ValueError:  # OptionError
        return None


def replaced_var(var: Var) -> Var | None:
    """Where a variable went when its graph was optimized, and that one when its graph was, to the end.

    Itself if it was never replaced; None where nothing computes it any more. Only the last `optimize_vars` of a graph
    counts.
    """
    found: Var | None = var
    while found is not None:
        if found.value not in found.graph.went:
            return found
        found = found.graph.went[found.value]
    return None
