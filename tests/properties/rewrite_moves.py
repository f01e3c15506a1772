"""Random operators that move, cut, join and reduce, for graphs that passes rewrite."""

import math

import numpy as np

from tests.properties.rewrite_operators import conv, gemm, matmul, no_op, norm, pad, unary
from tests.properties.rewrite_sketch import BOOL, FLOAT, INT, NUMBERS, Sketch, Value


def transpose(sketch: Sketch) -> None:
    """Any order of axes, sometimes undone at once."""
    x = sketch.operand(*NUMBERS, BOOL, rank=(2, 3, 4, 5))
    order = list(range(len(x.shape)))
    sketch.random.shuffle(order)
    if order:
        y = sketch.emit("Transpose", [x.name], x.of(shape=tuple(x.shape[k] for k in order)), perm=order)
        if y and sketch.chance(0.3):
            unary(sketch)
            sketch.emit("Transpose", [y.name], x, perm=[order.index(k) for k in range(len(order))])


def reshape(sketch: Sketch) -> None:
    """To a constant shape, with -1 or 0; or Flatten."""
    x = sketch.operand(*NUMBERS)
    size, rank = math.prod(x.shape), len(x.shape)
    if sketch.chance(0.2):
        axis = sketch.random.randint(0, rank)
        flat = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
        sketch.emit("Flatten", [x.name], x.of(shape=flat), axis=axis)
        return
    pairs = [(d, size // d) for d in range(1, size + 1) if size % d == 0]
    first = sketch.random.choice(pairs)
    shapes: list[tuple[int, ...]] = [(size,), first, (1, *x.shape), x.shape[::-1], x.shape, (*first, 1)]
    if rank > 1:
        shapes.append((*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    shape = sketch.random.choice(shapes)
    target = list(shape)
    for k, d in enumerate(shape):
        if k < rank and d == x.shape[k] and sketch.chance(0.2):
            target[k] = 0
    if target and sketch.chance(0.4):
        target[sketch.random.randrange(len(target))] = -1
    sketch.emit("Reshape", [x.name, sketch.constant(target)], x.of(shape=shape))


def axes_of_one(sketch: Sketch) -> None:
    """Squeeze or Unsqueeze."""
    x = sketch.operand(*NUMBERS, BOOL)
    ones = [k for k, d in enumerate(x.shape) if d == 1]
    rank = len(x.shape)
    if ones and sketch.chance():
        gone = sketch.random.sample(ones, sketch.random.randint(1, len(ones)))
        axes = [k - rank if sketch.chance(0.3) else k for k in gone]
        shape = tuple(d for k, d in enumerate(x.shape) if k not in gone)
        sketch.emit("Squeeze", [x.name, sketch.constant(axes)], x.of(shape=shape))
    else:
        axis = sketch.random.randint(0, rank)
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        given = axis - rank - 1 if sketch.chance(0.3) else axis
        sketch.emit("Unsqueeze", [x.name, sketch.constant([given])], x.of(shape=shape))


def cut(sketch: Sketch) -> None:
    """Slice along one or two axes, or Gather."""
    x = sketch.operand(*NUMBERS, rank=(1, 2, 3, 4))
    if not x.shape:
        return
    axis = sketch.random.randrange(len(x.shape))
    size, before, after = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
    if sketch.chance(0.3):
        index = sketch.random.randint(-size, size - 1) if size else 0
        if size and sketch.chance():
            sketch.emit("Gather", [x.name, sketch.constant(np.int64(index))], x.of(shape=(*before, *after)), axis=axis)
        elif size:
            sketch.emit("Gather", [x.name, sketch.constant([index, 0])], x.of(shape=(*before, 2, *after)), axis=axis)
        return
    step = sketch.random.choice([1, 1, 2, -1])
    start, end = sketch.random.choice([(0, 2**62), (1, 2**62), (0, -1), (-2, 2**31), (0, 2), (0, size)])
    start, end = (start, end) if step > 0 else (-1, -(2**31))
    kept = len(range(size)[slice(start, end, step)])
    given = [sketch.constant([number]) for number in (start, end, axis, step)]
    inputs = given if step != 1 or sketch.chance() else given[:3]
    if kept:
        sketch.emit("Slice", [x.name, *inputs], x.of(shape=(*before, kept, *after)))


def join(sketch: Sketch) -> None:
    """Concat of values of one shape, Split, or Split and Concat in some order."""
    x = sketch.operand(rank=(1, 2, 3, 4))
    if not x.shape:
        return
    axis = sketch.random.randrange(len(x.shape))
    size, before, after = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
    if size > 1 and sketch.chance():
        first = sketch.random.randint(1, size - 1)
        parts = [x.of(shape=(*before, part, *after)) for part in (first, size - first)]
        if sketch.emit("Split", [x.name, sketch.constant([first, size - first])], *parts, axis=axis):
            names = [value.name for value in sketch.values[-2:]]
            if sketch.chance(0.4):
                sketch.emit("Concat", names if sketch.chance(0.7) else names[::-1], x, axis=axis)
    else:
        alike = [v for v in sketch.values if v.shape == x.shape and v.dtype == x.dtype]
        chosen = [sketch.random.choice(alike) for _ in range(sketch.random.randint(1, 3))]
        large, exact = max(v.bound for v in chosen), all(v.exact for v in chosen)
        result = x.of(shape=(*before, size * len(chosen), *after), bound=large, exact=exact)
        sketch.emit("Concat", [v.name for v in chosen], result, axis=axis)


def reduce(sketch: Sketch) -> None:
    """Over some axes, all or none; often twice."""
    x = sketch.operand()
    rank = len(x.shape)
    axes = [k for k in range(rank) if sketch.chance()]
    gone, keep = axes or list(range(rank)), sketch.random.randint(0, 1)
    shape = tuple(1 if k in gone else d for k, d in enumerate(x.shape) if keep or k not in gone)
    count = math.prod(x.shape[k] for k in gone)
    kinds = {"ReduceSum": count * x.bound, "ReduceMean": x.bound, "ReduceMax": x.bound, "ReduceMin": x.bound,
             "ReduceSumSquare": count * x.bound**2, "ReduceL1": count * x.bound}  # fmt: skip
    op_type = sketch.random.choice(list(kinds))
    given = [sketch.constant([k - rank if sketch.chance(0.3) else k for k in axes])] if axes else []
    result = x.of(shape=shape, bound=kinds[op_type], exact=x.exact and op_type != "ReduceMean")
    sketch.emit(op_type, [x.name, *given], result, keepdims=keep)


def softmax(sketch: Sketch) -> None:
    """Softmax or LogSoftmax, also as Log(Softmax), along any axis; Exp / sum of Exp."""
    x = sketch.operand(rank=(1, 2, 3, 4))
    if not x.shape or x.bound > 16:
        return
    axis = sketch.random.randint(-len(x.shape), len(x.shape) - 1)
    result = x.of(bound=2 * x.bound + 5, exact=False)
    kind = sketch.random.choice(["Softmax", "LogSoftmax", "Log", "written"])
    if kind == "written":
        e = sketch.emit("Exp", [x.name], x.of(bound=1.0, exact=False))
        assert e is not None
        shape = tuple(1 if k == axis % len(x.shape) else d for k, d in enumerate(x.shape))
        s = sketch.emit("ReduceSum", [e.name, sketch.constant([axis])], e.of(shape=shape), keepdims=1)
        assert s is not None
        sketch.emit("Div", [e.name, s.name], e)
    else:
        y = sketch.emit("LogSoftmax" if kind == "LogSoftmax" else "Softmax", [x.name], result, axis=axis)
        if y and kind == "Log":
            sketch.emit("Log", [y.name], result)


def from_shapes(sketch: Sketch) -> None:
    """A shape that is computed from another, and used by Reshape or Expand."""
    x = sketch.operand(rank=(2, 3, 4))
    rank = len(x.shape)
    s = rank and sketch.emit("Shape", [x.name], Value("", (rank,), INT, 200.0))
    if not s:
        return
    kind = sketch.random.choice(["same", "flat", "expand", "zeros"])
    if kind == "same":
        sketch.emit("Reshape", [x.name, s.name], x)
    elif kind == "zeros":
        sketch.emit("ConstantOfShape", [s.name], x.of(bound=0.0, exact=True))
    elif kind == "expand":
        small = [v for v in sketch.values if v.dtype == FLOAT and _fits(v.shape, x.shape)]
        v = sketch.random.choice(small)
        sketch.emit("Expand", [v.name, s.name], v.of(shape=x.shape))
    else:
        is_scalar = sketch.chance()
        index = sketch.constant(np.int64(0) if is_scalar else [0])
        d = sketch.emit("Gather", [s.name, index], Value("", () if is_scalar else (1,), INT, 200.0), axis=0)
        if d and is_scalar:
            d = sketch.emit("Unsqueeze", [d.name, sketch.constant([0])], d.of(shape=(1,)))
        c = d and sketch.emit("Concat", [d.name, sketch.constant([-1])], Value("", (2,), INT, 200.0), axis=0)
        if c:
            sketch.emit("Reshape", [x.name, c.name], x.of(shape=(x.shape[0], math.prod(x.shape[1:]))))


def _fits(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    aligned = (1,) * (len(large) - len(small)) + small
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(aligned, large, strict=True))


def idiom(sketch: Sketch) -> None:
    """What exporters write out: x * Sigmoid(x), hard swish, a normalization, a bias behind a Transpose."""
    x = sketch.operand(rank=(1, 2, 3, 4))
    kind, rough = sketch.random.choice(["silu", "hard", "norm", "tail"]), x.of(exact=False)
    if kind == "silu":
        s = sketch.emit("Sigmoid", [x.name], rough)
        if s:
            sketch.emit("Mul", sketch.random.sample([x.name, s.name], 2), rough)
    elif kind == "hard":
        a = sketch.emit("Add", [x.name, sketch.constant(np.float32(3))], x.of(bound=x.bound + 3))
        bounds = [sketch.constant(np.float32(bound)) for bound in (0, 6)]
        c = a and sketch.emit("Clip", [a.name, *bounds], x.of(bound=6.0))
        d = c and sketch.emit("Div", [c.name, sketch.constant(np.float32(6))], rough.of(bound=1.0))
        if d and sketch.chance():
            sketch.emit("Mul", [x.name, d.name], rough)
    elif kind == "norm" and x.shape:
        axes, shape = sketch.constant([-1]), (*x.shape[:-1], 1)
        m = sketch.emit("ReduceMean", [x.name, axes], rough.of(shape=shape), keepdims=1)
        c = m and sketch.emit("Sub", [x.name, m.name], rough.of(bound=2 * x.bound))
        q = c and sketch.emit("Mul", [c.name, c.name], rough.of(bound=4 * x.bound**2))
        v = q and sketch.emit("ReduceMean", [q.name, axes], q.of(shape=shape), keepdims=1)
        e = v and sketch.emit("Add", [v.name, sketch.constant(np.float32(0.5))], v)
        r = e and sketch.emit("Sqrt", [e.name], e)
        if c and r:
            sketch.emit("Div", [c.name, r.name], rough.of(bound=4.0))
    elif kind == "tail" and len(x.shape) > 1:
        order = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
        t = sketch.emit("Transpose", [x.name], x.of(shape=tuple(x.shape[k] for k in order)), perm=order)
        if t:
            bias = sketch.constant(sketch.integers(t.shape[-1:]))
            sketch.emit("Add", [t.name, bias], t.of(bound=t.bound + 3))


def chain(sketch: Sketch) -> None:
    """A convolution or product with what is folded into it before and behind."""
    image = any(len(v.shape) in (3, 4) and v.dtype == FLOAT for v in sketch.values) and sketch.chance(0.7)
    heavy = conv if image else sketch.random.choice([matmul, gemm])
    before = sketch.random.choice([pad, norm, None, None, by_channel])
    if before is not None:
        before(sketch)
    heavy(sketch)
    for _ in range(sketch.random.randint(1, 2)):
        sketch.random.choice([norm, unary, no_op, heavy, by_channel])(sketch)


def by_channel(sketch: Sketch) -> None:
    """A number, or one for each channel, that is added or multiplied."""
    x = sketch.values[-1]
    if x.dtype != FLOAT or len(x.shape) < 2:
        return
    shape = sketch.random.choice([(), (x.shape[1], *[1] * (len(x.shape) - 2)), x.shape[-1:]])
    pair = [x.name, sketch.constant(sketch.integers(shape))]
    op_type = sketch.random.choice(["Add", "Sub", "Mul"])
    sketch.emit(op_type, sketch.random.sample(pair, 2), x.of(bound=3 * x.bound + 3))


# operator and operands of each step: x, numbers, or the result of an earlier step by its negative index
WRITTEN: tuple[tuple[tuple, ...], ...] = (
    (("Neg", "x"), ("Exp", "-1"), ("Add", "-1", 1.0), ("Div", 1.0, "-1")),
    (("Div", "x", 2.0**0.5), ("Erf", "-1"), ("Add", "-1", 1.0), ("Mul", "x", "-1"), ("Mul", "-1", 0.5)),
    (("Abs", "x"), ("Add", "-1", 1.0), ("Div", "x", "-1")),
    (("Softplus", "x"), ("Tanh", "-1"), ("Mul", "x", "-1")),
    (("Abs", "x"), ("Pow", "-1", 0.5)),
    (("Abs", "x"), ("Add", "-1", 1.0), ("Reciprocal", "-1"), ("Mul", "x", "-1")),
    (("Mul", "x", 0.25), ("Max", "x", "-1")),
    (("PRelu", "x", 0.25),),
    (("Neg", "x"), ("Neg", "-1")),
    (("Sum", "x", "x"), ("Sub", "-1", "x")),
    (("Mul", "x", 2.0), ("Add", "-1", 1.0), ("Mul", "-1", 0.5)),
    (("Relu", "x"), ("Relu", "-1"), ("Abs", "-1")),
    (("Add", "x", 3.0), ("Relu", "-1"), ("Min", "-1", 6.0), ("Mul", "-1", "x"), ("Div", "-1", 6.0)),
    (("Mul", "x", 2.0), ("Softmax", "-1"), ("Add", "-1", 1.0), ("Softmax", "-1")),
)


def written_out(sketch: Sketch) -> None:
    """An activation or some arithmetic in single steps."""
    x = sketch.operand(rank=(1, 2, 3, 4))
    if not x.shape or x.bound > 16:
        return
    last = x
    for op_type, *operands in sketch.random.choice(WRITTEN):
        names = {"x": x.name, "-1": last.name}
        inputs = [names[o] if isinstance(o, str) else sketch.constant(np.float32(o)) for o in operands]
        made = sketch.emit(op_type, inputs, x.of(bound=20.0, exact=False))
        if made is None:
            return
        last = made


FAMILIES = (
    *(transpose, transpose, reshape, reshape, axes_of_one, cut, cut, join, join, reduce, softmax, from_shapes, idiom),
    *(idiom, written_out, written_out, written_out, chain, chain, chain, chain, chain),
)
