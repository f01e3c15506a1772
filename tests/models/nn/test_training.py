"""Training with tensors gives what og.Trainer gives."""

from functools import partial

import numpy as np
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad import nn
from onnxgrad.models import datasets

EPOCHS, BATCH = 3, 50


def as_model(net: nn.Sequential) -> ir.Model:
    """An MLP as a model for og.Trainer and symbolic gradients, with the same weights under the same names."""
    graph = og.Graph("mlp")
    state = net.state_dict()
    x = graph.input("x", "float32", ("batch", state["0.weight"].shape[1]))
    weights = {name: og.SharedTensor(array, name=name) for name, array in state.items()}
    hidden = og.op.Relu(og.op.Gemm(x, weights["0.weight"], weights["0.bias"], transB=1))
    logits = og.op.Gemm(hidden, weights["2.weight"], weights["2.bias"], transB=1)
    return graph.to_model({"logits": logits})


@pytest.fixture(scope="module")
def digits():
    images, labels = datasets.mnist_sample()
    x = images.reshape(-1, 784).astype(np.float32) / 255
    train, test = datasets.stratified_split(labels, 1000)
    return (x[train], labels[train]), (x[test], labels[test])


def by_trainer(net, data, test):
    trainer = og.Trainer(as_model(net), og.losses.CrossEntropy(), og.optimizers.AdamW(1e-3))
    trainer.fit(data, epochs=EPOCHS, batch_size=BATCH, shuffle=False, progress=False)
    return trainer.predict(test[0])["logits"]


def by_tensors(net, data, test, trace):
    optimizer = og.TensorOptimizer(og.optimizers.AdamW(1e-3), net.parameters())
    gradients = og.GradManager().attach(net.parameters())

    def step(x, y):
        with gradients:
            loss = nn.cross_entropy(net(x), y)
            gradients.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    function = og.trace(step) if trace else step
    for _ in range(EPOCHS):
        for start in range(0, len(data[1]), BATCH):
            function(og.Tensor(data[0][start : start + BATCH]), data[1][start : start + BATCH])
    return net(og.Tensor(test[0])).numpy()


@pytest.mark.parametrize("trace", [False, True], ids=["at once", "traced"])
def test_an_mlp_gets_as_good_as_by_the_trainer(trace, digits):
    data, test = digits
    nn.seed(3)
    net = nn.Sequential(nn.Linear(784, 64), nn.relu, nn.Linear(64, 10))
    theirs = (by_trainer(net, data, test).argmax(1) == test[1]).mean()
    ours = (by_tensors(net, data, test, trace).argmax(1) == test[1]).mean()
    assert theirs > 0.85
    assert abs(ours - theirs) <= 0.005


def hessian_vector_product(net, x, y, directions):
    """d(sum(gradient * direction)) / d(parameters), on two tapes."""
    parameters = net.parameters()
    first: dict[int, og.Tensor] = {}
    second: dict[int, og.Tensor] = {}
    with og.Grad() as outer, og.Grad() as inner:
        for index, parameter in enumerate(parameters):
            outer.wrt(parameter, callback=partial(second.setdefault, index))
            inner.wrt(parameter, callback=partial(first.setdefault, index))
        inner(nn.cross_entropy(net(x), y))
        parts = [(first[index] * direction).sum() for index, direction in enumerate(directions)]
        outer(parts)
    return [second[index] for index in range(len(parameters))]


@pytest.mark.parametrize("trace", [False, True], ids=["at once", "traced"])
def test_hessian_vector_products_of_the_mlp_are_those_of_the_symbolic_mode(trace):
    nn.seed(4)
    net = nn.Sequential(nn.Linear(12, 16), nn.relu, nn.Linear(16, 5))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 12)).astype(np.float32), rng.integers(0, 5, 8)
    state = net.state_dict()
    directions = [rng.standard_normal(array.shape).astype(np.float32) for array in state.values()]

    graph = og.Graph()
    vars = [graph.param(og.SharedTensor(array, name=name)) for name, array in state.items()]
    hidden = og.op.Relu(og.op.Gemm(graph.constant(x), vars[0], vars[1], transB=1))
    loss = nn.cross_entropy(og.op.Gemm(hidden, vars[2], vars[3], transB=1), graph.constant(y))
    grads = og.gradients(loss, vars)
    products = [(grad * step).sum() for grad, step in zip(grads, directions, strict=True) if grad is not None]
    seconds = og.gradients(products, vars)
    want = graph.compile([], [og.copy_output(second) for second in seconds if second is not None])()

    function = og.trace(hessian_vector_product) if trace else hessian_vector_product
    found = function(net, og.Tensor(x), y, [og.Tensor(direction) for direction in directions])
    for ours, theirs in zip(found, want, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-5)
