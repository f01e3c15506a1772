"""Every operator of the ONNX specification as a function: `og.op.Conv(x, w, strides=[2, 2])`.

Functions have the specification's names, inputs in its order (by position or by name), and attributes by name with its
defaults. A Var in gives a Var out, a Tensor in gives a Tensor out; Python numbers, lists and arrays become constants of
the type that the operator wants. One output is given as it is, several as a tuple; `outputs=` asks for so many.
`og.op.custom("Op", x, domain="my.ops")` is any other operator. `dir(og.op)` lists the names.
"""

from __future__ import annotations

from onnxgrad.engine.graph.functions import make_function
from onnxgrad.engine.graph.operand import Input, Operand, apply
from onnxgrad.engine.graph.signature import operators


def custom(
    op_type: str, *inputs: Input, domain: str, outputs: int = 1, **attributes: object
) -> Operand | tuple[Operand, ...]:
    """An operator outside the specification (com.microsoft, your own): the outputs' types may stay unknown."""
    found = apply(op_type, inputs, attributes, outputs, domain, standard=False)
    return found[0] if outputs == 1 else found


def __getattr__(name: str) -> object:
    """The function of an operator, made when it is first asked for."""
    domain = operators().get(name)
    if domain is None:
        raise AttributeError(f"ONNX has no operator {name!r} (og.op.custom takes those of other domains)")
    function = make_function(name, domain)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return [*operators(), "custom"]
