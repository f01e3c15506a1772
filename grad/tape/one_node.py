"""One operator as a graph of its own: what is inferred, run and differentiated for a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError
from onnxgrad.engine.graph.operand import Dim
from onnxgrad.engine.graph.signature import OPSET, VERSIONS, signature_of
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.functions import adopt_functions
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.serialize import serialize
from onnxgrad.engine.optimize import optimize_for_inference
from onnxgrad.engine.partition.prepare import inline_functions
from onnxgrad.engine.runtime.probe import newest_ir_version
from onnxgrad.grad.registry import GradientBuilder

if TYPE_CHECKING:
    from onnxgrad.engine.ir.signatures import AttributeValue

COMPOSITE = "onnxgrad.composite"
"""The domain of calls whose operator is a whole graph: the attribute `body` holds it as a Composite."""


class Spec(NamedTuple):
    """What is known of an input. dims: None without a rank; value: the elements, where the graph may depend on them."""

    kind: ir.DataType
    dims: tuple[Dim, ...] | None
    value: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Composite:
    """A graph that is called like an operator, such as the gradient of one. Its inputs are all required."""

    name: str
    graph: ir.Graph

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.graph)} nodes>"


@dataclass(frozen=True, eq=False)
class OneNode:
    """A graph with the operator of a call; an input that is absent is None, one with a known value is a constant."""

    graph: ir.Graph
    op: GradientBuilder
    inputs: tuple[ir.Value | None, ...]
    outputs: tuple[ir.Value, ...]

    @property
    def node(self) -> ir.Node | None:
        """The node of the operator; None where it is a Composite."""
        return self.outputs[0].producer() if self.outputs else None


def one_node(
    op_type: str,
    domain: str,
    attributes: Mapping[str, object],
    outputs: int,
    specs: Sequence[Spec | None],
) -> OneNode:
    """The graph of one call. Raises: ShapeError where types or ranks do not fit the operator."""
    if domain == COMPOSITE:
        return _of_composite(attributes["body"], specs)
    graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name=op_type)
    if domain:
        graph.opset_imports[domain] = VERSIONS.get(domain, 1)
    op = GradientBuilder(graph, share=True)
    inputs = tuple(None if spec is None else _input(op, f"x{i}", spec) for i, spec in enumerate(specs))
    given = attributes_of(op_type, domain, attributes)
    made = op.node(op_type, *inputs, outputs=outputs, domain=domain, **given)
    for index, value in enumerate(made):
        value.name = op.names.fresh(f"y{index}")
    graph.outputs.extend(made)
    return OneNode(graph, op, inputs, made)


def _input(op: GradientBuilder, name: str, spec: Spec) -> ir.Value:
    if spec.value is not None:
        return op.constant(spec.value if spec.value.dtype != object else ir.tensor(spec.value.astype(str)))
    shape = (
        None if spec.dims is None else ir.Shape([dim if isinstance(dim, int) else _symbol(dim) for dim in spec.dims])
    )
    value = ir.Value(name=op.names.fresh(name), type=ir.TensorType(spec.kind), shape=shape)
    op.graph.inputs.append(value)
    op.context.name_anonymous_dims(value)
    return value


def _symbol(dim: str | None) -> ir.SymbolicDim:
    return ir.SymbolicDim(dim)


def _of_composite(body: object, specs: Sequence[Spec | None]) -> OneNode:
    """A copy of the graph. Where all sizes are known, so are they inside, from elements of inputs too."""
    assert isinstance(body, Composite)
    model = clone(ir.Model(body.graph, ir_version=newest_ir_version()))
    graph = model.graph
    given = list(graph.inputs)
    op = GradientBuilder(graph, share=True, before=next(iter(graph), None))
    for index, (value, spec) in enumerate(zip(list(given), specs, strict=True)):
        if spec is None:
            raise InputError(f"an input of {body!r} is missing", where=value.name or "")
        if spec.value is not None:
            given[index] = op.constant(spec.value)
            ir.convenience.replace_all_uses_with(value, given[index])
            graph.inputs.remove(value)
        elif spec.dims is not None and all(isinstance(dim, int) for dim in spec.dims):
            value.shape = ir.Shape([dim for dim in spec.dims if isinstance(dim, int)])
    if all(value.shape is not None and value.shape.is_static() for value in graph.inputs):
        return _of_sizes(model, given)
    return OneNode(graph, GradientBuilder(graph, share=True), tuple(given), tuple(graph.outputs))


def _of_sizes(model: ir.Model, given: Sequence[ir.Value]) -> OneNode:
    """The graph of a model whose inputs have sizes, with all constants that follow from them."""
    names = [value.name for value in given]
    inline_functions(model)
    model = optimize_for_inference(model)
    infer_shapes(model)
    graph = model.graph
    inputs = {value.name: value for value in graph.inputs}
    op = GradientBuilder(graph, share=True)
    known = [inputs[name] if name in inputs else op.constant(0) for name in names]  # which nothing reads
    return OneNode(graph, op, tuple(known), tuple(graph.outputs))


def attributes_of(op_type: str, domain: str, given: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Attributes as the operator declares them: 1 for a float is 1.0, an array is a tensor."""
    known = signature_of(op_type, domain).attributes if domain in VERSIONS and _is_standard(op_type, domain) else {}
    return {name: _attribute(value, known[name].kind if name in known else None) for name, value in given.items()}


def _is_standard(op_type: str, domain: str) -> bool:
    from onnxgrad.engine.graph.signature import operators

    return operators().get(op_type) == domain


def _attribute(value: object, kind: ir.AttributeType | None) -> AttributeValue:
    if isinstance(value, np.ndarray | np.generic) and kind in (None, ir.AttributeType.TENSOR):
        return ir.tensor(np.asarray(value))
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if kind == ir.AttributeType.FLOAT and isinstance(value, int):
        return float(value)
    if kind == ir.AttributeType.FLOATS and isinstance(value, list | tuple):
        return [float(number) for number in value]
    if isinstance(value, tuple):
        return list(value)
    return value  # type: ignore[return-value]


def model_of(node: OneNode) -> ir.Model:
    """The graph as a model, with the functions that it calls."""
    model = ir.Model(node.graph, ir_version=newest_ir_version())
    adopt_functions(model)
    return model


def model_bytes(model: ir.Model) -> bytes:
    """The model for onnxruntime, without shapes of what it computes: names of sizes that two functions both use would
    make it take memory of one size for another."""
    proto = serialize(model)
    del proto.graph.value_info[:]
    for function in proto.functions:
        del function.value_info[:]
    for value in proto.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return bytes(proto.SerializeToString())
