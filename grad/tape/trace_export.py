"""A captured function as an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Sequence

import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import OpsetError, OptionError
from onnxgrad.engine.graph.lowering import lower
from onnxgrad.engine.graph.signature import OPSET
from onnxgrad.engine.ir.builder import describe
from onnxgrad.engine.ir.functions import adopt_functions
from onnxgrad.engine.ir.names import Names
from onnxgrad.exporters.onnx import save
from onnxgrad.grad.tape.trace_capture import Capture, Place, with_constants
from onnxgrad.grad.tape.tracer import Given

_OLDEST = 18
"""Before it, operators that gradients are made of did not exist."""
_FUNCTIONS = 8
"""The version of the format that can hold functions."""


def export_capture(
    found: Capture,
    path: str | os.PathLike[str],
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> None:
    """See TracedFunction.export."""
    places = list(_places(found.result))
    if not places:
        raise OptionError("the function returns no tensor that it computes", fix="return one")
    traced = found.graph
    assert traced is not None
    lowered = with_constants(lower(traced, [found.values[place.index].value for place in places]), all_held=True)
    graph = lowered.model.graph
    for value in traced.ir.inputs:  # also those that the result does not depend on
        source = traced.sources[value]
        if isinstance(source, Given) and value.name not in lowered.sources:
            graph.inputs.append(ir.Value(name=value.name, type=value.type, shape=value.shape))
    order = {value.name: number for number, value in enumerate(traced.ir.inputs)}
    graph.inputs[:] = sorted(graph.inputs, key=lambda value: order[value.name])
    known = {value.name: value for value in graph.outputs}
    graph.outputs[:] = [known[name] for name in dict.fromkeys(lowered.targets)]
    names = Names(graph)
    _rename(list(graph.inputs), input_names, names, "input")
    default = ["output"] if len(graph.outputs) == 1 else [f"output{i}" for i in range(len(graph.outputs))]
    _rename(list(graph.outputs), output_names or [names.fresh(name) for name in default], names, "output")
    adopt_functions(lowered.model)
    opset = lowered.model.graph.opset_imports[""]
    for node in lowered.model.graph.all_nodes():
        _check_node(node, opset)
    lowered.model.ir_version = max(
        _FUNCTIONS, onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])
    )
    save(lowered.model, path)


def check_opset(opset: int) -> None:
    """Raises: OpsetError for an opset that functions cannot be written in."""
    if not _OLDEST <= opset <= OPSET:
        raise OpsetError(f"a function cannot be exported in opset {opset}", fix=f"one of {_OLDEST} to {OPSET}")


def _check_node(node: ir.Node, opset: int) -> None:
    if node.domain:
        return
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
    except onnx.defs.SchemaError as error:
        since = onnx.defs.get_schema(node.op_type, OPSET).since_version
        raise OpsetError(
            f"opset {opset} has no {node.op_type}", where=describe(node), fix=f"opset={since}, or other operators"
        ) from error
    unknown = sorted(set(node.attributes) - set(schema.attributes))
    if unknown or len(node.inputs) > schema.max_input:
        raise OpsetError(
            f"{node.op_type} of opset {opset} does not have all that is asked for",
            where=describe(node),
            why=f"it has no attribute {unknown[0]!r}" if unknown else f"it has {schema.max_input} inputs at most",
            fix=f"opset={onnx.defs.get_schema(node.op_type, OPSET).since_version}",
        )


def _places(result: object) -> list[Place]:
    if isinstance(result, Place):
        return [result]
    entries = result.values() if isinstance(result, dict) else result if isinstance(result, list | tuple) else ()
    return [place for entry in entries for place in _places(entry)]


def _rename(values: Sequence[ir.Value], wanted: Sequence[str] | None, names: Names, what: str) -> None:
    if wanted is None:
        return
    if len(wanted) != len(values):
        own = ", ".join(value.name or "" for value in values)
        raise OptionError(f"{len(wanted)} names are given for {len(values)} {what}s", where=own)
    if len(set(wanted)) != len(wanted):
        raise OptionError(f"{what} names must differ: {', '.join(wanted)}")
    kept = {value.name for value in values}
    for value, name in zip(values, wanted, strict=True):
        if name in names and name not in kept and name != value.name and not name.startswith("output"):
            raise OptionError(f"the name {name!r} is that of another value of the graph", fix="choose another")
        value.name = name
