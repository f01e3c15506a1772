"""Functions of operators, made from the specification: signature, defaults and documentation."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence

from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.engine.graph.operand import Input, Operand, apply
from onnxgrad.engine.graph.signature import Parameter, Signature, signature_of

Result = Operand | tuple[Operand, ...]


def make_function(op_type: str, domain: str = "") -> Callable[..., Result]:
    """The function of a standard operator."""
    signature = signature_of(op_type, domain)
    attributes = frozenset(signature.attributes)
    names = [parameter.name for parameter in signature.parameters]

    def function(*inputs: Input, outputs: int | None = None, **named: object) -> Result:
        given = inputs
        if named and not attributes.issuperset(named):
            given = _by_name(signature, names, inputs, named)
            named = {name: value for name, value in named.items() if name in attributes}
        found = apply(op_type, given, named, outputs, domain)
        return found[0] if len(found) == 1 else found

    function.__name__ = function.__qualname__ = op_type
    function.__module__ = "onnxgrad.engine.graph.op"
    function.__doc__ = documentation(signature)
    function.__signature__ = python_signature(signature)  # type: ignore[attr-defined]
    return function


def _by_name(
    signature: Signature, names: Sequence[str], inputs: tuple[Input, ...], named: dict[str, object]
) -> tuple[Input, ...]:
    """The inputs by position, with those that are given by name in their places."""
    places: dict[int, Input] = dict(enumerate(inputs))
    for name, value in named.items():
        if name in signature.attributes:
            continue
        if name not in names:
            known = [*names, *signature.attributes]
            fix = f"one of {', '.join(known)}" if known else "the operator takes nothing"
            raise OptionError(f"{signature.op_type} has no input or attribute {name!r}", fix=fix)
        place = names.index(name)
        if place in places:
            raise InputError(f"input {name!r} of {signature.op_type} is given twice", fix="by position or by name")
        places[place] = value  # type: ignore[assignment]
    return tuple(places.get(place) for place in range(max(places, default=-1) + 1))


def python_signature(signature: Signature) -> inspect.Signature:
    """The signature that `help` and editors show."""
    kinds = inspect.Parameter
    parameters = []
    for parameter in signature.parameters:
        if parameter.variadic:
            parameters.append(kinds(parameter.name, kinds.VAR_POSITIONAL))
            continue
        default: object = inspect.Parameter.empty if parameter.required else None
        parameters.append(kinds(parameter.name, kinds.POSITIONAL_OR_KEYWORD, default=default))
    for attribute in signature.attributes.values():
        default = inspect.Parameter.empty if attribute.required else attribute.default
        name = attribute.name
        parameters.append(kinds(name, kinds.KEYWORD_ONLY, default=default))
    parameters.append(kinds("outputs", kinds.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


def documentation(signature: Signature) -> str:
    """The docstring: the specification's text, then inputs, attributes and outputs."""
    name = f"{signature.domain or 'ai.onnx'}::{signature.op_type}"
    lines = [f"{name}, as of opset {signature.since}.", "", textwrap.dedent(signature.doc).strip(), "", "Inputs:"]
    lines += [f"    {parameter.name}{_remark(parameter)}" for parameter in signature.parameters]
    if signature.attributes:
        lines += ["", "Attributes:"]
        for attribute in signature.attributes.values():
            default = "required" if attribute.required else f"default {attribute.default!r}"
            doc = " ".join(attribute.doc.split())
            lines.append(f"    {attribute.name} ({attribute.kind.name.lower()}, {default}): {doc}")
    lines += ["", f"Outputs: {', '.join(signature.output_names)}"]
    return "\n".join(lines)


def _remark(parameter: Parameter) -> str:
    kind = "variadic" if parameter.variadic else "" if parameter.required else "optional"
    return f" ({kind}): {parameter.type_name}" if kind else f": {parameter.type_name}"
