"""What RNN, GRU and LSTM share: attributes, directions, layouts and masks, activations, and the scan over time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.bodies import add_input, add_output, body_builder
from onnxgrad.engine.ir.builder import Builder, describe
from onnxgrad.grad.registry import GradientBuilder, Grads
from onnxgrad.grad.subgraphs import remove_dead

_END = 2**62
_DEFAULTS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus"), ()),
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01,),
    "ThresholdedRelu": (1.0,),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0,),
}
_SPELLINGS = {name.lower(): name for name in _DEFAULTS}


@dataclass(frozen=True)
class Activation:
    """An activation function of a recurrent operator, applied to z clipped to [-clip, clip] (0: not clipped)."""

    name: str
    numbers: tuple[float, ...]
    clip: float

    def apply(self, op: Builder, z: ir.Value) -> tuple[ir.Value, ir.Value]:
        """f(z) and its derivative."""
        if not self.clip:
            return self._apply(op, z)
        clipped = op.Clip(z, -self.clip, self.clip)
        y, slope = self._apply(op, clipped)
        return y, op.Where(op.Equal(z, clipped), slope, 0.0)

    def _apply(self, op: Builder, z: ir.Value) -> tuple[ir.Value, ir.Value]:
        alpha, beta = (*self.numbers, 0.0, 0.0)[:2]
        match self.name:
            case "Sigmoid":
                y = op.Sigmoid(z)
                return y, op.Mul(y, op.Sub(op.constant_like(y, 1), y))
            case "Tanh":
                y = op.Tanh(z)
                return y, op.Sub(op.constant_like(y, 1), op.Mul(y, y))
            case "ScaledTanh":
                y = op.Tanh(op.Mul(z, beta))
                return op.Mul(y, alpha), op.Mul(op.Sub(op.constant_like(y, 1), op.Mul(y, y)), alpha * beta)
            case "Affine":
                return op.Add(op.Mul(z, alpha), beta), op.Add(op.Mul(z, 0.0), alpha)
            case "HardSigmoid":
                y = op.Clip(op.Add(op.Mul(z, alpha), beta), 0.0, 1.0)
                return y, _pick(op, op.And(op.Greater(y, 0.0), op.Less(y, 1.0)), z, alpha, 0.0)
            case "Softsign":
                below = op.Add(op.Abs(z), 1.0)
                return op.Div(z, below), op.Reciprocal(op.Mul(below, below))
            case "Softplus":
                return op.Softplus(z), op.Sigmoid(z)
            case "ThresholdedRelu":
                passes = op.Greater(z, alpha)
                return op.Where(passes, z, 0.0), _pick(op, passes, z, 1.0, 0.0)
            case "Elu":
                passes, low = op.Greater(z, 0.0), op.Mul(op.Exp(op.Min(z, op.constant_like(z, 0))), alpha)
                return op.Where(passes, z, op.Sub(low, alpha)), op.Where(passes, op.constant_like(z, 1), low)
            case _:  # Relu, LeakyRelu
                passes = op.Greater(z, 0.0)
                return op.Where(passes, z, op.Mul(z, alpha)), _pick(op, passes, z, 1.0, alpha)


def _pick(op: Builder, condition: ir.Value, like: ir.Value, yes: float, no: float) -> ir.Value:
    return op.Where(condition, op.constant_like(like, yes), op.constant_like(like, no))


LaneGrads = dict[str, ir.Value]
"""Gradients of a lane's x [T,N,I], w, r, wb, rb, h0, c0, p, by these names."""

Carried = tuple[list[ir.Value], list[ir.Value]]
"""What a step of a scan gives: the next states, and what it puts out."""


@dataclass
class Lane:
    """One direction of a recurrent operator; time is axis 0, T steps, N sequences, I inputs, H hidden values, G gates.

    x [T,N,I], w [G*H,I], r [G*H,H], wb and rb [G*H] (the halves of B), h0 and c0 [N,H] (zeros if left out), p
    the peepholes [3*H], y [T,N,H]; dy, dy_h, dy_c gradients of the outputs; valid [T,N,1] is False where a sequence
    has ended. reverse: time runs from the last step to the first.
    """

    op: Builder
    reverse: bool
    activations: list[Activation]
    x: ir.Value
    w: ir.Value
    r: ir.Value
    wb: ir.Value | None
    rb: ir.Value | None
    h0: ir.Value
    c0: ir.Value
    p: ir.Value | None
    y: ir.Value
    dy: ir.Value | None
    dy_h: ir.Value
    dy_c: ir.Value
    valid: ir.Value | None

    def before(self, steps: ir.Value, first: ir.Value) -> ir.Value:
        """The sequence [T,N,H] a step late: what each step found; `first` [N,H] for the step that runs first."""
        op = self.op
        first = op.Unsqueeze(first, [0])
        if not self.reverse:
            return op.Concat(first, op.Slice(steps, [0], [-1], [0]), axis=0)
        late = op.Slice(steps, [1], [_END], [0])
        if self.valid is not None:
            late = op.Where(op.Slice(self.valid, [1], [_END], [0]), late, first)
        return op.Concat(late, first, axis=0)

    def rows(self, steps: ir.Value) -> ir.Value:
        """[T,N,K] as [T*N,K]."""
        return self.op.Flatten(steps, axis=2)

    def steps(self, rows: ir.Value) -> ir.Value:
        """[T*N,K] as [T,N,K]."""
        op, shape = self.op, self.x.shape
        assert shape is not None
        width = rows.shape[1] if rows.shape is not None else op.context.new_symbolic_dim()
        dims = [*list(shape)[:2], width]
        if all(isinstance(dim, int) for dim in dims):
            return op.Reshape(rows, op.constant([int(d) for d in dims if isinstance(d, int)]), allowzero=1)
        size = op.constant([width]) if isinstance(width, int) else op.Shape(rows, start=1)
        result = op.Reshape(rows, op.Concat(op.Shape(self.x, start=0, end=2), size, axis=0), allowzero=1)
        result.shape = ir.Shape(dims)
        return result

    def project(self, h: ir.Value, w: ir.Value, r: ir.Value, bias: ir.Value | None) -> ir.Value:
        """x w^T + h r^T + bias over all steps at once: [T*N,K]."""
        return self.op.Gemm(self.rows(h), r, self.op.Gemm(self.rows(self.x), w, bias, transB=1), transB=1)

    def masked(self, rows: ir.Value, otherwise: float = 0.0) -> ir.Value:
        """`rows` [T*N,K] where the sequences last, another number behind their end."""
        return rows if self.valid is None else self.op.Where(self.rows(self.valid), rows, otherwise)

    def bias(self) -> ir.Value | None:
        """The sum of both biases, or None."""
        return None if self.wb is None or self.rb is None else self.op.Add(self.wb, self.rb)

    def split(self, value: ir.Value, parts: int, axis: int = 1) -> tuple[ir.Value, ...]:
        """`value` cut into equal parts along an axis."""
        return self.op.node("Split", value, outputs=parts, axis=axis, num_outputs=parts)

    def feeds(self, *factors: ir.Value) -> list[ir.Value]:
        """What the backward scan runs over: `factors` [T*N,K], dy, and what a step passes on (1 behind the end)."""
        found = [self.steps(factor) for factor in factors]
        found += [] if self.dy is None else [self.dy]
        if self.valid is not None:
            one, zero = self.op.constant_like(self.x, 1), self.op.constant_like(self.x, 0)
            found.append(self.op.Where(self.valid, zero, one))
        return found

    def arriving(self, inner: Builder, carried: ir.Value, rest: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value | None]:
        """In a step, from the last of its `feeds`: the gradient of its h, and the part of it that passes the step."""
        slices = list(rest)
        dh = carried if self.dy is None else inner.Add(slices.pop(0), carried)
        return dh, inner.Mul(dh, slices[0]) if slices else None

    def projected(self, da: ir.Value, h: ir.Value) -> LaneGrads:
        """Gradients of the operands of a = x W^T + h R^T + b, from da [T,N,G*H] and h [T*N,H]: one Gemm each."""
        op, rows = self.op, self.rows(da)
        bias = op.ReduceSum(rows, [0], keepdims=0)
        x, w, r = op.MatMul(da, self.w), op.Gemm(rows, self.rows(self.x), transA=1), op.Gemm(rows, h, transA=1)
        return {"x": x, "w": w, "r": r, "wb": bias, "rb": bias}

    def scan(
        self,
        states: Sequence[ir.Value],
        steps: Sequence[ir.Value],
        body: Callable[..., Carried],
        backward: bool,
    ) -> tuple[ir.Value, ...]:
        """Carry `states` over `steps` (each [T,...]), in the order of time or against it (backward).

        body(builder, *states, *slices) gives the next states and what each step puts out. Returns the last states, then
        what was put out, stacked in place.
        """
        op = self.op
        inner = body_builder(op, op.names.fresh_node("step"))
        formals = [add_input(inner, "state", v.type, v.shape) for v in states]
        for value in steps:
            assert value.shape is not None
            formals.append(add_input(inner, "slice", value.type, ir.Shape(list(value.shape)[1:])))
        following, results = body(inner, *formals)
        for value in (*following, *results):
            add_output(inner, value)
        turned = 1 if self.reverse != backward else None
        return op.node(
            "Scan",
            *states,
            *steps,
            outputs=len(following) + len(results),
            body=inner.graph,
            num_scan_inputs=len(steps),
            scan_input_directions=turned and [1] * len(steps),
            scan_output_directions=turned and [1] * len(results),
        )


_NAMES = {"X": 0, "W": 1, "R": 2, "B": 3, "lens": 4, "h0": 5, "c0": 6, "P": 7}


@dataclass(frozen=True)
class _Setting:
    """The attributes of a recurrent node."""

    reverse: list[bool]
    activations: list[list[Activation]]
    layout: int


def recurrent_gradient(
    op: GradientBuilder,
    node: ir.Node,
    dys: Sequence[ir.Value | None],
    cell: Callable[[Lane], LaneGrads],
    defaults: Sequence[str],
) -> Grads:
    """The gradient of an RNN, GRU or LSTM as a call of one function; `cell` gives the gradients of one direction.

    defaults: the activations of one direction where the node has none.
    """
    setting = _setting(node, defaults)
    inputs = [*node.inputs, *[None] * 8][:8]
    sought = [name for name, i in _NAMES.items() if inputs[i] is not None and name != "lens" and op.wants(inputs[i])]
    dys = [*dys, None, None, None][:3]

    def body(inner: Builder, *formals: ir.Value | None) -> tuple[ir.Value, ...]:
        return _all_lanes(inner, formals, setting, cell, sought)

    results = op.call(f"{node.op_type}Grad", body, *inputs, _hidden_states(op, node), *dys)
    grads: list[ir.Value | None] = [None] * len(node.inputs)
    for name, result in zip(sought, results, strict=True):
        grads[_NAMES[name]] = result
        operand = inputs[_NAMES[name]]
        assert operand is not None
        result.shape = operand.shape
    return grads


def _hidden_states(op: GradientBuilder, node: ir.Node) -> ir.Value:
    """The output Y; one that the node does not put out yet is added to it."""
    if not node.outputs:
        node.resize_outputs(1)
    y = node.outputs[0]
    if not y.name:
        y.name = op.names.fresh(f"{node.name}.Y")
        op.infer(node)
    return y


def _setting(node: ir.Node, defaults: Sequence[str]) -> _Setting:
    attributes = node.attributes
    direction = attributes.get_string("direction", "forward")
    reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction or "forward"]
    names = [*attributes["activations"].as_strings()] if "activations" in attributes else [*defaults] * len(reverse)
    alphas = [*attributes["activation_alpha"].as_floats()] if "activation_alpha" in attributes else []
    betas = [*attributes["activation_beta"].as_floats()] if "activation_beta" in attributes else []
    clip = attributes.get_float("clip", 0.0) or 0.0
    found: list[Activation] = []
    for spelled in names:
        name = _SPELLINGS.get(spelled.lower())
        if name is None:
            raise GradientError(
                f"the activation {spelled!r} has no gradient",
                where=describe(node),
                why=f"known are {', '.join(_DEFAULTS)}",
            )
        numbers = list(_DEFAULTS[name])
        for place, given in enumerate((alphas, betas)):
            if place < len(numbers) and given:
                numbers[place] = given.pop(0)
        found.append(Activation(name, tuple(numbers), clip))
    each = len(found) // len(reverse)
    layout = attributes.get_int("layout", 0) or 0
    return _Setting(reverse, [found[i * each : (i + 1) * each] for i in range(len(reverse))], layout)


def _all_lanes(
    op: Builder,
    formals: Sequence[ir.Value | None],
    setting: _Setting,
    cell: Callable[[Lane], LaneGrads],
    sought: Sequence[str],
) -> tuple[ir.Value, ...]:
    if setting.layout:
        orders = {i: [1, 2, 0, 3] if i in (8, 9) else [1, 0, 2] for i in (0, 5, 6, 8, 9, 10, 11)}
        turned = {i: op.Transpose(v, perm=orders[i]) for i, v in enumerate(formals) if v is not None and i in orders}
        formals = [turned.get(i, v) for i, v in enumerate(formals)]
    lanes = [_lane(op, formals, setting, d) for d in range(len(setting.reverse))]
    grads = [cell(lane) for lane in lanes]
    results: list[ir.Value] = []
    for name in sought:
        if name == "X":
            parts = [found["x"] for found in grads]
            result = parts[0] if len(parts) == 1 else op.Add(*parts)
        else:
            rows = [op.Unsqueeze(_part(op, found, name), [0]) for found in grads]
            result = rows[0] if len(rows) == 1 else op.Concat(*rows, axis=0)
        if setting.layout and name in ("X", "h0", "c0"):
            result = op.Transpose(result, perm=[1, 0, 2])
        results.append(result)
    remove_dead(op.graph, needed=results)
    return tuple(results)


def _part(op: Builder, grads: LaneGrads, name: str) -> ir.Value:
    return op.Concat(grads["wb"], grads["rb"], axis=0) if name == "B" else grads[name.lower()]


def _lane(op: Builder, formals: Sequence[ir.Value | None], setting: _Setting, d: int) -> Lane:
    def pick(index: int, axis: int = 0) -> ir.Value | None:
        value = formals[index]
        if value is None:
            return None
        alone = len(setting.reverse) == 1
        return op.Squeeze(value, [axis]) if alone else op.Gather(value, d, axis=axis)

    x, w, r, y = formals[0], pick(1), pick(2), pick(8, 1)
    assert x is not None and w is not None and r is not None and y is not None
    b = pick(3)
    wb, rb = (None, None) if b is None else op.node("Split", b, outputs=2, axis=0, num_outputs=2)
    zero = op.zeros_like(op.Squeeze(op.Slice(y, [0], [1], [0]), [0]))
    valid, dy, dy_h, dy_c = None, pick(9, 1), pick(10) or zero, pick(11) or zero
    if formals[4] is not None:
        lens = op.Cast(formals[4], to=int(ir.DataType.INT64))
        count = op.Squeeze(op.Shape(x, start=0, end=1), [0])
        valid = op.Less(op.Unsqueeze(op.Range(0, count, 1), [1, 2]), op.Unsqueeze(lens, [0, 2]))
        x = op.Where(valid, x, 0.0)  # behind the end stands anything, even NaN
        dy = None if dy is None else op.Where(valid, dy, 0.0)
        runs = op.Unsqueeze(op.Greater(lens, 0), [1])  # onnxruntime gives zeros as the last state of an empty sequence
        dy_h, dy_c = op.Where(runs, dy_h, 0.0), op.Where(runs, dy_c, 0.0)
    return Lane(
        op,
        setting.reverse[d],
        setting.activations[d],
        *(x, w, r, wb, rb),
        *(pick(5) or zero, pick(6) or zero, pick(7)),
        y,
        dy,
        *(dy_h, dy_c),
        valid,
    )
