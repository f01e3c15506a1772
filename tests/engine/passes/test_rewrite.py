"""The language of patterns, and the walk that applies rewrites."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from onnxgrad.engine.passes.queries import broadcasts_into, dim, rank
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Output, Pattern, Rewrite
from tests.engine.passes.checks import apply, check, f32, i64, model_of, operators


class MatMulAddToGemm(Rewrite):
    """Add(MatMul(a, b), c) -> Gemm(a, b, c)."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, c: Leaf) -> Pattern:
        return op.Add(op.MatMul(a, b), c)

    def check(self, a: ir.Value, b: ir.Value, c: ir.Value) -> Match:
        return Match.all(rank(a) == 2, rank(b) == 2, broadcasts_into(c, (dim(a, 0), dim(b, 1))))

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return op.Gemm(a, b, c)


class Replace(Rewrite):
    """A pattern from a function; what it finds becomes Relu(x), or x itself."""

    def __init__(self, pattern: Callable[[Ops, Leaf], Pattern], keeps_x: bool = False) -> None:
        self.find, self._keeps_x = pattern, keeps_x

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return self.find(op, x)

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x if self._keeps_x else op.Relu(x)


def test_a_match_is_replaced_and_the_new_node_takes_names_and_metadata():
    model = model_of(
        "g (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y) "
        "{ [first] m = MatMul(x, w) [second] a = Add(b, m) y = Relu(a) }"
    )
    model.graph[1].metadata_props["namespace"] = "layer"
    result = check(model, MatMulAddToGemm(), hits=1)
    gemm = result.graph[0]
    assert (gemm.op_type, gemm.name, gemm.outputs[0].name) == ("Gemm", "second", "a")
    assert gemm.metadata_props["namespace"] == "layer"
    assert list(gemm.outputs[0].shape.dims) == [2, 4]


REFUSED = {
    "another reader": "g (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y, float[2,4] z) "
    "{ m = MatMul(x, w) y = Add(m, b) z = Relu(m) }",
    "a graph output": "g (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y, float[2,4] m) "
    "{ m = MatMul(x, w) y = Add(m, b) }",
    "a reader in a body": "g (float[2,3] x, float[3,4] w, float[4] b, bool c) => (float[2,4] y, float[2,4] z) "
    "{ m = MatMul(x, w) y = Add(m, b) z = If(c) <then_branch = t () => (float[2,4] u) { u = Relu(m) }, "
    "else_branch = e () => (float[2,4] v) { v = Neg(m) }> }",
    "the other operator": "g (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y) "
    "{ m = MatMul(x, w) y = Sub(m, b) }",
    "another graph": "g (float[2,3] x, float[3,4] w, float[4] b, bool c) => (float[2,4] y) "
    "{ m = MatMul(x, w) y = If(c) <then_branch = t () => (float[2,4] u) { u = Add(m, b) }, "
    "else_branch = e () => (float[2,4] v) { s = Constant<value_ints=[2,4]>() v = Expand(b, s) }> }",
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_inside_a_match_must_be_its_own(case):
    check(model_of(REFUSED[case]), MatMulAddToGemm(), hits=0)


def test_a_failed_check_gives_its_reason():
    model = model_of(
        "g (float[3,3] a, float[3,1] b, float[1,4] c) => (float[3,4] y) { m = MatMul(a, b) y = Add(m, c) }"
    )
    _, record = apply(model, MatMulAddToGemm())
    assert dict(record["mat_mul_add_to_gemm"].reasons) == {"not broadcasts_into(c, (dim(a, 0), dim(b, 1)))": 1}


def test_rewrites_reach_bodies_and_functions():
    inner = "{ m = MatMul(a, w) u = Add(m, b) }"
    model = model_of(
        f"g (float[2,3] a, float[3,4] w, float[4] b, bool c) => (float[2,4] y) {{ y = If(c) "
        f"<then_branch = t () => (float[2,4] u) {inner}, else_branch = e () => (float[2,4] v) "
        "{ n = MatMul(a, w) v = Add(n, b) }> }"
    )
    assert operators(check(model, MatMulAddToGemm(), hits=2)) == ["Gemm", "Gemm", "If"]


class FunctionNeg(Rewrite):
    """Neg(Neg(x)) -> x."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.Neg(op.Neg(x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


def test_rewrites_reach_function_bodies():
    model = model_of(
        "g (float[2] x) => (float[2] y) { y = local.f(x) }\n"
        '<domain: "local", opset_import: ["" : 18]> f (a) => (b) { m = Neg(a) n = Neg(m) b = Abs(n) }',
        imports=', "local" : 1',
    )
    result = check(model, FunctionNeg(), hits=1)
    assert [node.op_type for node in next(iter(result.functions.values()))] == ["Abs"]


MATCHES = [
    # pattern, nodes, constants, matches
    (lambda op, x: op.Mul(x, 0.5), "y = Mul(x, k)", {"k": f32(0.5)}, True),
    (lambda op, x: op.Mul(x, 0.5), "y = Mul(k, x)", {"k": f32(0.5)}, True),
    (lambda op, x: op.Mul(x, 0.5), "y = Mul(k, x)", {"k": f32(0.6)}, False),
    (lambda op, x: op.Sub(x, 0.5), "y = Sub(k, x)", {"k": f32(0.5)}, False),
    (lambda op, x: op.Mul(x, 0.5), "y = Mul(x, k)", {"k": f32(0.5, 0.5)}, False),
    (lambda op, x: op.Div(x, 1.4142135), "y = Div(x, k)", {"k": f32(np.sqrt(2))}, True),
    (lambda op, x: op.Mul(x, x), "y = Mul(x, x)", {}, True),
    (lambda op, x: op.Mul(x, x), "y = Mul(x, k)", {"k": f32(2)}, False),
    (lambda op, x: op.Softmax(x, axis=-1), "y = Softmax(x)", {}, True),
    (lambda op, x: op.Softmax(x, axis=-1), "y = Softmax<axis=0>(x)", {}, False),
    (lambda op, x: op.Softmax(x), "y = Softmax<axis=0>(x)", {}, False),
    (lambda op, x: op.Softmax(x), "y = Softmax<axis=-1>(x)", {}, True),
    (lambda op, x: op.Softmax(x, attributes=ANY), "y = Softmax<axis=0>(x)", {}, True),
    (lambda op, x: op.one_of(("Sin", "Cos"), x), "y = Cos(x)", {}, True),
    (lambda op, x: op.either(op.Sin(x), op.Cos(op.Cos(x))), "m = Cos(x) y = Cos(m)", {}, True),
    (lambda op, x: op.either(op.Sin(x), op.Cos(op.Cos(x))), "m = Abs(x) y = Cos(m)", {}, False),
    (lambda op, x: op.Clip(x, op.constant(Leaf("lo")), None), "y = Clip(x, k)", {"k": np.float32(0)}, True),
    (lambda op, x: op.Clip(x, op.constant(Leaf("lo"))), "y = Clip(x, k, k)", {"k": np.float32(0)}, False),
    (lambda op, x: op.Clip(x, None, op.optional(Leaf("hi"))), "y = Clip(x)", {}, True),
    (lambda op, x: op.Sum(x, op.many(Leaf("rest"))), "a = Abs(x) y = Sum(x, a, a)", {}, True),
    (lambda op, x: op.Slice(x, [0], [1], [0]), "y = Slice(x, a, b, a)", {"a": i64(0), "b": i64(1)}, True),
    (lambda op, x: op.Slice(x, [0], [1], [1]), "y = Slice(x, a, b, a)", {"a": i64(0), "b": i64(1)}, False),
    (lambda op, x: op.Add(op.Abs(x).keep(), x), "a = Abs(x) s = Add(a, x) y = Mul(a, s)", {}, True),
    (lambda op, x: op.Add(op.Abs(x), x), "a = Abs(x) s = Add(a, x) y = Mul(a, s)", {}, False),
]


@pytest.mark.parametrize("case", range(len(MATCHES)))
def test_patterns(case):
    pattern, nodes, constants, matches = MATCHES[case]
    model = model_of(f"g (float[d] x) => (float[e] y) {{ {nodes} }}", **constants)
    _, record = apply(model, Replace(pattern))
    assert record["replace"].hits == int(matches), dict(record["replace"].reasons)


def test_an_input_with_a_default_is_no_constant():
    model = model_of("g (float[1] x, float[1] k) => (float[1] y) { y = Mul(x, k) }", k=f32(0.5))
    _, record = apply(model, Replace(lambda op, x: op.Mul(x, 0.5)))
    assert record["replace"].hits == 0


class ScaleConv(Rewrite):
    """Conv(x, w) -> the same Conv of w + w, with all attributes passed on."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, kept: Leaf) -> Pattern:
        return op.Mul(op.Conv(x, w, attributes=kept), 2.0)

    def rewrite(self, op: Builder, x: ir.Value, w: ir.Value, kept: dict[str, list[int]]) -> ir.Value:
        return op.Conv(x, op.Add(w, w), **kept)


def test_attributes_are_bound_and_passed_on():
    model = model_of(
        "g (float[1,2,5,5] x, float[2,2,3,3] w) => (float[1,2,3,3] y) "
        "{ c = Conv<strides=[2,2], pads=[1,1,1,1]>(x, w) y = Mul(c, k) }",
        k=f32(2),
    )
    check(model, ScaleConv(), hits=1)


class MergeProducts(Rewrite):
    """Two products of one value -> one product and a Split."""

    def pattern(self, op: Ops, x: Leaf, v: Leaf, w: Leaf) -> tuple[Output, Output]:
        return op.MatMul(x, op.constant(v)), op.MatMul(x, op.constant(w))

    def rewrite(self, op: Builder, x: ir.Value, v: ir.Value, w: ir.Value) -> tuple[ir.Value, ...]:
        product = op.MatMul(x, op.Concat(v, w, axis=1))
        return op.node("Split", product, [dim(v, 1) or 0, dim(w, 1) or 0], outputs=2, axis=-1)


def test_several_outputs_are_replaced_together():
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((3, 4)).astype(np.float32) for name in "vw"}
    text = (
        "g (float[2,3] x) => (float[2,4] y, float[2,4] z) { a = MatMul(x, v) b = MatMul(x, w) y = Relu(a) z = Neg(b) }"
    )
    assert operators(check(model_of(text, **weights), MergeProducts(), hits=1)).count("MatMul") == 1


def test_outputs_without_a_common_place_stay():
    weights = {"v": np.eye(3, dtype=np.float32), "w": np.ones((3, 3), np.float32)}
    text = "g (float[2,3] x) => (float[2,3] y) { a = MatMul(x, v) b = Relu(a) y = MatMul(b, w) }"
    check(model_of(text, **weights), MergeProducts(), hits=0)


def test_a_replacement_of_another_type_is_refused():
    class Wrong(Rewrite):
        """Abs(x) -> x > 0."""

        def pattern(self, op: Ops, x: Leaf) -> Pattern:
            return op.Abs(x)

        def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
            return op.Greater(x, 0.0)

    result, record = apply(model_of("g (float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }"), Wrong())
    assert record["wrong"].hits == 0
    assert operators(result) == ["Abs", "Neg"]
    assert "another type" in next(iter(record["wrong"].reasons))


def test_check_may_ask_only_for_what_the_pattern_binds():
    class Asks(Rewrite):
        """Asks for z."""

        def pattern(self, op: Ops, x: Leaf) -> Pattern:
            return op.Abs(x)

        def check(self, z: ir.Value) -> Match:
            return Match(True)

        def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
            return x

    with pytest.raises(TypeError, match="'z'"):
        apply(model_of("g (float[2] x) => (float[2] y) { y = Abs(x) }"), Asks())


def test_graph_outputs_keep_their_names_when_an_input_takes_their_place():
    text = "g (float[2] x) => (float[2] y, float[2] z) { a = Neg(x) y = Neg(a) b = Abs(y) z = Neg(b) }"
    result = check(model_of(text), Replace(lambda op, x: op.Neg(op.Neg(x)), keeps_x=True), hits=1)
    assert operators(result) == ["Abs", "Identity", "Neg"]


def test_rules_that_undo_each_other_end():
    sin = Replace(lambda op, x: op.Sin(x))
    sin.__dict__["rewrite"] = lambda op, x: op.Sin(x)
    sin.__dict__["rewrite_parameters"] = ("x",)
    _, record = apply(model_of("g (float[2] x) => (float[2] y) { y = Sin(x) }"), sin)
    assert record["replace"].hits > 10
