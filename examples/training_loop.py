"""A training loop written by hand: a net of variables, parameters that live outside of the graph, and their updates.

python examples/training_loop.py
"""

import numpy as np

import onnxgrad as og
from onnxgrad.models.datasets import mnist_sample

EPOCHS, BATCH, RATE, MOMENTUM = 5, 64, 0.1, 0.9


def parameter(name: str, *shape: int, seed: int) -> og.SharedTensor:
    """Random weights of a layer, small enough for its number of inputs; zeros for a bias."""
    noise = np.random.default_rng(seed).standard_normal(shape) if len(shape) > 1 else np.zeros(shape)
    return og.SharedTensor((noise * np.sqrt(2 / shape[0])).astype(np.float32), name=name)


def main() -> float:
    """Train on 4000 digits, and return the accuracy on 1000 others."""
    images, labels = mnist_sample()
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order].reshape(-1, 784), labels[order]

    graph = og.Graph("digits")
    x = graph.input("image", "uint8", ("batch", 784))
    label = graph.input("label", "int64", ("batch",))
    parameters = [
        parameter("w1", 784, 128, seed=1),
        parameter("b1", 128, seed=2),
        parameter("w2", 128, 10, seed=3),
        parameter("b2", 10, seed=4),
    ]
    w1, b1, w2, b2 = variables = [graph.param(p) for p in parameters]
    hidden = og.op.Relu(x.astype("float32") / 255.0 @ w1 + b1)
    logits = hidden @ w2 + b2
    loss = og.op.SoftmaxCrossEntropyLoss(logits, label)

    # Gradient descent with momentum: v = MOMENTUM * v + grad, w = w - rate * v. The rate can be changed at any time.
    rate = og.SharedScalar(-RATE)
    updates = []
    for p, variable, grad in zip(parameters, variables, og.gradients(loss, variables), strict=True):
        velocity = og.SharedTensor(np.zeros(p.shape or (), np.float32), name=f"{p.name}.velocity")
        v = og.add_update(graph.param(velocity), grad, alpha=MOMENTUM)
        updates.append(og.add_update(variable, v, beta=rate))
    step = graph.compile([x, label], [og.copy_output(loss), *updates])
    predict = graph.compile([x], og.copy_output(og.op.ArgMax(logits, axis=1, keepdims=0)))

    for epoch in range(1, EPOCHS + 1):
        losses = [step(images[k : k + BATCH], labels[k : k + BATCH])[0] for k in range(0, 4000, BATCH)]
        accuracy = float(np.mean(predict(images[4000:]) == labels[4000:]))
        print(f"epoch {epoch}: loss {np.mean(losses):.3f}, accuracy {accuracy:.1%}")
        rate.set(rate.get() * 0.7)
    print(f"{len(losses)} steps an epoch, {step.prev_exec_time * 1e6:.0f} us each on the device")
    return accuracy


if __name__ == "__main__":
    main()
