"""Whether a node keeps the rules of its operator: only what is valid is mended, the rest is the caller's error."""

import onnx_ir as ir

from onnxgrad.engine.errors import ModelError
from onnxgrad.engine.ir.builder import describe
from onnxgrad.engine.partition.versions import Schema, schema_at


def require_valid(node: ir.Node, version: int, refusal: str) -> None:
    """Check arity, attributes and element types of a node, which the runtime refused, against its schema.

    Raises: ModelError, with the rule that is broken.
    """
    schema = schema_at(node.domain, node.op_type, version)
    if schema is None:
        domain = node.domain or "ai.onnx"
        raise ModelError(
            f"the runtime does not run {domain}::{node.op_type}, and no opset or function of the model defines it",
            where=describe(node),
            why=refusal,
            fix="give the model a function for it",
        )
    fault = _arity(node, schema) or _attributes(node, schema) or _types(node, schema)
    if fault:
        raise ModelError("a node of the model is not valid", where=describe(node), why=fault)


def _arity(node: ir.Node, schema: Schema) -> str:
    for what, given, least, most in (
        ("inputs", node.inputs, schema.min_input, schema.max_input),
        ("outputs", node.outputs, schema.min_output, schema.max_output),
    ):
        if not least <= len(given) <= most:
            return f"{node.op_type} has {least} to {most} {what}, not {len(given)}"
    for index, formal in enumerate(schema.inputs[: len(node.inputs)]):
        if formal.option == formal.option.Single and node.inputs[index] is None:
            return f"the input {formal.name} of {node.op_type} is not optional"
    return ""


def _attributes(node: ir.Node, schema: Schema) -> str:
    for name in node.attributes:
        if name not in schema.attributes:
            return f"{node.op_type} has no attribute {name} in this opset"
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in node.attributes:
            return f"the attribute {name} of {node.op_type} is missing"
    return ""


def _types(node: ir.Node, schema: Schema) -> str:
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    bound: dict[str, str] = {}
    for name, variable, same, value in formal_inputs(node, schema):
        spelled = type_string(value)
        if not spelled:
            continue
        if variable in allowed and spelled not in allowed[variable]:
            return f"the input {name} of {node.op_type} cannot be {spelled}"
        if variable not in allowed and variable != spelled:
            return f"the input {name} of {node.op_type} must be {variable}, not {spelled}"
        if same and bound.setdefault(variable, spelled) != spelled:
            return f"the inputs of {node.op_type} are {bound[variable]} and {spelled}, and must be the same"
    return ""


def formal_inputs(node: ir.Node, schema: Schema) -> list[tuple[str, str, bool, ir.Value]]:
    """Of each input that is there: the name of its formal, its type variable, whether all of it agree, the value."""
    found = []
    for index, value in enumerate(node.inputs):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        same = formal.option != formal.option.Variadic or formal.is_homogeneous
        if value is not None:
            found.append((formal.name, formal.type_str, same, value))
    return found


def type_string(value: ir.Value) -> str:
    """The type as the schemas spell it: "tensor(float)", "seq(tensor(int64))"; "" where it is not known."""
    return "" if value.type is None else _spell(value.type)


def _spell(kind: ir.TypeProtocol) -> str:
    match kind:
        case ir.TensorType():
            return f"tensor({kind.dtype.name.lower()})"
        case ir.SequenceType():
            return f"seq({_spell(kind.elem_type)})"
        case ir.OptionalType():
            return f"optional({_spell(kind.elem_type)})"
        case _:
            return ""
