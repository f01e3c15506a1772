"""Layers: modules with named parameters, and functions on tensors, to write models and training loops with.

`class Net(og.nn.Module)` sets parameters and other modules as attributes and defines `__call__`; `net.parameters()`,
`net.train()`, `net.state_dict()`, `net.save(path)` are then there. Everything is written with the functions of og.op,
so that a module called with a Var adds its operators to the graph of it.
"""

from onnxgrad.models.nn.attention import MultiHeadAttention, scaled_dot_product_attention
from onnxgrad.models.nn.clip import clip_gradients
from onnxgrad.models.nn.conv import Conv
from onnxgrad.models.nn.functional import (
    apply_loss,
    avg_pool,
    cross_entropy,
    dropout,
    elu,
    flatten,
    gelu,
    leaky_relu,
    log_softmax,
    max_pool,
    mish,
    mse,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from onnxgrad.models.nn.initialize import seed
from onnxgrad.models.nn.linear import Embedding, Linear
from onnxgrad.models.nn.module import Buffer, Module, Parameter
from onnxgrad.models.nn.norm import BatchNorm, GroupNorm, LayerNorm, RMSNorm
from onnxgrad.models.nn.recurrent import GRU, LSTM
from onnxgrad.models.nn.sequential import Dropout, Sequential

__all__ = [
    "GRU",
    "LSTM",
    "BatchNorm",
    "Buffer",
    "Conv",
    "Dropout",
    "Embedding",
    "GroupNorm",
    "LayerNorm",
    "Linear",
    "Module",
    "MultiHeadAttention",
    "Parameter",
    "RMSNorm",
    "Sequential",
    "apply_loss",
    "avg_pool",
    "clip_gradients",
    "cross_entropy",
    "dropout",
    "elu",
    "flatten",
    "gelu",
    "leaky_relu",
    "log_softmax",
    "max_pool",
    "mish",
    "mse",
    "relu",
    "scaled_dot_product_attention",
    "seed",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]
