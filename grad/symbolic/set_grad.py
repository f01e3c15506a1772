"""Custom gradients in a computing graph, and gradients that stop or are not valid."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError, GraphError, OptionError
from onnxgrad.engine.graph.expansion import EXPANSIONS, Expanding
from onnxgrad.engine.graph.marks import GRADIENT
from onnxgrad.engine.graph.operand import apply
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.builder import describe
from onnxgrad.engine.ir.functions import DOMAIN
from onnxgrad.engine.ir.names import bodies
from onnxgrad.grad import reverse
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.symbolic.checks import with_shape_of
from onnxgrad.grad.symbolic.walk import running

Result = Var | np.ndarray | float | None
CustomGradient = Callable[[], Result] | Callable[[Var], Result]


def set_grad(x: Var, function: CustomGradient | None) -> Var:
    """x itself, with another gradient: `function(dy)` gives it for the gradient `dy` of the result.

    The function takes `dy` or nothing, and returns a variable (or an array, or a number) of the shape and dtype of `x`,
    or None where no gradient is to flow; it is called at each request that goes through here. None for the function
    itself stops the gradient, as `zero_grad` does.

        y = og.set_grad(x, lambda dy: og.op.Clip(dy, -1.0, 1.0))

    Raises: OptionError for a function that takes more; when the gradient is asked for, GraphError for one that has not
    the shape of `x` (at run time, where that is not known before).
    """
    if function is None:
        return zero_grad(x)
    if _arity(function) > 1:
        raise OptionError("the function of a custom gradient takes the gradient of the result, or nothing")
    (y,) = apply("SetGrad", [x], {"function": id(function)}, 1, DOMAIN, standard=False)
    assert isinstance(y, Var)
    node = y.value.producer()
    assert node is not None
    node.meta[GRADIENT] = function
    return y


def zero_grad(x: Var) -> Var:
    """x itself, through which no gradient flows: it counts as a constant."""
    (y,) = apply("SetGrad", [x], {"stop": 1}, 1, DOMAIN, standard=False)
    assert isinstance(y, Var)
    return y


@overload
def stop_gradient(value: Var, /) -> Var: ...


@overload
def stop_gradient(*values: ir.Value) -> None: ...


def stop_gradient(*values: ir.Value | Var) -> Var | None:
    """Let no gradient flow back through these values of a model's graph: they count as constants. In place.

    A variable of a computing graph stays as it is: the result is another one, equal to it, and the only one that stops.
    """
    variables = [value for value in values if isinstance(value, Var)]
    if len(variables) > 1:
        raise GradientError("gradients of variables are stopped one by one", fix="x = og.stop_gradient(x)")
    reverse.stop_gradient(*(value for value in values if isinstance(value, ir.Value)))
    return zero_grad(variables[0]) if variables else None


def current_grad_target() -> Var:
    """The variable that is being differentiated. For functions of custom gradients only.

    Raises: GraphError elsewhere.
    """
    run = running()
    if run is None:
        raise GraphError("no gradient is being taken", fix="ask within the function that is given to og.set_grad")
    return Var(run.graph, run.request.targets[0])


def is_custom(node: ir.Node) -> bool:
    """Whether the gradient of `node`, or of one in its bodies, is a function of the program."""
    return GRADIENT in node.meta or any(is_custom(inner) for body in bodies(node) for inner in body)


@gradient("SetGrad", domain=DOMAIN)
def _set_grad(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """What the function says; nothing where the gradient stops."""
    function: CustomGradient | None = node.meta.get(GRADIENT)
    (x,) = node.inputs
    if function is None or x is None:
        return (None,)
    run = running()
    if run is None:
        raise GradientError("a custom gradient belongs to a graph", where=describe(node), fix="og.gradients on its Var")
    run.called_back = True
    with run.graph.writing(op):
        given = function(Var(run.graph, dy)) if _arity(function) else function()  # type: ignore[call-arg]
        if given is None:
            return (None,)
        result = given if isinstance(given, Var) else run.graph.constant(np.asarray(given), x.dtype)
    if result.graph is not run.graph:
        raise GraphError(f"the custom gradient {result!r} belongs to another graph", where=describe(node))
    if result.value.dtype != x.dtype:
        raise GraphError(f"the custom gradient {result!r} must have the dtype of the input", where=describe(node))
    return (with_shape_of(op, result.value, x, "the custom gradient"),)


def _arity(function: CustomGradient) -> int:
    """How many arguments it must be given."""
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)


def invalid_grad(op: GradientBuilder, node: ir.Node, index: int) -> ir.Value:
    """A gradient that may be built and not used: compiling a graph that needs it raises GraphError.

    For rules, in the place of the gradient of the input `index` of `node`.
    """
    x = node.inputs[index]
    message = (
        f"invalid grad: can not take grad with respect to the {index}'th input var of operator"
        f" {node.domain or 'ai.onnx'}::{node.op_type}"
    )
    (grad,) = op.node("InvalidGrad", x, domain=DOMAIN, message=message, where=describe(node))
    return grad


@gradient("AddUpdate", domain=DOMAIN)
def _add_update(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """None that could be used: an update is no function."""
    return [None if x is None or not op.wants(x) else invalid_grad(op, node, i) for i, x in enumerate(node.inputs)]


@gradient("Callback", domain=DOMAIN)
def _callback(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """y = x for each of its values:  dx = dy"""
    return dys


def _identity(graph: Expanding, node: ir.Node) -> Sequence[ir.Value]:
    """y = x: the gradients were written out before."""
    assert node.inputs[0] is not None
    return (node.inputs[0],)


def _refuse(graph: Expanding, node: ir.Node) -> Sequence[ir.Value]:
    raise GraphError(node.attributes["message"].as_string(), where=node.attributes["where"].as_string())


EXPANSIONS["SetGrad"] = _identity
EXPANSIONS["InvalidGrad"] = _refuse
