"""Types and symbolic shapes of all values of a model.

onnx_shape_inference has a rule for each operator. What is done here: annotations from files are not trusted where a
rule knows better; an operator without a rule, or a rule that fails, costs only the outputs of that node; shapes in
loop bodies hold for every iteration, not only the first.
"""

import logging
import re
from collections.abc import Callable, Iterable

import onnx_ir as ir
from onnx_shape_inference import SYM_DATA_KEY, ShapeInferenceContext, registry

from onnxgrad.engine.ir.conditions import known_condition
from onnxgrad.engine.ir.functions import Functions, link_functions, substitute_attributes
from onnxgrad.engine.ir.inference_rules import collect_rules
from onnxgrad.engine.ir.names import graphs_in, values_in
from onnxgrad.engine.ir.nesting import check_nesting
from onnxgrad.engine.ir.output_names import settle_output_names
from onnxgrad.engine.ir.sequence_shapes import EMPTY, is_empty
from onnxgrad.engine.ir.serialize import DIM_NAMES

_LOG = logging.getLogger(__name__)
_Rule = Callable[[ShapeInferenceContext, ir.Node], None]
_Dim = int | ir.SymbolicDim

# What a rule of onnx_shape_inference may raise when a model is odd: it is foreign code, run on hostile input.
_FAILURES = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, RuntimeError)

# Operators whose outputs are those of another one, as far as type and shape go.
_BORROWED: dict[tuple[str, str], str] = {
    ("com.microsoft", "FusedConv"): "Conv",
    ("com.microsoft", "NhwcFusedConv"): "Identity",
    ("com.microsoft", "FusedGemm"): "Gemm",
    ("com.microsoft", "DynamicQuantizeMatMul"): "MatMul",
    ("com.microsoft", "DynamicQuantizeLSTM"): "LSTM",
}
_GENERATED = re.compile(r"\b_d\d+\b")
_ITERATIONS = 8  # of a loop body, until its shapes are declared unknown


def infer_shapes(model: ir.Model) -> None:
    """Set type and shape of every value, in place; what cannot be known keeps the annotation it had, or none.

    Declared types and shapes of the model's own inputs and outputs stay; only a name that stands for different sizes is
    made several (they are spelled alike in the file). Dimensions that depend on data get symbols of their own (`_d0`);
    where such a dimension is that of a model output with a declared name, it gets that name.
    Never raises for a model that is valid. Raises: ModelError where graphs are nested too deep.
    """
    check_nesting(model)
    link_functions(model)
    collect_rules()
    context = ShapeInferenceContext(dict(model.graph.opset_imports))
    context.reserve_symbol_names(_symbols(model.graph))
    names: dict[str, str] = model.graph.meta.setdefault(DIM_NAMES, {})
    for value in model.graph.inputs:
        names.update((dim, "") for dim in _name_unknown(context, value))
    symbols, of_inputs = set(_symbols(model.graph)), set(_symbols_of(model.graph.inputs))
    made = [value for value in dict.fromkeys(model.graph.outputs) if value.producer() is not None]
    declared = {value: (value.type, value.shape) for value in made}
    _Inference(model.functions).infer_graph(context, model.graph)
    shapes = [(value, shape) for value, (_, shape) in declared.items() if shape is not None]
    renamed = settle_output_names(context, shapes, symbols, of_inputs, names)
    for value, (type_, _) in declared.items():
        value.type = type_ or value.type
    for value in values_in(model.graph):
        value.metadata_props.pop(SYM_DATA_KEY, None)
        if renamed and value.shape is not None:
            value.shape = _rename(value.shape, renamed)


def infer_node(context: ShapeInferenceContext, functions: Functions, node: ir.Node) -> None:
    """Set types and shapes of the outputs of one node and of the values in its bodies; `functions`: those it calls."""
    _Inference(functions).infer_node(context, node)


class _Inference:
    """One run over a model."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._active: set[tuple[str, str, str]] = set()
        self._depth = 0  # of bodies around the node

    def infer_graph(self, context: ShapeInferenceContext, graph: ir.Graph) -> None:
        """All values of one graph and its bodies; those of its inputs are known or not, but fixed."""
        for value in graph.initializers.values():
            if value.const_value is not None and not value.is_graph_input():
                value.type = ir.TensorType(value.const_value.dtype)
                value.shape = ir.Shape(value.const_value.shape.numpy())
        for value in graph.inputs:
            _name_unknown(context, value)
        for node in graph:
            self.infer_node(context, node)

    def infer_node(self, context: ShapeInferenceContext, node: ir.Node) -> None:
        before = [(output.type, output.shape) for output in node.outputs]
        _forget(node)
        try:
            self._apply(context, node)
        except _FAILURES as error:
            _LOG.debug("no shapes for node %s (%s): %s", node.name, node.op_type, error)
            _forget(node)
        is_sure = node.domain == "" and (self._depth > 0 or node.op_type in ("If", "Loop"))
        for output, (type_, shape) in zip(node.outputs, before, strict=True):
            output.type = output.type or type_
            if output.shape is None and not is_sure:  # no shape may hold for all branches and all rounds
                output.shape = shape
            _name_unknown(context, output)

    def _apply(self, context: ShapeInferenceContext, node: ir.Node) -> None:
        for value in node.inputs:
            if value is not None:
                _name_unknown(context, value)
        is_standard = node.domain == ""
        if is_standard and node.op_type == "Loop":
            self._infer_loop(context, node)
            return
        if is_standard and node.op_type == "Scan" and context.opset > 8:
            _bind_scan(node)
        for body in _bodies(node):
            self._infer_body(context, body)
        rule = self._rule(context, node)
        if rule is not None:
            rule(context, node)
        if is_standard and node.op_type == "If":
            taken = known_condition(node.inputs[0])
            for index, output in enumerate(node.outputs):
                results = [node.attributes[name].as_graph().outputs[index] for name in ("then_branch", "else_branch")]
                if taken is not None:
                    output.type, output.shape = results[not taken].type, results[not taken].shape
                elif any(result.shape is None for result in results):
                    output.shape = None  # the rule takes the shape of the other branch

    def _infer_body(self, context: ShapeInferenceContext, body: ir.Graph) -> None:
        self._depth += 1
        try:
            self.infer_graph(context, body)
        finally:
            self._depth -= 1

    def _rule(self, context: ShapeInferenceContext, node: ir.Node) -> _Rule | None:
        if node.op_identifier() in self._functions:
            return self._infer_call
        version = context.get_opset_version(node.domain)
        rule: _Rule | None = registry.get(node.domain, node.op_type, version=version)
        if rule is None and (node.domain, node.op_type) in _BORROWED:
            rule = registry.get("", _BORROWED[node.domain, node.op_type], version=context.get_opset_version(""))
        if rule is None and node.domain == "com.microsoft":
            rule = _like_first_float
        return rule

    def _infer_call(self, context: ShapeInferenceContext, node: ir.Node) -> None:
        """A call of a model-local function: infer a copy of its body on the types at hand."""
        identifier = node.op_identifier()
        if identifier in self._active:
            return
        body = self._functions[identifier].clone()
        substitute_attributes(body.graph, {**body.attributes, **node.attributes})
        inner = context.create_child({**context.opset_imports, **body.opset_imports})
        for formal, actual in zip(body.inputs, node.inputs, strict=False):
            if actual is not None:
                formal.type, formal.shape, formal.const_value = actual.type, actual.shape, actual.const_value
                known = context.get_symbolic_value(actual)
                if known is not None:
                    inner.set_symbolic_value(formal, known)
        self._active.add(identifier)
        try:
            self.infer_graph(inner, body.graph)
        finally:
            self._active.remove(identifier)
        for output, result in zip(node.outputs, body.outputs, strict=False):
            output.type, output.shape = result.type, result.shape
            known = inner.get_symbolic_value(result)
            if known is not None and result.dtype is not None:
                context.set_symbolic_value(output, known)

    def _infer_loop(self, context: ShapeInferenceContext, node: ir.Node) -> None:
        """Repeat the body with wider shapes of the carried values until an iteration returns what it was given."""
        (body,) = _bodies(node)
        carried = list(zip(node.inputs[2:], body.inputs[2:], body.outputs[1:], strict=False))
        _set_missing(body.inputs[0], ir.TensorType(ir.DataType.INT64), ir.Shape([]))
        _set_missing(body.inputs[1], ir.TensorType(ir.DataType.BOOL), ir.Shape([]))
        for initial, formal, _ in carried:
            if initial is not None:
                formal.type, formal.shape = initial.type or formal.type, initial.shape
            if initial is not None and is_empty(initial):
                formal.meta[EMPTY] = True
        widened: set[str] = set()
        for iteration in range(_ITERATIONS):
            self._infer_body(context, body)
            changed = False
            for _, formal, result in carried:
                if formal.meta.pop(EMPTY, False):  # of an empty sequence the first item tells the shape
                    changed, formal.shape = True, result.shape
                    continue
                shape = None if iteration == _ITERATIONS - 2 else _widen(context, formal.shape, result.shape, widened)
                changed, formal.shape = changed or shape != formal.shape, shape
            if not changed:
                break
        _loop_outputs(context, node, body, widened)


def _loop_outputs(context: ShapeInferenceContext, node: ir.Node, body: ir.Graph, widened: set[str]) -> None:
    rule = registry.get("", "Loop", version=context.get_opset_version(""))
    rule(context, node)
    carried = len(node.inputs) - 2
    for output, formal, result in zip(node.outputs[:carried], body.inputs[2:], body.outputs[1:], strict=False):
        output.type, shape = result.type or formal.type, formal.shape
        output.shape = shape if shape is None else ir.Shape([_fresh_if(dim, widened, context) for dim in shape])
    if not _runs_all_trips(node, body):
        for output in node.outputs[carried:]:
            if output.shape is not None:
                output.shape = ir.Shape([context.new_symbolic_dim(), *output.shape.dims[1:]])


def _runs_all_trips(node: ir.Node, body: ir.Graph) -> bool:
    """Whether nothing but the trip count ends a loop: the body passes its condition on."""
    condition: ir.Value | None = body.outputs[0]
    while condition is not None and (producer := condition.producer()) is not None and producer.op_type == "Identity":
        condition = producer.inputs[0]
    if condition is None:
        return False
    given = node.inputs[1]
    starts = given is None or _is_true(given)
    return starts and (condition is body.inputs[1] or _is_true(condition))


def _is_true(value: ir.Value) -> bool:
    tensor = ir.convenience.get_const_tensor(value)
    return tensor is not None and tensor.size == 1 and bool(tensor.numpy().all())


def _widen(
    context: ShapeInferenceContext, given: ir.Shape | None, returned: ir.Shape | None, widened: set[str]
) -> ir.Shape | None:
    """A shape that holds before and after an iteration; dimensions that change become new symbols."""
    if given is None or returned is None or len(given) != len(returned):
        return None
    dims: list[_Dim] = []
    for before, after in zip(given.dims, returned.dims, strict=True):
        if before != after and not (isinstance(before, ir.SymbolicDim) and before.value in widened):
            before = context.new_symbolic_dim()
            widened.add(str(before.value))
        dims.append(before)
    return ir.Shape(dims)


def _fresh_if(dim: _Dim, names: set[str], context: ShapeInferenceContext) -> _Dim:
    return context.new_symbolic_dim() if isinstance(dim, ir.SymbolicDim) and dim.value in names else dim


def _bind_scan(node: ir.Node) -> None:
    """Types of the inputs of a Scan body: states as given, and slices of the scanned inputs."""
    (body,) = _bodies(node)
    scanned = node.attributes["num_scan_inputs"].as_int()
    states = len(node.inputs) - scanned
    axes = node.attributes["scan_input_axes"].as_ints() if "scan_input_axes" in node.attributes else [0] * scanned
    for index, (actual, formal) in enumerate(zip(node.inputs, body.inputs, strict=False)):
        if actual is None:
            continue
        formal.type = actual.type or formal.type
        if index < states:
            formal.shape = actual.shape or formal.shape
        elif actual.shape is not None:
            dims = list(actual.shape.dims)
            del dims[axes[index - states]]
            formal.shape = ir.Shape(dims)


def _bodies(node: ir.Node) -> list[ir.Graph]:
    kinds = [attribute for attribute in node.attributes.values() if not attribute.is_ref()]
    graphs = [attribute.as_graph() for attribute in kinds if attribute.type == ir.AttributeType.GRAPH]
    return graphs + [
        g for attribute in kinds if attribute.type == ir.AttributeType.GRAPHS for g in attribute.as_graphs()
    ]


def _like_first_float(context: ShapeInferenceContext, node: ir.Node) -> None:
    """The dtype of outputs of a contributed operator that has no rule."""
    del context
    floats = [
        value.dtype for value in node.inputs if value is not None and value.dtype and value.dtype.is_floating_point()
    ]
    for output in node.outputs[: 1 if floats else 0]:
        output.type = ir.TensorType(floats[0])


def _forget(node: ir.Node) -> None:
    """Drop what was known about the outputs of a node. Also 'constants' that an earlier inference worked out."""
    for output in node.outputs:
        output.type = output.shape = None
        if node.op_type != "Constant":
            output.const_value = None


def _set_missing(value: ir.Value, type_: ir.TypeProtocol, shape: ir.Shape) -> None:
    value.type = value.type or type_
    value.shape = shape if value.shape is None else value.shape


def _name_unknown(context: ShapeInferenceContext, value: ir.Value) -> list[str]:
    """Give unknown dimensions of a value symbols of their own; returns these."""
    if value.shape is None or all(_is_named(dim) for dim in value.shape.dims):
        return []
    before = value.shape
    context.name_anonymous_dims(value)
    pairs = zip(before.dims, value.shape.dims, strict=True)
    return [str(new) for old, new in pairs if not _is_named(old)]


def _is_named(dim: _Dim) -> bool:
    return isinstance(dim, int) or dim.value is not None


def _rename(shape: ir.Shape, names: dict[str, str]) -> ir.Shape:
    def spell(dim: _Dim) -> _Dim:
        if isinstance(dim, int) or dim.value is None or "_d" not in dim.value:
            return dim
        return ir.SymbolicDim(_GENERATED.sub(lambda found: names.get(found[0], found[0]), dim.value))

    return ir.Shape([spell(dim) for dim in shape.dims])


def _symbols(graph: ir.Graph) -> Iterable[str]:
    """The symbols in use anywhere in the model."""
    for inner in graphs_in(graph):
        yield from _symbols_of((*values_in(inner), *inner.outputs))


def _symbols_of(values: Iterable[ir.Value]) -> Iterable[str]:
    for value in values:
        for dim in value.shape.dims if value.shape is not None else ():
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                yield from re.findall(r"[A-Za-z_]\w*", dim.value)
