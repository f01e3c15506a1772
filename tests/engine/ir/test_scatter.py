"""Slices added at index tuples give what numpy gives, with any number of threads."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import onnxgrad as og

MODEL = """<ir_version: 9, opset_import: ["": 18]>
g (float[{dims}] data, int64[{index}] i, float[{updates}] u) => (float[{dims}] y)
{{ y = ScatterND<reduction = "{how}">(data, i, u) }}"""
SHAPES = [((5, 3), (4, 1), (4, 3)), ((4, 3), (6, 2), (6,)), ((3, 4, 2), (2, 3, 2), (2, 3, 2)), ((7,), (5, 1), (5,))]
FUNCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("how", FUNCTIONS)
@pytest.mark.parametrize("static", [True, False], ids=["static", "symbolic"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_scatter_reduces_what_meets_at_one_place(shapes, static, how, rng):
    dims = [
        [str(d) if static or (k == 1 and j == len(s) - 1) else f"d{k}_{j}" for j, d in enumerate(s)]
        for k, s in enumerate(shapes)
    ]
    text = MODEL.format(dims=",".join(dims[0]), index=",".join(dims[1]), updates=",".join(dims[2]), how=how)
    data, updates = (rng.integers(1, 4, s).astype("f4") for s in (shapes[0], shapes[2]))
    size = np.array(shapes[0][: shapes[1][-1]])
    indices = rng.integers(-size, size, shapes[1])
    want = data.copy()
    FUNCTIONS[how].at(want, tuple(np.moveaxis(indices, -1, 0)), updates)
    run = og.compile(onnx.parser.parse_model(text), threads=2)
    np.testing.assert_array_equal(run(data, indices, updates)["y"], want)
    assert "ScatterND" in str(run.explain())


def test_the_scatter_of_a_model_is_ordered_in_its_gradient_model_too():
    text = MODEL.format(dims="64,256", index="N,1", updates="N,256", how="add")
    model = og.to_proto(og.gradient_model(onnx.parser.parse_model(text), wrt=["u"]))
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    indices, updates = (np.arange(1024) % 3)[:, None], np.ones((1024, 256), "f4")
    feeds = {"data": np.zeros((64, 256), "f4"), "i": indices, "u": updates, "y.grad": np.ones((64, 256), "f4")}
    y, grad = session.run(["y", "u.grad"], feeds)
    assert y[:3].min(axis=1).tolist() == y[:3].max(axis=1).tolist() == [342, 341, 341]
    assert (grad == 1).all()
