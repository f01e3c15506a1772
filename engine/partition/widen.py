"""Compute a node in a wider element type: y = Cast(Op(Cast(x))), where the runtime has no kernel for the narrow one."""

import itertools
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.partition.target import Target
from onnxgrad.engine.partition.validity import formal_inputs
from onnxgrad.engine.partition.versions import Schema, schema_at

_T = ir.DataType
_FLOAT8 = (_T.FLOAT8E4M3FN, _T.FLOAT8E4M3FNUZ, _T.FLOAT8E5M2, _T.FLOAT8E5M2FNUZ, _T.FLOAT8E8M0, _T.FLOAT4E2M1)

WIDER: dict[ir.DataType, tuple[ir.DataType, ...]] = {
    _T.BFLOAT16: (_T.FLOAT,),
    _T.FLOAT16: (_T.FLOAT,),
    **dict.fromkeys(_FLOAT8, (_T.FLOAT,)),
    **dict.fromkeys((_T.INT2, _T.INT4), (_T.INT8, _T.INT32)),
    **dict.fromkeys((_T.UINT2, _T.UINT4), (_T.UINT8, _T.INT32)),
    **dict.fromkeys((_T.INT8, _T.UINT8, _T.INT16, _T.UINT16), (_T.INT32, _T.INT64, _T.FLOAT)),
    _T.BOOL: (_T.UINT8, _T.INT32),
    _T.INT32: (_T.INT64,),
    _T.UINT32: (_T.INT64,),
}
"""Types that hold every value of a type. Wrap-around of integers survives: the cast back keeps the low bits."""

_SATURATES = {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "Clip", "Cast", "CastLike"}
_BY_TYPE = {"BitCast", "BitShift", "Bernoulli", "EyeLike", "RandomNormalLike", "RandomUniformLike", "Multinomial"}
_TRIALS = 24


def widen(
    node: ir.Node, opset: int, target: Target, op: Builder, to: ir.DataType | None = None
) -> dict[ir.DataType, ir.DataType] | None:
    """Put casts around `node` so that the runtime can run it; returns what was cast to what, None if nothing helps.

    `op` writes at the opset of the runtime. `to`: this type for all floating-point operands, whether the runtime
    refuses the node or not.
    """
    schema = schema_at(node.domain, node.op_type, opset)
    if schema is None or node.op_type in _BY_TYPE or any(v is not None and v.dtype is None for v in node.inputs):
        return None
    kinds = _variables(node, schema)
    for wide in [_all_floats(kinds, to)] if to is not None else _choices(kinds):
        inputs = [_stand_in(value, wide, variable) for value, variable in _inputs_with(node, schema)]
        if target.refusal(node, opset, inputs):
            continue
        results = _result_types(node, schema, wide)
        if all(_castable(old, new, opset, target) for old, new in _casts(kinds, wide, node, results)):
            _apply(node, wide, schema, results, op)
            return {kinds[variable]: dtype for variable, dtype in wide.items()}
    return None


def _variables(node: ir.Node, schema: Schema) -> dict[str, ir.DataType]:
    """The type variables of the inputs that may be widened, with their element types here."""
    names = {constraint.type_param_str for constraint in schema.type_constraints}
    fixed = {formal.type_str for formal in schema.outputs} if node.op_type in _SATURATES else set()
    return {
        variable: value.dtype
        for _, variable, same, value in formal_inputs(node, schema)
        if variable in names - fixed and same and isinstance(value.type, ir.TensorType) and value.dtype is not None
    }


def _choices(kinds: Mapping[str, ir.DataType]) -> Iterator[dict[str, ir.DataType]]:
    """Ways to widen, those that change the fewest variables first."""
    options = [[(name, None), *((name, wide) for wide in WIDER.get(dtype, ()))] for name, dtype in kinds.items()]
    combinations = list(itertools.islice(itertools.product(*options), 256))
    for chosen in sorted(combinations, key=lambda pairs: sum(wide is not None for _, wide in pairs))[:_TRIALS]:
        wide = {name: dtype for name, dtype in chosen if dtype is not None}
        if wide:
            yield wide


def _all_floats(kinds: Mapping[str, ir.DataType], to: ir.DataType) -> dict[str, ir.DataType]:
    return {name: to for name, dtype in kinds.items() if dtype.is_floating_point() and dtype != to}


def _inputs_with(node: ir.Node, schema: Schema) -> list[tuple[ir.Value | None, str]]:
    last = len(schema.inputs) - 1
    return [(value, schema.inputs[min(index, last)].type_str) for index, value in enumerate(node.inputs)]


def _stand_in(value: ir.Value | None, wide: Mapping[str, ir.DataType], variable: str) -> ir.Value | None:
    if value is None or variable not in wide:
        return value
    return ir.Value(name=value.name, type=ir.TensorType(wide[variable]), shape=value.shape)


def _result_types(node: ir.Node, schema: Schema, wide: Mapping[str, ir.DataType]) -> list[ir.DataType | None]:
    """The wider types that the outputs get; None for those that stay."""
    last = len(schema.outputs) - 1
    return [wide.get(schema.outputs[min(index, last)].type_str) for index in range(len(node.outputs))]


def _casts(
    kinds: Mapping[str, ir.DataType],
    wide: Mapping[str, ir.DataType],
    node: ir.Node,
    results: list[ir.DataType | None],
) -> set[tuple[ir.DataType, ir.DataType]]:
    there = {(kinds[variable], dtype) for variable, dtype in wide.items()}
    by_wide = {dtype: kinds[variable] for variable, dtype in wide.items()}
    back = {
        (dtype, output.dtype or by_wide[dtype])
        for output, dtype in zip(node.outputs, results, strict=True)
        if dtype is not None
    }
    return there | back


def _castable(old: ir.DataType, new: ir.DataType, opset: int, target: Target) -> bool:
    value = ir.Value(name="x", type=ir.TensorType(old))
    return not target.refusal(ir.node("Cast", [value], {"to": int(new)}), opset)


def _apply(
    node: ir.Node, wide: Mapping[str, ir.DataType], schema: Schema, results: list[ir.DataType | None], op: Builder
) -> None:
    assert node.graph is not None
    op.before = node
    narrow: dict[ir.DataType, ir.DataType] = {}
    casts: dict[ir.Value, ir.Value] = {}
    for index, (value, variable) in enumerate(_inputs_with(node, schema)):
        if value is not None and value.dtype is not None and variable in wide:
            narrow[wide[variable]] = value.dtype
            if value not in casts:
                casts[value] = op.Cast(value, to=int(wide[variable]))
            node.replace_input_with(index, casts[value])
    for output, dtype in zip(node.outputs, results, strict=True):
        if dtype is None or not output.name:
            continue
        old = output.dtype or narrow[dtype]
        cast = ir.node("Cast", [output], {"to": int(old)}, name=op.names.fresh_node(f"{node.name}.Cast"))
        result = cast.outputs[0]
        result.name, output.name = output.name, op.names.fresh(f"{output.name}.wide")
        result.type, result.shape = ir.TensorType(old), output.shape
        output.type = ir.TensorType(dtype)
        ir.convenience.replace_all_uses_with(output, result, replace_graph_outputs=True)
        cast.replace_input_with(0, output)
        node.graph.insert_after(node, cast)
