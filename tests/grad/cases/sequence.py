"""Cases of grad/rules/sequence.py."""

import numpy as np

from tests.grad.checks import Case

FIRST, LAST = np.array(0), np.array(-1)
SPLIT = np.array([1, 3])


def case(op_type, name, inputs, nodes, **fields):
    """A case of several nodes; `nodes` in ONNX text."""
    return Case(op_type, inputs, name=f"{op_type}-{name}", nodes=nodes, domain=(-1, 1), **fields)


AT = "s = SequenceConstruct(x0, x1, x0) a = SequenceAt(s, x2) b = SequenceAt(s, x3) y0 = Mul(a, b)"
INSERT = "s = SequenceConstruct(x0, x1) t = SequenceInsert(s, x2, x3) y0 = ConcatFromSequence <axis = 0> (t)"
APPEND = "s = SequenceConstruct(x0, x1) t = SequenceInsert(s, x2) y0 = ConcatFromSequence <axis = -1> (t)"
ERASE = """s = SequenceConstruct(x0, x1, x0) t = SequenceErase(s, x2) u = SequenceErase(t)
    y = ConcatFromSequence <axis = 0> (u) y0 = Mul(y, x1)"""
STACK = "s = SequenceConstruct(x0, x1) y = ConcatFromSequence <axis = 1, new_axis = 1> (s) y0 = Mul(y, y)"
PIECES = "s = SplitToSequence <axis = 1> (x0, x1) a = SequenceAt(s, x2) y0 = Mul(a, a)"
CHUNKS = "s = SplitToSequence <axis = 1> (x0, x1) y = ConcatFromSequence <axis = 1> (s) y0 = Mul(y, y)"
ROWS = "s = SplitToSequence <keepdims = 0> (x0) a = SequenceAt(s, x1) b = SequenceAt(s, x2) y0 = Mul(a, b)"
SLICES = "s = SplitToSequence (x0) a = SequenceAt(s, x1) b = SequenceAt(s, x2) y0 = Mul(a, b)"
MAP = """s = SplitToSequence <axis = 1> (x0, x1)
    t, u = SequenceMap <body = b (T[A,B] p, T[A,C] w) => (T[A,B] q, T r) {
        q = Mul(p, w) r = ReduceSum <keepdims = 0> (q) }> (s, x2)
    y0 = ConcatFromSequence <axis = 1> (t) y1 = ConcatFromSequence <axis = 0, new_axis = 1> (u)"""
COLLECT = """none = SequenceConstruct(x1) yes = Constant <value = bool {1}> ()
    s, last = Loop <body = b (int64 i, bool c, seq(T) r, T[2] x) => (bool d, seq(T) t, T[2] y) {
        d = Identity(c) y = Mul(x, x2) t = SequenceInsert(r, y) }> (x0, yes, none, x1)
    y0 = ConcatFromSequence <axis = 0> (s)"""
FIBONACCI = """start = SequenceConstruct(x1, x2) yes = Constant <value = bool {1}> ()
    s = Loop <body = b (int64 i, bool c, seq(T) r) => (bool d, seq(T) t) {
        last = Constant <value = int64 {-1}> () other = Constant <value = int64 {-2}> ()
        d = Identity(c) a = SequenceAt(r, last) b = SequenceAt(r, other) y = Mul(a, b)
        t = SequenceInsert(r, y) }> (x0, yes, start)
    y0 = ConcatFromSequence <axis = 0> (s)"""
OPTIONAL = "o = Optional(x0) a = OptionalGetElement(o) y0 = Mul(a, x0)"
PLAIN = "a = OptionalGetElement(x0) y0 = Mul(a, a)"

CASES = [
    case("SequenceAt", "both-ends", [(2, 3), (2, 3), FIRST, LAST], AT),
    case("SequenceAt", "one-twice", [(2, 3), (2, 3), LAST, np.array(2)], AT),
    case("SequenceConstruct", "stacked", [(2, 3), (2, 3)], STACK),
    *(case("SequenceInsert", f"at{int(i)}", [(2,), (3,), (1,), i], INSERT) for i in (FIRST, np.array(1), LAST)),
    case("SequenceInsert", "append", [(2, 1), (2, 3), (2, 2)], APPEND),
    case("SequenceErase", "one-and-last", [(3,), (3,), np.array(-2)], ERASE, second=False),
    case("SplitToSequence", "sizes", [(2, 4), SPLIT, LAST], PIECES),
    case("SplitToSequence", "chunks", [(2, 5), np.array(2)], CHUNKS),
    case("SplitToSequence", "rows", [(3, 2), FIRST, LAST], ROWS),
    case("SplitToSequence", "slices", [(3, 2), FIRST, FIRST], SLICES, second=False),
    case("ConcatFromSequence", "of-unequal", [(2, 5), np.array(2)], CHUNKS, second=False),
    case("SequenceMap", "two-results", [(2, 4), SPLIT, (2, 1)], MAP, outputs=2),
    case("SequenceInsert", "in-a-loop", [np.array(3), (2,), (2,)], COLLECT),
    case("SequenceAt", "in-a-loop", [np.array(3), (2,), (2,)], FIBONACCI),
    case("Optional", "of-tensor", [(3,)], OPTIONAL),
    case("OptionalGetElement", "of-tensor", [(3,)], PLAIN),
]
