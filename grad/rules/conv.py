"""Convolutions. The formulas are picked for speed on the CPU provider: benchmarks/conv_gradients.py."""

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from onnxgrad.engine.ir.builder import rank
from onnxgrad.grad.convolution import bias_gradient, data_gradient, weight_gradient
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
