"""engine.ir.infer: every value gets a type and a shape that is true, and odd models stay loadable."""

import collections

import onnx_ir as ir
import pytest
from onnx import parser

from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.serialize import serialize
from onnxgrad.importers import load


def inferred(text, opset=20, imports=""):
    model = load(parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}{imports}]> {text}'))
    infer_shapes(model)
    return model


def known(model, name):
    """'float[N, 4]' of the value called `name`, anywhere in the model."""
    graphs = [model.graph, *model.graph.subgraphs()]
    values = [v for g in graphs for v in (*g.inputs, *(v for node in g for v in node.outputs))]
    value = next(v for v in values if v.name == name)
    dims = "?" if value.shape is None else ", ".join(str(dim) for dim in value.shape)
    return f"{value.dtype and value.dtype.name.lower()}[{dims}]"


def test_types_and_symbolic_shapes_reach_every_value():
    model = inferred(
        """g (float[N, 3, 32, W] x) => (float[N, M] y)
        <float[8, 3, 3, 3] w = {0}, int64[2] s = {0, -1}> {
          c = Conv <strides = [2, 2]> (x, w)
          r = Relu(c)
          y = Reshape(r, s)
        }""".replace("<float[8, 3, 3, 3] w = {0}, int64[2] s = {0, -1}> {", "{ w = ConstantOfShape(k) ")
        .replace("x) =>", "x, int64[4] k) =>")
        .replace("y = Reshape", "s = Constant <value_ints = [0, -1]> () y = Reshape")
    )
    assert known(model, "x") == "float[N, 3, 32, W]"
    assert known(model, "y") == "float[N, M]"


def test_wrong_annotations_of_inner_values_are_replaced():
    model = inferred("g (float[N, 4] x) => (float[N, 4] y) <int64[7, 7, 7] t> { t = Abs(x) y = Neg(t) }")
    assert known(model, "t") == "float[N, 4]"


def test_the_declared_interface_stays():
    model = inferred("g (float[N, 4] x) => (float[batch, four] y) { t = Abs(x) y = Neg(t) }")
    assert known(model, "y") == "float[batch, four]"
    assert known(model, "t") == "float[N, 4]"


def test_an_undeclared_output_shape_is_filled_in():
    assert known(inferred("g (float[N, 4] x) => (float[] y) { y = Neg(x) }"), "y") == "float[N, 4]"


def test_a_dimension_that_depends_on_data_takes_the_declared_name():
    model = inferred("g (float[N] x) => (int64[1, found] y) { t = NonZero(x) y = Identity(t) }")
    assert known(model, "t") == "int64[1, found]"


def test_a_name_that_stands_for_different_sizes_is_not_believed():
    model = inferred("""g (float[N, 8] x) => (float[A, N] y, float[A, N] z, int64[2, A] w, float[A, B] v)
        { y = Transpose(x) z = Concat <axis = 0> (y, y) w = NonZero(x) v = Identity(y) }""")
    shapes = {value.name: [str(dim) for dim in value.shape or ()] for value in model.graph.outputs}
    assert shapes["y"][0] == shapes["v"][0] == "A"
    assert len({shapes["y"][0], shapes["z"][0], shapes["w"][1]}) == 3
    spelled = [value.type.tensor_type.shape.dim[0].dim_param for value in serialize(model).graph.output]
    assert spelled == ["A", "A", "", "A"]


def test_the_name_of_an_input_is_believed_where_nothing_speaks_against_it():
    model = inferred("g (float[N] x) => (int64[1, N] y) { t = NonZero(x) y = Identity(t) }")
    assert known(model, "t") == known(model, "y") == "int64[1, N]"


def test_the_name_of_an_input_is_not_believed_for_another_size():
    model = inferred("g (float[N] x) => (float[N] y) { y = Concat <axis = 0> (x, x) }")
    assert known(model, "y") == "float[N_1]"
    assert serialize(model).graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_shape_arithmetic_is_followed():
    model = inferred("""g (float[N, 6, 4] x) => (float[N, 24] y) {
        one = Constant <value_ints = [1]> () rest = Constant <value_ints = [-1]> ()
        s = Shape <start = 0, end = 1> (x) t = Concat <axis = 0> (s, rest)
        r = Reshape(x, t) y = Identity(r) }""")
    assert known(model, "r") == "float[N, 24]"


def test_nothing_of_the_inference_is_left_in_the_file():
    model = inferred("g (float[N, 4] x) => (int64[2] y) { s = Shape(x) y = Identity(s) }")
    assert not any(value.metadata_props for value in serialize(model).graph.value_info)


@pytest.mark.parametrize("node", ["y = com.acme.Foo(t)", "y = com.microsoft.NoSuchOperator(t)"])
def test_an_unknown_operator_keeps_its_annotation(node):
    imports = ', "com.acme" : 1, "com.microsoft" : 1'
    text = f"g (float[N, 4] x) => (float[N, 5] z) <float[N, 5] y> {{ t = Abs(x) {node} z = Neg(y) }}"
    model = inferred(text, imports=imports)
    assert known(model, "t") == "float[N, 4]"
    assert known(model, "y") == known(model, "z") == "float[N, 5]"


def test_contributed_operators_get_types():
    model = inferred(
        """g (float[N, 4] x, float[4, 5] w, int8[4, 5] q, float s, float[1, 3, 8, 8] i, float[2, 3, 3, 3] k)
      => (float[] a, float[] b, float[] c, float[] d) {
        a = com.microsoft.FusedGemm(x, w)
        b = com.microsoft.DynamicQuantizeMatMul(x, q, s)
        c = com.microsoft.FusedConv <activation = "Relu"> (i, k)
        d = com.microsoft.NoRuleForThis(s, x)
      }""",
        imports=', "com.microsoft" : 1',
    )
    assert known(model, "a") == known(model, "b") == "float[N, 5]"
    assert known(model, "c") == "float[1, 2, 6, 6]"
    assert known(model, "d") == "float[?]"


def test_a_rule_that_fails_costs_only_its_node():
    model = inferred("g (float[2, 3] x, float[4, 5] w) => (float[] y, float[2, 3] z) { y = MatMul(x, w) z = Abs(x) }")
    assert known(model, "y") == "float[?]"
    assert known(model, "z") == "float[2, 3]"


def test_a_loop_that_grows_a_value_does_not_keep_its_first_shape():
    model = inferred("""g (int64 n, float[1, 4] x) => (float[M, 4] y) {
        yes = Constant <value = bool {1}> ()
        r = Loop(n, yes, x) <body = b (int64 i, bool c, float[1, 4] v) => (bool d, float[1, 4] u)
          { d = Identity(c) k = Abs(v) u = Concat <axis = 0> (k, x) }>
        y = Identity(r) }""")
    for name in ("v", "u", "k", "r"):
        assert known(model, name).endswith(", 4]") and "[1," not in known(model, name), name
    assert known(model, "r") == "float[M, 4]"


def test_a_loop_keeps_shapes_that_do_not_change_and_stacks_scan_outputs():
    model = inferred("""g (int64 n, bool go, float[N, 4] x) => (float[] y, float[] ys, float[] zs) {
        yes = Constant <value = bool {1}> () three = Constant <value_int = 3> ()
        y, ys = Loop(three, yes, x) <body = b (int64 i, bool c, v) => (bool d, u, w)
          { d = Identity(c) u = Abs(v) w = ReduceSum(v) }>
        z, zs = Loop(three, go, x) <body = b2 (int64 i2, bool c2, v2) => (bool d2, u2, w2)
          { d2 = Not(c2) u2 = Abs(v2) w2 = ReduceSum(v2) }>
      }""")
    assert known(model, "y") == known(model, "v") == known(model, "u") == "float[N, 4]"
    assert known(model, "ys") == "float[3, 1, 1]"
    assert known(model, "zs").startswith("float[_d")  # may stop before the third round


def test_a_branch_without_a_shape_leaves_the_result_without_one():
    model = inferred(
        """g (bool c, float[N, 4] x, int64[k] s) => (float[] y) {
        y = If(c) <then_branch = t () => (float[] a) { a = com.acme.Foo(x) },
                   else_branch = e () => (float[] b) { b = Abs(x) }> }""",
        imports=', "com.acme" : 1',
    )
    assert known(model, "y") == "float[?]"
    assert known(model, "b") == "float[N, 4]"


def test_annotations_of_branches_of_different_rank_are_not_believed():
    model = inferred("""g (bool c, float[1, 4] x) => (float[] y) <float[4] r> {
        r = If(c) <then_branch = t () => (float[4] a) { a = Squeeze(x) },
                   else_branch = e () => (float[1, 4] b) { b = Abs(x) }>
        y = Abs(r) }""")
    assert known(model, "r") == "float[?]"


def test_a_scan_body_sees_slices():
    model = inferred("""g (float[4] s, float[T, N, 4] x) => (float[] z, float[] zs) {
        z, zs = Scan <num_scan_inputs = 1, scan_input_axes = [1],
          body = b (a, v) => (o, p) { t = ReduceSum <keepdims = 0> (v) o = Add(a, t) p = Abs(v) }> (s, x) }""")
    assert known(model, "v") == "float[T, 4]"
    assert known(model, "zs") == "float[N, T, 4]"
    assert known(model, "z") == "float[4]"


def test_functions_are_inferred_at_each_call():
    model = inferred(
        """g (float[N, 4] x, double[7] w) => (float[] y, double[] z) { y = own.f(x) z = own.f(w) }
        <domain: "own", opset_import: ["" : 20]> f (a) => (b) { t = Abs(a) b = Neg(t) }""",
        imports=', "own" : 1',
    )
    assert known(model, "y") == "float[N, 4]"
    assert known(model, "z") == "double[7]"


def test_a_function_that_calls_itself_ends():
    model = inferred(
        """g (float[N] x) => (float[] y) { y = own.f(x) }
        <domain: "own", opset_import: ["own" : 1]> f (a) => (b) { b = own.f(a) }""",
        imports=', "own" : 1',
    )
    assert known(model, "y") == "float[?]"


def test_unnamed_input_dimensions_stay_unnamed_in_the_file():
    model = ir.from_proto(
        parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> g (float[?] x) => (float[?] y) { y = Abs(x) }')
    )
    infer_shapes(model)
    assert not serialize(model).graph.input[0].type.tensor_type.shape.dim[0].dim_param


def test_inferring_twice_changes_nothing():
    model = inferred("g (float[N, 4] x) => (float[] y) { t = NonZero(x) u = Transpose(t) y = Cast <to = 1> (u) }")
    first = serialize(model).SerializeToString()
    infer_shapes(model)
    assert serialize(model).SerializeToString() == first


@pytest.mark.slow
def test_every_operator_of_the_standard_gets_its_type():
    """The models of the standard's own tests: the declared outputs, forgotten and inferred again."""
    from onnx.backend.test.case.node import collect_testcases

    wrong: collections.Counter[tuple[str, str, str, str]] = collections.Counter()
    for case in collect_testcases(None):
        if case.model is None:
            continue
        model = load(case.model)
        declared = [(value, value.type, value.shape) for value in model.graph.outputs]
        for value, _, _ in declared:
            value.type = value.shape = None
        infer_shapes(model)
        for value, type_, shape in declared:
            if value.type != type_:
                wrong[case.name, "type", str(value.type), str(type_)] += 1
            if shape is not None and value.shape is not None and value.type is not None:
                pairs = list(zip(value.shape, shape, strict=False))
                bad = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
                if bad or len(value.shape) != len(shape):
                    wrong[case.name, "shape", str(value.shape), str(shape)] += 1
    assert not wrong
