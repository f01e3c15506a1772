"""A training loop of tensors: a net that reads handwritten digits, trained step by step, then as a traced function.

    python examples/imperative_mnist.py

The loop is written as one does in PyTorch. `og.trace` makes one graph of the whole step: forward, backward, update.
"""

from __future__ import annotations

import time

import numpy as np

import onnxgrad as og
from onnxgrad import nn
from onnxgrad.models import datasets


class Net(nn.Module):
    """784-128-10, with dropout."""

    def __init__(self) -> None:
        self.fc1, self.fc2 = nn.Linear(784, 128), nn.Linear(128, 10)

    def __call__(self, x: og.Tensor) -> og.Tensor:
        """Logits of images [N, 784]."""
        hidden = nn.dropout(nn.relu(self.fc1(x)), 0.1, self.training)
        return self.fc2(hidden)


def main() -> None:
    """Train one epoch in each way, and export what came out."""
    images, labels = datasets.mnist_sample()
    x = (images.reshape(-1, 784) / np.float32(255)).astype(np.float32)
    train, test = datasets.stratified_split(labels, held_out=1000)

    nn.seed(0)
    net = Net()
    optimizer = og.TensorOptimizer(og.optimizers.AdamW(1e-3), net.parameters())
    gradients = og.GradManager().attach(net.parameters())

    def step(x: og.Tensor, y: og.Tensor) -> og.Tensor:
        with gradients:
            loss = nn.cross_entropy(net(x), y)
            gradients.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    predict = og.trace(net)
    for name, function in (("at once", step), ("traced", og.trace(step))):
        net.train()
        start = time.perf_counter()
        losses = [
            function(og.Tensor(x[picked]), og.Tensor(labels[picked])).item()
            for picked in np.array_split(np.random.default_rng(0).permutation(train), len(train) // 50)
        ]
        seconds = time.perf_counter() - start
        net.eval()
        right = predict(og.Tensor(x[test])).numpy().argmax(1) == labels[test]
        print(f"{name}: {len(losses)} steps in {seconds:.2f} s, loss {losses[-1]:.3f}, accuracy {right.mean():.1%}")
    print(predict.explain())


if __name__ == "__main__":
    main()
