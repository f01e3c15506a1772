"""The builder: `op.Add(x, y)` adds a node to a graph and knows the type and shape of its outputs at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
from onnx_shape_inference import OpUsageError, ShapeInferenceContext, ShapeInferenceError, registry

from onnxgrad.engine.errors import ShapeError
from onnxgrad.engine.ir.functions import add_function, functions_of
from onnxgrad.engine.ir.inference_rules import collect_rules
from onnxgrad.engine.ir.names import Names, values_in
from onnxgrad.engine.ir.pads import amounts_for_all_axes
from onnxgrad.engine.ir.signatures import AttributeValue, to_attributes, to_opset

if TYPE_CHECKING:
    from onnxgrad.engine.ir.functions import Functions

Operand = ir.Value | int | float | bool | Sequence[int] | np.ndarray | None
Emit = Callable[..., ir.Value]

_SMALL = 64  # elements: constants up to this size are shared
_PAD_WITH_AXES = 4  # inputs


class Builder:
    """Adds nodes to `graph`: at its end, or in front of the node `before`.

    `op.Conv(x, w, strides=[2, 2])` gives one value; `op.node("Split", x, outputs=3)` gives a tuple. Inputs are values,
    None for an optional input left out, or Python literals: an int, bool or list of ints becomes an int64 (bool)
    constant, a float becomes a scalar of the dtype of the first floating-point operand. Signatures are those of today's
    standard: axes and the like are inputs here, and become attributes where the graph's opset wants them so. A builder
    with a `parent` writes a sub-graph of the parent's graph, or that graph itself. With `share`, asking twice for the
    same node gives the same node, also where the parent made it.

    Raises: ShapeError if types or shapes of the operands do not fit the operator.
    """

    def __init__(
        self,
        graph: ir.Graph,
        *,
        parent: Builder | None = None,
        before: ir.Node | None = None,
        opset: int | None = None,
        share: bool = False,
    ) -> None:
        self.graph, self.before, self.scope = graph, before, ""
        self._shared: dict[object, tuple[ir.Value, ...]] | None = {} if share else None
        self._constants: dict[tuple[object, ...], ir.Value] = {}
        self.names: Names
        self.functions: Functions
        self.context: ShapeInferenceContext
        self.opset: int
        if parent is not None:
            self.names, self.functions, self.context = parent.names, parent.functions, parent.context
            self.opset, self.scope = parent.opset, parent.scope
            if share and parent.graph is graph and parent._shared is not None:
                self._shared, self._constants = parent._shared, parent._constants
            return
        self.opset = opset or graph.opset_imports.get("", 0) or graph.opset_imports["ai.onnx"]
        self.names, self.functions = Names(graph), functions_of(graph)
        collect_rules()
        self.context = ShapeInferenceContext({**graph.opset_imports, "": self.opset})
        self.context.reserve_symbol_names(_symbols(graph))

    def __getattr__(self, op_type: str) -> Emit:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def emit(*inputs: Operand, domain: str = "", **attributes: AttributeValue | None) -> ir.Value:
            return self._add(op_type, inputs, 1, domain, attributes)[0]

        return emit

    def node(
        self, op_type: str, *inputs: Operand, outputs: int = 1, domain: str = "", **attributes: AttributeValue | None
    ) -> tuple[ir.Value, ...]:
        """Add a node and return its outputs, typed. Attributes that are None are left out."""
        return self._add(op_type, inputs, outputs, domain, attributes)

    def _add(
        self,
        op_type: str,
        inputs: Sequence[Operand],
        outputs: int,
        domain: str,
        attributes: Mapping[str, AttributeValue | None],
    ) -> tuple[ir.Value, ...]:
        like = next((v for v in inputs if isinstance(v, ir.Value) and is_float(v)), None)
        rank_like = trailing_ones(like) if op_type in _BROADCASTING else 0
        given = [self._operand(value, like, rank_like) for value in inputs]
        while given and given[-1] is None:
            given.pop()
        kept = {name: value for name, value in attributes.items() if value is not None}
        if op_type == "Pad" and len(given) == _PAD_WITH_AXES:
            given = amounts_for_all_axes(self, given)
        if domain == "" and self.opset < 18:
            given, kept = to_opset(op_type, self.opset, given, kept)
        key = None if self._shared is None else _key(domain, op_type, given, kept, outputs)
        if key is not None and self._shared is not None and key in self._shared:
            return self._shared[key]
        node = ir.Node(domain, op_type, given, to_attributes(kept), num_outputs=outputs)
        self.insert(node)
        if key is not None and self._shared is not None:
            self._shared[key] = tuple(node.outputs)
        return tuple(node.outputs)

    def insert(self, node: ir.Node) -> None:
        """Put a finished node where this builder writes: fresh names, types and shapes of its outputs."""
        label = f"{self.scope}.{node.op_type}" if self.scope else node.op_type
        node.name = self.names.fresh_node(label)
        for number, output in enumerate(node.outputs):
            output.name = self.names.fresh(label if len(node.outputs) == 1 else f"{label}.{number}")
        if self.before is not None:
            self.graph.insert_before(self.before, node)
        else:
            self.graph.append(node)
        try:
            self.infer(node)
        except ShapeError:
            self.graph.remove(node, safe=True)
            raise

    def infer(self, node: ir.Node) -> None:
        """Set the types and shapes of the outputs of `node`."""
        rule = registry.get(node.domain, node.op_type, version=self.opset if not node.domain else 1)
        if rule is None:
            return
        for value in node.inputs:
            if value is not None and value.shape is not None:
                self.context.name_anonymous_dims(value)
        try:
            rule(self.context, node)
        except (OpUsageError, ShapeInferenceError, ValueError, IndexError, TypeError) as error:
            raise ShapeError(
                f"the operands of {node.op_type} do not fit together", where=describe(node), why=str(error)
            ) from error

    def forget(self, nodes: Collection[ir.Node]) -> None:
        """Share these nodes no more: they were taken out of the graph."""
        shared = self._shared if self._shared is not None else {}
        for key in [key for key, values in shared.items() if values[0].producer() in nodes]:
            del shared[key]
        for constant in [key for key, value in self._constants.items() if value.producer() in nodes]:
            del self._constants[constant]

    def constant(self, value: np.ndarray | ir.TensorProtocol | Sequence[int] | int | float | bool) -> ir.Value:
        """A Constant node; small equal ones are shared. Python ints are int64, floats float32."""
        if isinstance(value, float):
            value = np.asarray(value, np.float32)
        elif isinstance(value, (int, list, tuple, bool)):
            value = np.asarray(value, np.bool_ if isinstance(value, bool) else np.int64)
        elif isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
            value = string_tensor(value)
        array = value if isinstance(value, np.ndarray) else None
        key: tuple[object, ...] = (id(value),)
        if array is not None and array.size <= _SMALL:
            key = (array.dtype, array.shape, array.tobytes())
        if (known := self._constants.get(key)) is not None:
            return known
        tensor = ir.tensor(value) if array is None else ir.Tensor(array)  # ir.tensor is slow
        node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
        label = f"{self.scope}.constant" if self.scope else "constant"
        node.name, node.outputs[0].name = self.names.fresh_node(label), self.names.fresh(label)
        output = node.outputs[0]
        output.type, output.shape, output.const_value = ir.TensorType(tensor.dtype), tensor.shape, tensor  # type: ignore[assignment]
        if self.before is not None:
            self.graph.insert_before(self.before, node)
        else:
            self.graph.append(node)
        self._constants[key] = output
        return output

    def constant_like(self, value: ir.Value, number: float) -> ir.Value:
        """A scalar constant with the dtype of `value`."""
        if value.dtype is None:
            raise ShapeError(f"the dtype of {value.name!r} is not known", fix="infer types first")
        return self.constant(np.asarray(number).astype(value.dtype.numpy()))

    def shape_of(self, value: ir.Value) -> ir.Value:
        """The shape of `value` as int64[rank]: a constant where it is static, else a Shape node."""
        if value.shape is not None and value.shape.is_static():
            return self.constant([int(dim) for dim in value.shape])  # type: ignore[arg-type]
        return self.Shape(value)

    def zeros_like(self, value: ir.Value) -> ir.Value:
        """Zeros with the shape and dtype of `value`."""
        return self.Expand(self.constant_like(value, 0), self.shape_of(value))

    def call(
        self, name: str, body: Callable[..., ir.Value | tuple[ir.Value, ...]], *inputs: ir.Value | None
    ) -> tuple[ir.Value, ...]:
        """Call a model-local function of domain onnxgrad, made by `body(op, *inputs)` over formal inputs.

        The body sees the types and shapes of the actual inputs, and None for inputs that are None. Equal bodies are
        stored once.
        """
        formals = [
            None if v is None else ir.Value(name=f"x{i}", type=v.type, shape=v.shape) for i, v in enumerate(inputs)
        ]
        graph = ir.Graph([v for v in formals if v is not None], [], nodes=[], opset_imports={"": self.opset}, name=name)
        inner = Builder(graph, opset=self.opset, share=True)
        inner.functions = self.functions
        inner.context.reserve_symbol_names(_symbols(graph))
        for formal, actual in zip(formals, inputs, strict=True):
            known = None if actual is None else self.context.get_symbolic_value(actual)
            if formal is not None and known is not None:
                inner.context._symbolic_values[formal] = known
        results = body(inner, *formals)
        results = results if isinstance(results, tuple) else (results,)
        kinds = [(value.type, value.shape) for value in results]
        graph.outputs.extend(results)
        function = add_function(self.functions, name, graph)
        given = [value for value in inputs if value is not None]
        key = (function.domain, function.name, tuple(given))
        if self._shared is not None and key in self._shared:
            return self._shared[key]
        node = ir.Node(function.domain, function.name, given, num_outputs=len(results))
        self.graph.opset_imports.setdefault(function.domain, 1)
        self.insert(node)
        if self._shared is not None:
            self._shared[key] = tuple(node.outputs)
        for output, (type_, shape) in zip(node.outputs, kinds, strict=True):
            output.type, output.shape = type_, shape
        return tuple(node.outputs)

    def _operand(self, value: Operand, like: ir.Value | None, ones: int) -> ir.Value | None:
        if value is None or isinstance(value, ir.Value):
            return value
        if isinstance(value, float) and like is not None and like.dtype is not None:
            return self.constant(np.full([1] * ones, value).astype(like.dtype.numpy()))
        return self.constant(value)


_BROADCASTING = {
    *(
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Max",
        "Min",
        "Where",
        "Equal",
        "Less",
        "LessOrEqual",
        "Greater",
        "GreaterOrEqual",
    )
}


def string_tensor(array: np.ndarray) -> ir.StringTensor:
    """An array of strings as a tensor that ONNX files can hold."""
    return ir.StringTensor([str(text).encode() for text in array.flat], shape=ir.Shape(array.shape))


def trailing_ones(like: ir.Value | None) -> int:
    """The rank to give a scalar that meets `like`: its own if that ends in a dimension of 1, else 0.

    onnxruntime's kernels for [N, C, 1, 1] with a scalar [] are a hundred times slower than with [1, 1, 1, 1]
    (measured).
    """
    if like is None or like.shape is None or len(like.shape) < 2 or like.shape[-1] != 1:
        return 0
    return len(like.shape)


_RANDOM = {
    *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"),
    *("Multinomial", "Bernoulli", "Dropout"),
}


def _key(
    domain: str, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, object], outputs: int
) -> object:
    """What makes two nodes compute the same; None for nodes that draw random numbers or hold sub-graphs and tensors."""
    plain = {name: tuple(v) if isinstance(v, (list, tuple)) else v for name, v in attributes.items()}
    if op_type in _RANDOM or any(not isinstance(v, (int, float, str, tuple)) for v in plain.values()):
        return None
    return domain, op_type, tuple(inputs), tuple(sorted(plain.items())), outputs


_NUMPY_NAMES = {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"}
_FLOATS = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}


def is_float(value: ir.Value) -> bool:
    """Whether `value` is a tensor of real numbers that gradients flow through."""
    return value.dtype in _FLOATS


def rank(value: ir.Value) -> int:
    """The number of dimensions. Raises ShapeError if it is not known."""
    if value.shape is None:
        producer = value.producer()
        raise ShapeError(
            f"the rank of {value.name!r} is not known",
            where="" if producer is None else describe(producer),
            fix="give the model's inputs a rank, or fix shapes; an operator of your own wants a shape rule: "
            "onnx_shape_inference.registry.register(domain, op_type, since_version=1)",
        )
    return len(value.shape)


def describe(node: ir.Node) -> str:
    """`node 'n': y = Op(x: float32[N, 3])`, for error messages."""
    domain = f"{node.domain}::" if node.domain else ""
    inputs = ", ".join("-" if v is None else describe_value(v) for v in node.inputs)
    outputs = ", ".join(v.name or "-" for v in node.outputs)
    return f"node {node.name!r}: {outputs} = {domain}{node.op_type}({inputs})"


def describe_value(value: ir.Value) -> str:
    """`x: float32[N, 3]`."""
    code = value.dtype
    dtype = "?" if code is None else _NUMPY_NAMES.get(code, code.name.lower())
    shape = "[?]" if value.shape is None else f"[{', '.join(str(dim) for dim in value.shape)}]"
    return f"{value.name}: {dtype}{shape}"


def _symbols(graph: ir.Graph) -> set[str]:
    found: set[str] = set()
    for value in values_in(graph):
        if value.shape is not None:
            for dim in value.shape:
                if isinstance(dim, ir.SymbolicDim):
                    found.update(dim.free_symbols() if dim.value is not None else ())
    return found
