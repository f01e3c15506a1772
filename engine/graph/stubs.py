"""Type stubs of `og.op`: `python -m onnxgrad.engine.graph.stubs` writes op.pyi beside op.py."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir

from onnxgrad.engine.graph.signature import Attribute, Parameter, Signature, operators, signature_of

_HEADER = '''"""Every operator of the ONNX specification as a function. Written by engine/graph/stubs.py."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.graph.operand import Literal, Operand
from onnxgrad.engine.graph.shared_scalar import SharedScalar
from onnxgrad.engine.graph.shared_tensor import SharedTensor

_Kind = TypeVar("_Kind", bound=Operand)
_Given = SharedTensor | SharedScalar | Literal
_Body = Callable[..., object] | ir.Graph

@overload
def custom(  # type: ignore[overload-overlap]  # outputs is no attribute
    op_type: str, *inputs: _Kind | _Given | None, domain: str, outputs: int, **attributes: object
) -> tuple[_Kind, ...]:
    """An operator outside the specification: the types of its outputs may stay unknown."""
    ...
@overload
def custom(op_type: str, *inputs: _Kind | _Given | None, domain: str, **attributes: object) -> _Kind: ...
'''

_KINDS = {
    ir.AttributeType.INT: "int",
    ir.AttributeType.FLOAT: "float",
    ir.AttributeType.STRING: "str",
    ir.AttributeType.INTS: "Sequence[int]",
    ir.AttributeType.FLOATS: "Sequence[float]",
    ir.AttributeType.STRINGS: "Sequence[str]",
    ir.AttributeType.TENSOR: "np.ndarray | ir.TensorProtocol",
    ir.AttributeType.GRAPH: "_Body",
}
_WIDTH = 110


def stub_text() -> str:
    """The content of op.pyi."""
    return "\n".join([_HEADER, *(line for name, domain in operators().items() for line in _function(name, domain))])


def _function(name: str, domain: str) -> Iterator[str]:
    signature = signature_of(name, domain)
    arguments = [*_inputs(signature), *_attributes(signature)]
    least, most = signature.outputs
    kind = "_Kind" if signature.parameters else "Operand"
    several = f"tuple[{kind}, ...]"
    document = _first_sentence(signature)
    if any(attribute.kind == ir.AttributeType.GRAPH for attribute in signature.attributes.values()):
        yield from _define(name, [*arguments, "outputs: int | None = None"], "Any", document)  # as many as a body gives
    elif signature.op_type == "Split":
        yield from _define(name, [*arguments, "outputs: int | None = None"], several, document)
    elif most == 1:
        yield from _define(name, [*arguments, "outputs: int | None = None"], kind, document)
    else:
        default = kind if least == 1 else f"tuple[{', '.join([kind] * least)}]" if least else several
        yield "@overload"
        yield from _define(name, [*arguments, "outputs: None = None"], default, document)
        yield "@overload"
        yield from _define(name, [*arguments, "outputs: int"], several, "")


def _define(name: str, arguments: list[str], result: str, document: str) -> Iterator[str]:
    head = f"def {name}({', '.join(arguments)}) -> {result}:"
    if len(head) <= _WIDTH:
        yield head
    else:
        yield f"def {name}("
        yield from (f"    {argument}," for argument in arguments)
        yield f") -> {result}:"
    if document:
        yield from textwrap.wrap(f'"""{document}"""', _WIDTH, initial_indent="    ", subsequent_indent="    ")
    yield "    ..."


def _inputs(signature: Signature) -> Iterator[str]:
    optional = False
    for parameter in signature.parameters:
        kind = _input_kind(parameter)
        optional = optional or not (parameter.required or parameter.variadic)
        name = f"{parameter.name}_" if keyword.iskeyword(parameter.name) else parameter.name
        if parameter.variadic:
            yield f"*{name}: {kind}"
        else:
            yield f"{name}: {kind} | None = None" if optional else f"{name}: {kind}"


def _input_kind(parameter: Parameter) -> str:
    return "_Kind | _Given" if parameter.required or not parameter.variadic else "_Kind | _Given | None"


def _attributes(signature: Signature) -> Iterator[str]:
    if not any(parameter.variadic for parameter in signature.parameters):
        yield "*"
    for attribute in signature.attributes.values():
        yield _attribute(attribute)


def _attribute(attribute: Attribute) -> str:
    kind = _KINDS.get(attribute.kind, "object")
    if attribute.required:
        return f"{attribute.name}: {kind}"
    default = attribute.default
    if isinstance(default, int | str):
        return f"{attribute.name}: {kind} = {default!r}"
    if isinstance(default, float):
        return f"{attribute.name}: {kind} = {default:.7g}"
    return f"{attribute.name}: {kind} | None = None"


def _first_sentence(signature: Signature) -> str:
    """The start of the specification's text, as one line of a docstring."""
    text = " ".join(signature.doc.split()).replace('"', "'").replace("\\", "\\\\")
    sentence = re.split(r"(?<=[^.][.:]) ", text, maxsplit=1)[0].rstrip(":")
    return textwrap.shorten(sentence, 300, placeholder=" ...")


def main() -> None:
    """Write the file."""
    Path(__file__).with_name("op.pyi").write_text(stub_text() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
