"""Apply passes to models written as ONNX text, and see that the answers stay."""

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper, parser

import onnxgrad as og
from onnxgrad.engine.compare import compare
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.names import graphs_in
from onnxgrad.engine.ir.verify import verify
from onnxgrad.engine.passes.rewrite import Hits, Rewrite, apply_rewrites
from onnxgrad.engine.passes.scope import Scope, hidden_defaults
from onnxgrad.engine.runtime.evaluate import evaluate


def model_of(text, opset=18, ir_version=8, imports="", **constants):
    """A model from `agraph (float[2] x) => (float[2] y) { ... }`, with these initializers."""
    proto = parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}{imports}]>\n{text}')
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return og.load(proto)


def apply(model, *entries):
    """A copy of the model after these passes and rewrites, each once, in this order; and what each did."""
    copy = clone(model)
    record: dict[str, Hits] = {}
    scope = Scope(copy, evaluate)
    with hidden_defaults(copy.graph):
        infer_shapes(copy)
    for entry in entries:
        with hidden_defaults(copy.graph):
            if isinstance(entry, Rewrite):
                apply_rewrites(scope, [entry], record)
                record.setdefault(entry.name, Hits())
            else:
                record[entry.__name__] = Hits(entry(scope))
        verify(copy)
    return copy, record


def check(model, *entries, hits=None):
    """The model after these passes: valid, with the same inputs, outputs and answers, after so many changes."""
    result, record = apply(model, *entries)
    onnx.checker.check_model(og.to_proto(result), full_check=True)
    assert [value.name for value in result.graph.inputs] == [value.name for value in model.graph.inputs]
    assert [value.name for value in result.graph.outputs] == [value.name for value in model.graph.outputs]
    compare(model, result, 1, {})
    found = sum(entry.hits for entry in record.values())
    reasons = {name: dict(entry.reasons) for name, entry in record.items()}
    assert hits is None or found == hits, f"{found} changes instead of {hits}; {reasons}"
    return result


def operators(model):
    """The operators of all nodes but Constant, bodies included, sorted."""
    return sorted(node.op_type for node in _nodes(model) if node.op_type != "Constant")


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    for graph in graphs_in(model.graph):
        yield from graph


def f32(*values):
    """A vector."""
    return np.array(values, np.float32)


def i64(*values):
    """A vector."""
    return np.array(values, np.int64)
