"""Every operator of the ONNX specification as a function. Written by engine/graph/stubs.py."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.graph.operand import Literal, Operand
from onnxgrad.engine.graph.shared_scalar import SharedScalar
from onnxgrad.engine.graph.shared_tensor import SharedTensor

_Kind = TypeVar("_Kind", bound=Operand)
_Given = SharedTensor | SharedScalar | Literal
_Body = Callable[..., object] | ir.Graph

@overload
def custom(  # type: ignore[overload-overlap]  # outputs is no attribute
    op_type: str, *inputs: _Kind | _Given | None, domain: str, outputs: int, **attributes: object
) -> tuple[_Kind, ...]:
    """An operator outside the specification: the types of its outputs may stay unknown."""
    ...
@overload
def custom(op_type: str, *inputs: _Kind | _Given | None, domain: str, **attributes: object) -> _Kind: ...

def Abs(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Absolute takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where absolute
    value, y = abs(x), is applied to the tensor elementwise."""
    ...
def Acos(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the arccosine (inverse of cosine) of the given input tensor, element-wise."""
    ...
def Acosh(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the hyperbolic arccosine of the given input tensor element-wise."""
    ...
def Add(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Performs element-wise binary addition (with Numpy-style broadcasting support)."""
    ...
def AffineGrid(
    theta: _Kind | _Given,
    size: _Kind | _Given,
    *,
    align_corners: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Generates a 2D or 3D flow field (sampling grid), given a batch of affine matrices theta
    (https://pytorch.org/docs/stable/generated/torch.nn.functional.affine_grid.html)."""
    ...
def And(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulted from performing the `and` logical operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def ArgMax(
    data: _Kind | _Given,
    *,
    select_last_index: int = 0,
    keepdims: int = 1,
    axis: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Computes the indices of the max elements of the input tensor's element along the provided axis."""
    ...
def ArgMin(
    data: _Kind | _Given,
    *,
    select_last_index: int = 0,
    keepdims: int = 1,
    axis: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Computes the indices of the min elements of the input tensor's element along the provided axis."""
    ...
def ArrayFeatureExtractor(X: _Kind | _Given, Y: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Select elements of the input tensor based on the indices passed.<br> The indices are applied to the
    last axes of the tensor."""
    ...
def Asin(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the arcsine (inverse of sine) of the given input tensor, element-wise."""
    ...
def Asinh(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the hyperbolic arcsine of the given input tensor element-wise."""
    ...
def Atan(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the arctangent (inverse of tangent) of the given input tensor, element-wise."""
    ...
def Atanh(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the hyperbolic arctangent of the given input tensor element-wise."""
    ...
@overload
def Attention(
    Q: _Kind | _Given,
    K: _Kind | _Given,
    V: _Kind | _Given,
    attn_mask: _Kind | _Given | None = None,
    past_key: _Kind | _Given | None = None,
    past_value: _Kind | _Given | None = None,
    nonpad_kv_seqlen: _Kind | _Given | None = None,
    *,
    right_window_size: int = -1,
    left_window_size: int = -1,
    qk_matmul_output_mode: int = 0,
    softcap: float = 0,
    softmax_precision: int | None = None,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    is_causal: int = 0,
    outputs: None = None,
) -> _Kind:
    """Computes scaled dot product attention on query, key and value tensors, using an optional attention mask
    if passed."""
    ...
@overload
def Attention(
    Q: _Kind | _Given,
    K: _Kind | _Given,
    V: _Kind | _Given,
    attn_mask: _Kind | _Given | None = None,
    past_key: _Kind | _Given | None = None,
    past_value: _Kind | _Given | None = None,
    nonpad_kv_seqlen: _Kind | _Given | None = None,
    *,
    right_window_size: int = -1,
    left_window_size: int = -1,
    qk_matmul_output_mode: int = 0,
    softcap: float = 0,
    softmax_precision: int | None = None,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    is_causal: int = 0,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def AveragePool(
    X: _Kind | _Given,
    *,
    kernel_shape: Sequence[int],
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
    pads: Sequence[int] | None = None,
    auto_pad: str = 'NOTSET',
    strides: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """AveragePool consumes an input tensor X and applies average pooling across the tensor according to
    kernel sizes, stride sizes, and pad lengths."""
    ...
@overload
def BatchNormalization(
    X: _Kind | _Given,
    scale: _Kind | _Given,
    B: _Kind | _Given,
    input_mean: _Kind | _Given,
    input_var: _Kind | _Given,
    *,
    training_mode: int = 0,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    outputs: None = None,
) -> _Kind:
    """Carries out batch normalization as described in the paper https://arxiv.org/abs/1502.03167."""
    ...
@overload
def BatchNormalization(
    X: _Kind | _Given,
    scale: _Kind | _Given,
    B: _Kind | _Given,
    input_mean: _Kind | _Given,
    input_var: _Kind | _Given,
    *,
    training_mode: int = 0,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def Bernoulli(
    input: _Kind | _Given,
    *,
    dtype: int | None = None,
    seed: float | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Draws binary random numbers (0 or 1) from a Bernoulli distribution."""
    ...
def Binarizer(X: _Kind | _Given, *, threshold: float = 0, outputs: int | None = None) -> _Kind:
    """Maps the values of the input tensor to either 0 or 1, element-wise, based on the outcome of a
    comparison against a threshold value."""
    ...
def BitCast(input: _Kind | _Given, *, to: int, outputs: int | None = None) -> _Kind:
    """Reinterprets the binary representation of a tensor as a different data type, specified by the 'to'
    attribute."""
    ...
def BitShift(X: _Kind | _Given, Y: _Kind | _Given, *, direction: str, outputs: int | None = None) -> _Kind:
    """Bitwise shift operator performs element-wise operation."""
    ...
def BitwiseAnd(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulting from performing the bitwise `and` operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def BitwiseNot(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the bitwise not of the input tensor element-wise."""
    ...
def BitwiseOr(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulting from performing the bitwise `or` operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def BitwiseXor(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulting from performing the bitwise `xor` operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def BlackmanWindow(
    size: _Kind | _Given,
    *,
    periodic: int = 1,
    output_datatype: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Generates a Blackman window as described in the paper https://ieeexplore.ieee.org/document/1455106."""
    ...
def Cast(
    input: _Kind | _Given,
    *,
    to: int,
    round_mode: str = 'up',
    saturate: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """The operator casts the elements of a given input tensor to a data type specified by the 'to' argument
    and returns an output tensor of the same size in the converted type."""
    ...
def CastLike(
    input: _Kind | _Given,
    target_type: _Kind | _Given,
    *,
    round_mode: str = 'up',
    saturate: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """The operator casts the elements of a given input tensor (the first input) to the same data type as the
    elements of the second input tensor."""
    ...
def CastMap(
    X: _Kind | _Given,
    *,
    max_map: int = 1,
    map_form: str = 'DENSE',
    cast_to: str = 'TO_FLOAT',
    outputs: int | None = None,
) -> _Kind:
    """Converts a map to a tensor.<br>The map key must be an int64 and the values will be ordered in ascending
    order based on this key.<br>The operator supports dense packing or sparse packing."""
    ...
def CategoryMapper(
    X: _Kind | _Given,
    *,
    default_int64: int = -1,
    default_string: str = '_Unused',
    cats_int64s: Sequence[int] | None = None,
    cats_strings: Sequence[str] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Converts strings to integers and vice versa.<br> Two sequences of equal length are used to map between
    integers and strings, with strings and integers at the same index detailing the mapping.<br> Each operator
    converts either integers to strings or strings to integers, depending on which default ..."""
    ...
def Ceil(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Ceil takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ceil is, y =
    ceil(x), is applied to the tensor elementwise."""
    ...
def Celu(X: _Kind | _Given, *, alpha: float = 1, outputs: int | None = None) -> _Kind:
    """Continuously Differentiable Exponential Linear Units"""
    ...
def CenterCropPad(
    input_data: _Kind | _Given,
    shape: _Kind | _Given,
    *,
    axes: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Center crop or pad an input to given dimensions."""
    ...
def Clip(
    input: _Kind | _Given,
    min: _Kind | _Given | None = None,
    max: _Kind | _Given | None = None,
    *,
    outputs: int | None = None,
) -> _Kind:
    """Clip operator limits the given input within an interval."""
    ...
def Col2Im(
    input: _Kind | _Given,
    image_shape: _Kind | _Given,
    block_shape: _Kind | _Given,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """The operator rearranges column blocks back into a multidimensional image Col2Im behaves similarly to
    PyTorch's fold https://pytorch.org/docs/stable/generated/torch.nn.Fold.html, but it only supports
    *batched* multi-dimensional image tensors."""
    ...
def Compress(
    input: _Kind | _Given,
    condition: _Kind | _Given,
    *,
    axis: int | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Selects slices from an input tensor along a given axis where condition evaluates to True for each axis
    index."""
    ...
def Concat(*inputs: _Kind | _Given, axis: int, outputs: int | None = None) -> _Kind:
    """Concatenate a list of tensors into a single tensor."""
    ...
def ConcatFromSequence(
    input_sequence: _Kind | _Given,
    *,
    axis: int,
    new_axis: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Concatenate a sequence of tensors into a single tensor."""
    ...
def Constant(
    *,
    value_strings: Sequence[str] | None = None,
    value_string: str | None = None,
    value_floats: Sequence[float] | None = None,
    value_float: float | None = None,
    value_ints: Sequence[int] | None = None,
    value_int: int | None = None,
    sparse_value: object | None = None,
    value: np.ndarray | ir.TensorProtocol | None = None,
    outputs: int | None = None,
) -> Operand:
    """This operator produces a constant tensor."""
    ...
def ConstantOfShape(
    input: _Kind | _Given,
    *,
    value: np.ndarray | ir.TensorProtocol | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Generate a tensor with given value and shape."""
    ...
def Conv(
    X: _Kind | _Given,
    W: _Kind | _Given,
    B: _Kind | _Given | None = None,
    *,
    group: int = 1,
    pads: Sequence[int] | None = None,
    auto_pad: str = 'NOTSET',
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """The convolution operator consumes an input tensor and a filter, and computes the output."""
    ...
def ConvInteger(
    x: _Kind | _Given,
    w: _Kind | _Given,
    x_zero_point: _Kind | _Given | None = None,
    w_zero_point: _Kind | _Given | None = None,
    *,
    group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int] | None = None,
    auto_pad: str = 'NOTSET',
    outputs: int | None = None,
) -> _Kind:
    """The integer convolution operator consumes an input tensor, its zero-point, a filter, and its zero-
    point, and computes the output."""
    ...
def ConvTranspose(
    X: _Kind | _Given,
    W: _Kind | _Given,
    B: _Kind | _Given | None = None,
    *,
    group: int = 1,
    auto_pad: str = 'NOTSET',
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    kernel_shape: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """The convolution transpose operator consumes an input tensor and a filter, and computes the output."""
    ...
def Cos(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the cosine of the given input tensor, element-wise."""
    ...
def Cosh(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the hyperbolic cosine of the given input tensor element-wise."""
    ...
def CumProd(
    x: _Kind | _Given,
    axis: _Kind | _Given,
    *,
    reverse: int = 0,
    exclusive: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Performs cumulative product of the input elements along the given axis."""
    ...
def CumSum(
    x: _Kind | _Given,
    axis: _Kind | _Given,
    *,
    reverse: int = 0,
    exclusive: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Performs cumulative sum of the input elements along the given axis."""
    ...
def DFT(
    input: _Kind | _Given,
    dft_length: _Kind | _Given | None = None,
    axis: _Kind | _Given | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Computes the discrete Fourier Transform (DFT) of the input."""
    ...
def DeformConv(
    X: _Kind | _Given,
    W: _Kind | _Given,
    offset: _Kind | _Given,
    B: _Kind | _Given | None = None,
    mask: _Kind | _Given | None = None,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    offset_group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    group: int = 1,
    dilations: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Performs deformable convolution as described in https://arxiv.org/abs/1703.06211 and
    https://arxiv.org/abs/1811.11168."""
    ...
def DepthToSpace(
    input: _Kind | _Given,
    *,
    blocksize: int,
    mode: str = 'DCR',
    outputs: int | None = None,
) -> _Kind:
    """DepthToSpace rearranges (permutes) data from depth into blocks of spatial data."""
    ...
def DequantizeLinear(
    x: _Kind | _Given,
    x_scale: _Kind | _Given,
    x_zero_point: _Kind | _Given | None = None,
    *,
    output_dtype: int = 0,
    block_size: int = 0,
    axis: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """The linear dequantization operator."""
    ...
def Det(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Det calculates determinant of a square matrix or batches of square matrices."""
    ...
def DictVectorizer(
    X: _Kind | _Given,
    *,
    int64_vocabulary: Sequence[int] | None = None,
    string_vocabulary: Sequence[str] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Uses an index mapping to convert a dictionary to an array.<br> Given a dictionary, each key is looked
    up in the vocabulary attribute corresponding to the key type."""
    ...
def Div(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Performs element-wise binary division (with Numpy-style broadcasting support)."""
    ...
@overload
def Dropout(
    data: _Kind | _Given,
    ratio: _Kind | _Given | None = None,
    training_mode: _Kind | _Given | None = None,
    *,
    seed: int | None = None,
    outputs: None = None,
) -> _Kind:
    """Dropout takes an input floating-point tensor, an optional input ratio (floating-point scalar) and an
    optional input training_mode (boolean scalar)."""
    ...
@overload
def Dropout(
    data: _Kind | _Given,
    ratio: _Kind | _Given | None = None,
    training_mode: _Kind | _Given | None = None,
    *,
    seed: int | None = None,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
@overload
def DynamicQuantizeLinear(x: _Kind | _Given, *, outputs: None = None) -> tuple[_Kind, _Kind, _Kind]:
    """A Function to fuse calculation for Scale, Zero Point and FP32->8Bit conversion of FP32 Input data."""
    ...
@overload
def DynamicQuantizeLinear(x: _Kind | _Given, *, outputs: int) -> tuple[_Kind, ...]:
    ...
def Einsum(*Inputs: _Kind | _Given, equation: str, outputs: int | None = None) -> _Kind:
    """An einsum of the form `term1, term2 -> output-term` produces an output tensor using the following
    equation ``` output[output-term] = reduce-sum( input1[term1] * input2[term2] ) ``` where the reduce-sum
    performs a summation over all the indices occurring in the input terms (term1, term2) that do ..."""
    ...
def Elu(X: _Kind | _Given, *, alpha: float = 1, outputs: int | None = None) -> _Kind:
    """Elu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the function `f(x)
    = alpha * (exp(x) - 1.) for x < 0`, `f(x) = x for x >= 0`., is applied to the tensor elementwise."""
    ...
def Equal(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulted from performing the `equal` logical operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def Erf(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Computes the error function of the given input tensor element-wise."""
    ...
def Exp(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the exponential of the given input tensor, element-wise."""
    ...
def Expand(input: _Kind | _Given, shape: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Broadcast the input tensor following the given shape and the broadcast rule."""
    ...
def EyeLike(
    input: _Kind | _Given,
    *,
    dtype: int | None = None,
    k: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Generate a 2D tensor (matrix) with ones on the diagonal and zeros everywhere else."""
    ...
def FeatureVectorizer(
    *X: _Kind | _Given,
    inputdimensions: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Concatenates input tensors into one continuous output.<br> All input shapes are 2-D and are
    concatenated along the second dimension."""
    ...
def Flatten(input: _Kind | _Given, *, axis: int = 1, outputs: int | None = None) -> _Kind:
    """Flattens the input tensor into a 2D matrix."""
    ...
def Floor(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Floor takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the floor is, y =
    floor(x), is applied to the tensor elementwise."""
    ...
@overload
def GRU(
    X: _Kind | _Given,
    W: _Kind | _Given,
    R: _Kind | _Given,
    B: _Kind | _Given | None = None,
    sequence_lens: _Kind | _Given | None = None,
    initial_h: _Kind | _Given | None = None,
    *,
    clip: float | None = None,
    activation_beta: Sequence[float] | None = None,
    activation_alpha: Sequence[float] | None = None,
    hidden_size: int | None = None,
    layout: int = 0,
    direction: str = 'forward',
    linear_before_reset: int = 0,
    activations: Sequence[str] | None = None,
    outputs: None = None,
) -> tuple[_Kind, ...]:
    """Computes an one-layer GRU."""
    ...
@overload
def GRU(
    X: _Kind | _Given,
    W: _Kind | _Given,
    R: _Kind | _Given,
    B: _Kind | _Given | None = None,
    sequence_lens: _Kind | _Given | None = None,
    initial_h: _Kind | _Given | None = None,
    *,
    clip: float | None = None,
    activation_beta: Sequence[float] | None = None,
    activation_alpha: Sequence[float] | None = None,
    hidden_size: int | None = None,
    layout: int = 0,
    direction: str = 'forward',
    linear_before_reset: int = 0,
    activations: Sequence[str] | None = None,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def Gather(
    data: _Kind | _Given,
    indices: _Kind | _Given,
    *,
    axis: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Given `data` tensor of rank r >= 1, and `indices` tensor of rank q, gather entries of the axis
    dimension of `data` (by default outer-most one as axis=0) indexed by `indices`, and concatenates them in
    an output tensor of rank q + (r - 1)."""
    ...
def GatherElements(
    data: _Kind | _Given,
    indices: _Kind | _Given,
    *,
    axis: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """GatherElements takes two inputs `data` and `indices` of the same rank r >= 1 and an optional attribute
    `axis` that identifies an axis of `data` (by default, the outer-most axis, that is axis 0)."""
    ...
def GatherND(
    data: _Kind | _Given,
    indices: _Kind | _Given,
    *,
    batch_dims: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Given `data` tensor of rank `r` >= 1, `indices` tensor of rank `q` >= 1, and `batch_dims` integer `b`,
    this operator gathers slices of `data` into an output tensor of rank `q + r - indices_shape[-1] - 1 -
    b`."""
    ...
def Gelu(X: _Kind | _Given, *, approximate: str = 'none', outputs: int | None = None) -> _Kind:
    """Gelu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the gaussian error
    linear units function, $y = 0.5 * x * (1 + erf(x/sqrt(2)))$ is applied to the tensor elementwise."""
    ...
def Gemm(
    A: _Kind | _Given,
    B: _Kind | _Given,
    C: _Kind | _Given | None = None,
    *,
    beta: float = 1,
    transB: int = 0,
    alpha: float = 1,
    transA: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """General Matrix multiplication"""
    ...
def GlobalAveragePool(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """GlobalAveragePool consumes an input tensor X and applies average pooling across the values in the same
    channel."""
    ...
def GlobalLpPool(X: _Kind | _Given, *, p: int = 2, outputs: int | None = None) -> _Kind:
    """GlobalLpPool consumes an input tensor X and applies lp pool pooling across the values in the same
    channel."""
    ...
def GlobalMaxPool(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """GlobalMaxPool consumes an input tensor X and applies max pooling across the values in the same
    channel."""
    ...
def Greater(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulted from performing the `greater` logical operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def GreaterOrEqual(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulted from performing the `greater_equal` logical operation elementwise on the
    input tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def GridSample(
    X: _Kind | _Given,
    grid: _Kind | _Given,
    *,
    align_corners: int = 0,
    padding_mode: str = 'zeros',
    mode: str = 'linear',
    outputs: int | None = None,
) -> _Kind:
    """Given an input `X` and a flow-field `grid`, computes the output `Y` using `X` values and pixel
    locations from the `grid`."""
    ...
def GroupNormalization(
    X: _Kind | _Given,
    scale: _Kind | _Given,
    bias: _Kind | _Given,
    *,
    num_groups: int,
    stash_type: int = 1,
    epsilon: float = 1e-05,
    outputs: int | None = None,
) -> _Kind:
    """A GroupNormalization function."""
    ...
def HammingWindow(
    size: _Kind | _Given,
    *,
    periodic: int = 1,
    output_datatype: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Generates a Hamming window as described in the paper https://ieeexplore.ieee.org/document/1455106."""
    ...
def HannWindow(
    size: _Kind | _Given,
    *,
    periodic: int = 1,
    output_datatype: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Generates a Hann window as described in the paper https://ieeexplore.ieee.org/document/1455106."""
    ...
def HardSigmoid(
    X: _Kind | _Given,
    *,
    beta: float = 0.5,
    alpha: float = 0.2,
    outputs: int | None = None,
) -> _Kind:
    """HardSigmoid takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the
    HardSigmoid function, y = max(0, min(1, alpha * x + beta)), is applied to the tensor elementwise."""
    ...
def HardSwish(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """HardSwish takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the HardSwish
    function, y = x * max(0, min(1, alpha * x + beta)) = x * HardSigmoid<alpha, beta>(x), where alpha = 1/6
    and beta = 0.5, is applied to the tensor elementwise."""
    ...
def Hardmax(input: _Kind | _Given, *, axis: int = -1, outputs: int | None = None) -> _Kind:
    """The operator computes the hardmax values for the given input"""
    ...
def Identity(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Identity operator"""
    ...
def If(cond: _Kind | _Given, *, else_branch: _Body, then_branch: _Body, outputs: int | None = None) -> Any:
    """If conditional"""
    ...
def ImageDecoder(
    encoded_stream: _Kind | _Given,
    *,
    pixel_format: str = 'RGB',
    outputs: int | None = None,
) -> _Kind:
    """Loads and decodes and image from a file."""
    ...
def Imputer(
    X: _Kind | _Given,
    *,
    replaced_value_int64: int = 0,
    imputed_value_int64s: Sequence[int] | None = None,
    replaced_value_float: float = 0,
    imputed_value_floats: Sequence[float] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Replaces inputs that equal one value with another, leaving all other elements alone.<br> This operator
    is typically used to replace missing values in situations where they have a canonical representation, such
    as -1, 0, NaN, or some extreme value.<br> One and only one of imputed_value_floats or ..."""
    ...
def InstanceNormalization(
    input: _Kind | _Given,
    scale: _Kind | _Given,
    B: _Kind | _Given,
    *,
    epsilon: float = 1e-05,
    outputs: int | None = None,
) -> _Kind:
    """Carries out instance normalization as described in the paper https://arxiv.org/abs/1607.08022."""
    ...
def IsInf(
    X: _Kind | _Given,
    *,
    detect_negative: int = 1,
    detect_positive: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Map infinity to true and other values to false."""
    ...
def IsNaN(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns which elements of the input are NaN."""
    ...
def LRN(
    X: _Kind | _Given,
    *,
    size: int,
    bias: float = 1,
    beta: float = 0.75,
    alpha: float = 0.0001,
    outputs: int | None = None,
) -> _Kind:
    """Local Response Normalization proposed in the [AlexNet
    paper](https://papers.nips.cc/paper/4824-imagenet-classification-with-deep-convolutional-neural-
    networks.pdf)."""
    ...
@overload
def LSTM(
    X: _Kind | _Given,
    W: _Kind | _Given,
    R: _Kind | _Given,
    B: _Kind | _Given | None = None,
    sequence_lens: _Kind | _Given | None = None,
    initial_h: _Kind | _Given | None = None,
    initial_c: _Kind | _Given | None = None,
    P: _Kind | _Given | None = None,
    *,
    clip: float | None = None,
    activation_beta: Sequence[float] | None = None,
    activation_alpha: Sequence[float] | None = None,
    hidden_size: int | None = None,
    direction: str = 'forward',
    input_forget: int = 0,
    layout: int = 0,
    activations: Sequence[str] | None = None,
    outputs: None = None,
) -> tuple[_Kind, ...]:
    """Computes an one-layer LSTM."""
    ...
@overload
def LSTM(
    X: _Kind | _Given,
    W: _Kind | _Given,
    R: _Kind | _Given,
    B: _Kind | _Given | None = None,
    sequence_lens: _Kind | _Given | None = None,
    initial_h: _Kind | _Given | None = None,
    initial_c: _Kind | _Given | None = None,
    P: _Kind | _Given | None = None,
    *,
    clip: float | None = None,
    activation_beta: Sequence[float] | None = None,
    activation_alpha: Sequence[float] | None = None,
    hidden_size: int | None = None,
    direction: str = 'forward',
    input_forget: int = 0,
    layout: int = 0,
    activations: Sequence[str] | None = None,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def LabelEncoder(
    X: _Kind | _Given,
    *,
    default_tensor: np.ndarray | ir.TensorProtocol | None = None,
    default_int64: int = -1,
    default_float: float = -0,
    default_string: str = '_Unused',
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
    values_tensor: np.ndarray | ir.TensorProtocol | None = None,
    keys_floats: Sequence[float] | None = None,
    keys_strings: Sequence[str] | None = None,
    values_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_tensor: np.ndarray | ir.TensorProtocol | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Maps each element in the input tensor to another value.<br> The mapping is determined by the two
    parallel attributes, 'keys_*' and 'values_*' attribute."""
    ...
@overload
def LayerNormalization(
    X: _Kind | _Given,
    Scale: _Kind | _Given,
    B: _Kind | _Given | None = None,
    *,
    stash_type: int = 1,
    epsilon: float = 1e-05,
    axis: int = -1,
    outputs: None = None,
) -> _Kind:
    """This is layer normalization defined in ONNX as function."""
    ...
@overload
def LayerNormalization(
    X: _Kind | _Given,
    Scale: _Kind | _Given,
    B: _Kind | _Given | None = None,
    *,
    stash_type: int = 1,
    epsilon: float = 1e-05,
    axis: int = -1,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def LeakyRelu(X: _Kind | _Given, *, alpha: float = 0.01, outputs: int | None = None) -> _Kind:
    """LeakyRelu takes input data (Tensor<T>) and an argument alpha, and produces one output data (Tensor<T>)
    where the function `f(x) = alpha * x for x < 0`, `f(x) = x for x >= 0`, is applied to the data tensor
    elementwise."""
    ...
def Less(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulted from performing the `less` logical operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def LessOrEqual(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulted from performing the `less_equal` logical operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
@overload
def LinearClassifier(
    X: _Kind | _Given,
    *,
    coefficients: Sequence[float],
    post_transform: str = 'NONE',
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    multi_class: int = 0,
    intercepts: Sequence[float] | None = None,
    outputs: None = None,
) -> tuple[_Kind, _Kind]:
    """Linear classifier"""
    ...
@overload
def LinearClassifier(
    X: _Kind | _Given,
    *,
    coefficients: Sequence[float],
    post_transform: str = 'NONE',
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    multi_class: int = 0,
    intercepts: Sequence[float] | None = None,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def LinearRegressor(
    X: _Kind | _Given,
    *,
    targets: int = 1,
    intercepts: Sequence[float] | None = None,
    coefficients: Sequence[float] | None = None,
    post_transform: str = 'NONE',
    outputs: int | None = None,
) -> _Kind:
    """Generalized linear regression evaluation.<br> If targets is set to 1 (default) then univariate
    regression is performed.<br> If targets is set to M then M sets of coefficients must be passed in as a
    sequence and M results will be output for each input n in N.<br> The coefficients array is of ..."""
    ...
def Log(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the natural log of the given input tensor, element-wise."""
    ...
def LogSoftmax(input: _Kind | _Given, *, axis: int = -1, outputs: int | None = None) -> _Kind:
    """The operator computes the log of softmax values for the given input"""
    ...
def Loop(
    M: _Kind | _Given | None = None,
    cond: _Kind | _Given | None = None,
    *v_initial: _Kind | _Given | None,
    body: _Body,
    outputs: int | None = None,
) -> Any:
    """Generic Looping construct."""
    ...
def LpNormalization(
    input: _Kind | _Given,
    *,
    p: int = 2,
    axis: int = -1,
    outputs: int | None = None,
) -> _Kind:
    """Given a matrix, apply Lp-normalization along the provided axis."""
    ...
def LpPool(
    X: _Kind | _Given,
    *,
    kernel_shape: Sequence[int],
    p: int = 2,
    pads: Sequence[int] | None = None,
    auto_pad: str = 'NOTSET',
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """LpPool consumes an input tensor X and applies Lp pooling across the tensor according to kernel sizes,
    stride sizes, and pad lengths."""
    ...
def MatMul(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Matrix product that behaves like
    [numpy.matmul](https://numpy.org/doc/stable/reference/generated/numpy.matmul.html)."""
    ...
def MatMulInteger(
    A: _Kind | _Given,
    B: _Kind | _Given,
    a_zero_point: _Kind | _Given | None = None,
    b_zero_point: _Kind | _Given | None = None,
    *,
    outputs: int | None = None,
) -> _Kind:
    """Matrix product that behaves like
    [numpy.matmul](https://numpy.org/doc/stable/reference/generated/numpy.matmul.html)."""
    ...
def Max(*data_0: _Kind | _Given, outputs: int | None = None) -> _Kind:
    """Element-wise max of each of the input tensors (with Numpy-style broadcasting support)."""
    ...
@overload
def MaxPool(
    X: _Kind | _Given,
    *,
    kernel_shape: Sequence[int],
    storage_order: int = 0,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
    pads: Sequence[int] | None = None,
    auto_pad: str = 'NOTSET',
    strides: Sequence[int] | None = None,
    outputs: None = None,
) -> _Kind:
    """MaxPool consumes an input tensor X and applies max pooling across the tensor according to kernel sizes,
    stride sizes, and pad lengths."""
    ...
@overload
def MaxPool(
    X: _Kind | _Given,
    *,
    kernel_shape: Sequence[int],
    storage_order: int = 0,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
    pads: Sequence[int] | None = None,
    auto_pad: str = 'NOTSET',
    strides: Sequence[int] | None = None,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def MaxRoiPool(
    X: _Kind | _Given,
    rois: _Kind | _Given,
    *,
    pooled_shape: Sequence[int],
    spatial_scale: float = 1,
    outputs: int | None = None,
) -> _Kind:
    """ROI max pool consumes an input tensor X and region of interests (RoIs) to apply max pooling across each
    RoI, to produce output 4-D tensor of shape (num_rois, channels, pooled_shape[0], pooled_shape[1])."""
    ...
def MaxUnpool(
    X: _Kind | _Given,
    I: _Kind | _Given,
    output_shape: _Kind | _Given | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """MaxUnpool essentially computes the partial inverse of the MaxPool op."""
    ...
def Mean(*data_0: _Kind | _Given, outputs: int | None = None) -> _Kind:
    """Element-wise mean of each of the input tensors (with Numpy-style broadcasting support)."""
    ...
def MeanVarianceNormalization(
    X: _Kind | _Given,
    *,
    axes: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """A MeanVarianceNormalization Function"""
    ...
def MelWeightMatrix(
    num_mel_bins: _Kind | _Given,
    dft_length: _Kind | _Given,
    sample_rate: _Kind | _Given,
    lower_edge_hertz: _Kind | _Given,
    upper_edge_hertz: _Kind | _Given,
    *,
    output_datatype: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Generate a MelWeightMatrix that can be used to re-weight a Tensor containing a linearly sampled
    frequency spectra (from DFT or STFT) into num_mel_bins frequency information based on the
    [lower_edge_hertz, upper_edge_hertz] range on the mel scale."""
    ...
def Min(*data_0: _Kind | _Given, outputs: int | None = None) -> _Kind:
    """Element-wise min of each of the input tensors (with Numpy-style broadcasting support)."""
    ...
def Mish(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Mish"""
    ...
def Mod(A: _Kind | _Given, B: _Kind | _Given, *, fmod: int = 0, outputs: int | None = None) -> _Kind:
    """Performs an element-wise binary modulo operation."""
    ...
def Mul(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Performs element-wise binary multiplication (with Numpy-style broadcasting support)."""
    ...
def Multinomial(
    input: _Kind | _Given,
    *,
    dtype: int = 6,
    seed: float | None = None,
    sample_size: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Generate a tensor of samples from a multinomial distribution according to the probabilities of each of
    the possible outcomes."""
    ...
def Neg(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Neg takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where each element
    flipped sign, y = -x, is applied to the tensor elementwise."""
    ...
def NegativeLogLikelihoodLoss(
    input: _Kind | _Given,
    target: _Kind | _Given,
    weight: _Kind | _Given | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = 'mean',
    outputs: int | None = None,
) -> _Kind:
    """A NegativeLogLikelihoodLoss operator computes (weighted) negative log likelihood loss."""
    ...
def NonMaxSuppression(
    boxes: _Kind | _Given,
    scores: _Kind | _Given,
    max_output_boxes_per_class: _Kind | _Given | None = None,
    iou_threshold: _Kind | _Given | None = None,
    score_threshold: _Kind | _Given | None = None,
    *,
    center_point_box: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Filter out boxes that have high intersection-over-union (IOU) overlap with previously selected
    boxes."""
    ...
def NonZero(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the indices of the elements that are non-zero (in row-major order - by dimension)."""
    ...
def Normalizer(X: _Kind | _Given, *, norm: str = 'MAX', outputs: int | None = None) -> _Kind:
    """Normalize the input."""
    ...
def Not(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the negation of the input tensor element-wise."""
    ...
def OneHot(
    indices: _Kind | _Given,
    depth: _Kind | _Given,
    values: _Kind | _Given,
    *,
    axis: int = -1,
    outputs: int | None = None,
) -> _Kind:
    """Produces a one-hot tensor based on inputs."""
    ...
def OneHotEncoder(
    X: _Kind | _Given,
    *,
    zeros: int = 1,
    cats_strings: Sequence[str] | None = None,
    cats_int64s: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Replace each input element with an array of ones and zeros, where a single one is placed at the index
    of the category that was passed in."""
    ...
def Optional(
    input: _Kind | _Given | None = None,
    *,
    type: object | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Constructs an optional-type value containing either an empty optional of a certain type specified by
    the attribute, or a non-empty value containing the input element."""
    ...
def OptionalGetElement(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """If the input is a tensor or sequence type, it returns the input."""
    ...
def OptionalHasElement(input: _Kind | _Given | None = None, *, outputs: int | None = None) -> _Kind:
    """Returns true if (1) the input is an optional-type and contains an element, or, (2) the input is a
    tensor or sequence type."""
    ...
def Or(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulted from performing the `or` logical operation elementwise on the input tensors
    `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def PRelu(X: _Kind | _Given, slope: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """PRelu takes input data (Tensor<T>) and slope tensor as input, and produces one output data (Tensor<T>)
    where the function `f(x) = slope * x for x < 0`, `f(x) = x for x >= 0`., is applied to the data tensor
    elementwise."""
    ...
def Pad(
    data: _Kind | _Given,
    pads: _Kind | _Given,
    constant_value: _Kind | _Given | None = None,
    axes: _Kind | _Given | None = None,
    *,
    mode: str = 'constant',
    outputs: int | None = None,
) -> _Kind:
    """Given a tensor containing the data to be padded (`data`), a tensor containing the number of start and
    end pad values for axis (`pads`), (optionally) a `mode`, and (optionally) `constant_value`, a padded
    tensor (`output`) is generated."""
    ...
def Pow(X: _Kind | _Given, Y: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Pow takes input data (Tensor<T>) and exponent Tensor, and produces one output data (Tensor<T>) where
    the function `f(x) = x^exponent`, is applied to the data tensor elementwise."""
    ...
def QLinearConv(
    x: _Kind | _Given,
    x_scale: _Kind | _Given,
    x_zero_point: _Kind | _Given,
    w: _Kind | _Given,
    w_scale: _Kind | _Given,
    w_zero_point: _Kind | _Given,
    y_scale: _Kind | _Given,
    y_zero_point: _Kind | _Given,
    B: _Kind | _Given | None = None,
    *,
    group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int] | None = None,
    auto_pad: str = 'NOTSET',
    outputs: int | None = None,
) -> _Kind:
    """The convolution operator consumes a quantized input tensor, its scale and zero point, a quantized
    filter, its scale and zero point, and output's scale and zero point, and computes the quantized output."""
    ...
def QLinearMatMul(
    a: _Kind | _Given,
    a_scale: _Kind | _Given,
    a_zero_point: _Kind | _Given,
    b: _Kind | _Given,
    b_scale: _Kind | _Given,
    b_zero_point: _Kind | _Given,
    y_scale: _Kind | _Given,
    y_zero_point: _Kind | _Given,
    *,
    outputs: int | None = None,
) -> _Kind:
    """Matrix product that behaves like
    [numpy.matmul](https://numpy.org/doc/stable/reference/generated/numpy.matmul.html)."""
    ...
def QuantizeLinear(
    x: _Kind | _Given,
    y_scale: _Kind | _Given,
    y_zero_point: _Kind | _Given | None = None,
    *,
    precision: int = 0,
    output_dtype: int = 0,
    block_size: int = 0,
    saturate: int = 1,
    axis: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """The linear quantization operator consumes a high-precision tensor, a scale, and a zero point to compute
    the low-precision/quantized tensor."""
    ...
def RMSNormalization(
    X: _Kind | _Given,
    scale: _Kind | _Given,
    *,
    stash_type: int = 1,
    epsilon: float = 1e-05,
    axis: int = -1,
    outputs: int | None = None,
) -> _Kind:
    """This is RMS normalization defined in ONNX as function as described in the paper
    https://arxiv.org/pdf/1910.07467."""
    ...
@overload
def RNN(
    X: _Kind | _Given,
    W: _Kind | _Given,
    R: _Kind | _Given,
    B: _Kind | _Given | None = None,
    sequence_lens: _Kind | _Given | None = None,
    initial_h: _Kind | _Given | None = None,
    *,
    clip: float | None = None,
    activation_beta: Sequence[float] | None = None,
    activation_alpha: Sequence[float] | None = None,
    hidden_size: int | None = None,
    layout: int = 0,
    direction: str = 'forward',
    activations: Sequence[str] | None = None,
    outputs: None = None,
) -> tuple[_Kind, ...]:
    """Computes an one-layer simple RNN."""
    ...
@overload
def RNN(
    X: _Kind | _Given,
    W: _Kind | _Given,
    R: _Kind | _Given,
    B: _Kind | _Given | None = None,
    sequence_lens: _Kind | _Given | None = None,
    initial_h: _Kind | _Given | None = None,
    *,
    clip: float | None = None,
    activation_beta: Sequence[float] | None = None,
    activation_alpha: Sequence[float] | None = None,
    hidden_size: int | None = None,
    layout: int = 0,
    direction: str = 'forward',
    activations: Sequence[str] | None = None,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def RandomNormal(
    *,
    shape: Sequence[int],
    dtype: int = 1,
    seed: float | None = None,
    scale: float = 1,
    mean: float = 0,
    outputs: int | None = None,
) -> Operand:
    """Generate a tensor with random values drawn from a normal distribution."""
    ...
def RandomNormalLike(
    input: _Kind | _Given,
    *,
    dtype: int | None = None,
    seed: float | None = None,
    scale: float = 1,
    mean: float = 0,
    outputs: int | None = None,
) -> _Kind:
    """Generate a tensor with random values drawn from a normal distribution."""
    ...
def RandomUniform(
    *,
    shape: Sequence[int],
    dtype: int = 1,
    seed: float | None = None,
    high: float = 1,
    low: float = 0,
    outputs: int | None = None,
) -> Operand:
    """Generate a tensor with random values drawn from a uniform distribution."""
    ...
def RandomUniformLike(
    input: _Kind | _Given,
    *,
    dtype: int | None = None,
    seed: float | None = None,
    high: float = 1,
    low: float = 0,
    outputs: int | None = None,
) -> _Kind:
    """Generate a tensor with random values drawn from a uniform distribution."""
    ...
def Range(
    start: _Kind | _Given,
    limit: _Kind | _Given,
    delta: _Kind | _Given,
    *,
    outputs: int | None = None,
) -> _Kind:
    """Generate a tensor containing a sequence of numbers that begin at `start` and extends by increments of
    `delta` up to `limit` (exclusive)."""
    ...
def Reciprocal(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Reciprocal takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the
    reciprocal is, y = 1/x, is applied to the tensor elementwise."""
    ...
def ReduceL1(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the L1 norm of the input tensor's elements along the provided axes."""
    ...
def ReduceL2(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the L2 norm of the input tensor's elements along the provided axes."""
    ...
def ReduceLogSum(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the log sum of the input tensor's elements along the provided axes."""
    ...
def ReduceLogSumExp(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the log sum exponent of the input tensor's elements along the provided axes."""
    ...
def ReduceMax(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the max of the input tensor's elements along the provided axes."""
    ...
def ReduceMean(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the mean of the input tensor's elements along the provided axes."""
    ...
def ReduceMin(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the min of the input tensor's elements along the provided axes."""
    ...
def ReduceProd(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the product of the input tensor's elements along the provided axes."""
    ...
def ReduceSum(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the sum of the input tensor's elements along the provided axes."""
    ...
def ReduceSumSquare(
    data: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    *,
    noop_with_empty_axes: int = 0,
    keepdims: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the sum square of the input tensor's elements along the provided axes."""
    ...
def RegexFullMatch(X: _Kind | _Given, *, pattern: str | None = None, outputs: int | None = None) -> _Kind:
    """RegexFullMatch performs a full regex match on each element of the input tensor."""
    ...
def Relu(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Relu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the rectified
    linear function, y = max(0, x), is applied to the tensor elementwise."""
    ...
def Reshape(
    data: _Kind | _Given,
    shape: _Kind | _Given,
    *,
    allowzero: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Reshape the input tensor similar to numpy.reshape."""
    ...
def Resize(
    X: _Kind | _Given,
    roi: _Kind | _Given | None = None,
    scales: _Kind | _Given | None = None,
    sizes: _Kind | _Given | None = None,
    *,
    keep_aspect_ratio_policy: str = 'stretch',
    axes: Sequence[int] | None = None,
    antialias: int = 0,
    extrapolation_value: float = 0,
    exclude_outside: int = 0,
    nearest_mode: str = 'round_prefer_floor',
    coordinate_transformation_mode: str = 'half_pixel',
    cubic_coeff_a: float = -0.75,
    mode: str = 'nearest',
    outputs: int | None = None,
) -> _Kind:
    """Resize the input tensor."""
    ...
def ReverseSequence(
    input: _Kind | _Given,
    sequence_lens: _Kind | _Given,
    *,
    batch_axis: int = 1,
    time_axis: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Reverse batch of sequences having different lengths specified by `sequence_lens`."""
    ...
def RoiAlign(
    X: _Kind | _Given,
    rois: _Kind | _Given,
    batch_indices: _Kind | _Given,
    *,
    coordinate_transformation_mode: str = 'half_pixel',
    mode: str = 'avg',
    output_height: int = 1,
    sampling_ratio: int = 0,
    output_width: int = 1,
    spatial_scale: float = 1,
    outputs: int | None = None,
) -> _Kind:
    """Region of Interest (RoI) align operation described in the [Mask R-CNN
    paper](https://arxiv.org/abs/1703.06870)."""
    ...
def RotaryEmbedding(
    X: _Kind | _Given,
    cos_cache: _Kind | _Given,
    sin_cache: _Kind | _Given,
    position_ids: _Kind | _Given | None = None,
    *,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
    interleaved: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """RotaryEmbedding is the implementation of rotary positional embeddings (RoPE) based on the paper
    https://arxiv.org/pdf/2104.09864."""
    ...
def Round(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Round takes one input Tensor and rounds the values, element-wise, meaning it finds the nearest integer
    for each value."""
    ...
def STFT(
    signal: _Kind | _Given,
    frame_step: _Kind | _Given,
    window: _Kind | _Given | None = None,
    frame_length: _Kind | _Given | None = None,
    *,
    onesided: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Computes the Short-time Fourier Transform of the signal."""
    ...
@overload
def SVMClassifier(
    X: _Kind | _Given,
    *,
    classlabels_ints: Sequence[int] | None = None,
    rho: Sequence[float] | None = None,
    prob_b: Sequence[float] | None = None,
    coefficients: Sequence[float] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    prob_a: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
    vectors_per_class: Sequence[int] | None = None,
    post_transform: str = 'NONE',
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = 'LINEAR',
    outputs: None = None,
) -> tuple[_Kind, _Kind]:
    """Support Vector Machine classifier"""
    ...
@overload
def SVMClassifier(
    X: _Kind | _Given,
    *,
    classlabels_ints: Sequence[int] | None = None,
    rho: Sequence[float] | None = None,
    prob_b: Sequence[float] | None = None,
    coefficients: Sequence[float] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    prob_a: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
    vectors_per_class: Sequence[int] | None = None,
    post_transform: str = 'NONE',
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = 'LINEAR',
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def SVMRegressor(
    X: _Kind | _Given,
    *,
    rho: Sequence[float] | None = None,
    coefficients: Sequence[float] | None = None,
    n_supports: int = 0,
    one_class: int = 0,
    support_vectors: Sequence[float] | None = None,
    post_transform: str = 'NONE',
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = 'LINEAR',
    outputs: int | None = None,
) -> _Kind:
    """Support Vector Machine regression prediction and one-class SVM anomaly detection."""
    ...
def Scaler(
    X: _Kind | _Given,
    *,
    scale: Sequence[float] | None = None,
    offset: Sequence[float] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Rescale input data, for example to standardize features by removing the mean and scaling to unit
    variance."""
    ...
def Scan(
    *initial_state_and_scan_inputs: _Kind | _Given,
    num_scan_inputs: int,
    body: _Body,
    scan_input_axes: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    outputs: int | None = None,
) -> Any:
    """Scan can be used to iterate over one or more scan_input tensors, constructing zero or more scan_output
    tensors."""
    ...
def ScatterElements(
    data: _Kind | _Given,
    indices: _Kind | _Given,
    updates: _Kind | _Given,
    *,
    reduction: str = 'none',
    axis: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """ScatterElements takes three inputs `data`, `updates`, and `indices` of the same rank r >= 1 and an
    optional attribute axis that identifies an axis of `data` (by default, the outer-most axis, that is axis
    0)."""
    ...
def ScatterND(
    data: _Kind | _Given,
    indices: _Kind | _Given,
    updates: _Kind | _Given,
    *,
    reduction: str = 'none',
    outputs: int | None = None,
) -> _Kind:
    """ScatterND takes three inputs `data` tensor of rank r >= 1, `indices` tensor of rank q >= 1, and
    `updates` tensor of rank q + r - indices.shape[-1] - 1."""
    ...
def Selu(
    X: _Kind | _Given,
    *,
    gamma: float = 1.050701,
    alpha: float = 1.673263,
    outputs: int | None = None,
) -> _Kind:
    """Selu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the scaled
    exponential linear unit function, `y = gamma * (alpha * e^x - alpha) for x <= 0`, `y = gamma * x for x >
    0`, is applied to the tensor elementwise."""
    ...
def SequenceAt(
    input_sequence: _Kind | _Given,
    position: _Kind | _Given,
    *,
    outputs: int | None = None,
) -> _Kind:
    """Outputs a tensor copy from the tensor at 'position' in 'input_sequence'."""
    ...
def SequenceConstruct(*inputs: _Kind | _Given, outputs: int | None = None) -> _Kind:
    """Construct a tensor sequence containing 'inputs' tensors."""
    ...
def SequenceEmpty(*, dtype: int | None = None, outputs: int | None = None) -> Operand:
    """Construct an empty tensor sequence, with given data type."""
    ...
def SequenceErase(
    input_sequence: _Kind | _Given,
    position: _Kind | _Given | None = None,
    *,
    outputs: int | None = None,
) -> _Kind:
    """Outputs a tensor sequence that removes the tensor at 'position' from 'input_sequence'."""
    ...
def SequenceInsert(
    input_sequence: _Kind | _Given,
    tensor: _Kind | _Given,
    position: _Kind | _Given | None = None,
    *,
    outputs: int | None = None,
) -> _Kind:
    """Outputs a tensor sequence that inserts 'tensor' into 'input_sequence' at 'position'."""
    ...
def SequenceLength(input_sequence: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Produces a scalar(tensor of empty shape) containing the number of tensors in 'input_sequence'."""
    ...
def SequenceMap(
    input_sequence: _Kind | _Given,
    *additional_inputs: _Kind | _Given | None,
    body: _Body,
    outputs: int | None = None,
) -> Any:
    """Applies a sub-graph to each sample in the input sequence(s)."""
    ...
def Shape(
    data: _Kind | _Given,
    *,
    end: int | None = None,
    start: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Takes a tensor as input and outputs an 1D int64 tensor containing the shape of the input tensor."""
    ...
def Shrink(
    input: _Kind | _Given,
    *,
    bias: float = 0,
    lambd: float = 0.5,
    outputs: int | None = None,
) -> _Kind:
    """Shrink takes one input data (Tensor<numeric>) and produces one Tensor output, having same datatype and
    shape with input."""
    ...
def Sigmoid(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Sigmoid takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the sigmoid
    function, y = 1 / (1 + exp(-x)), is applied to the tensor elementwise."""
    ...
def Sign(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculate the sign of the given input tensor element-wise."""
    ...
def Sin(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the sine of the given input tensor, element-wise."""
    ...
def Sinh(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the hyperbolic sine of the given input tensor element-wise."""
    ...
def Size(data: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Takes a tensor as input and outputs a int64 scalar that equals to the total number of elements of the
    input tensor."""
    ...
def Slice(
    data: _Kind | _Given,
    starts: _Kind | _Given,
    ends: _Kind | _Given,
    axes: _Kind | _Given | None = None,
    steps: _Kind | _Given | None = None,
    *,
    outputs: int | None = None,
) -> _Kind:
    """Produces a slice of the input tensor along multiple axes."""
    ...
def Softmax(input: _Kind | _Given, *, axis: int = -1, outputs: int | None = None) -> _Kind:
    """The operator computes the normalized exponential values for the given input"""
    ...
@overload
def SoftmaxCrossEntropyLoss(
    scores: _Kind | _Given,
    labels: _Kind | _Given,
    weights: _Kind | _Given | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = 'mean',
    outputs: None = None,
) -> _Kind:
    """Loss function that measures the softmax cross entropy between 'scores' and 'labels'."""
    ...
@overload
def SoftmaxCrossEntropyLoss(
    scores: _Kind | _Given,
    labels: _Kind | _Given,
    weights: _Kind | _Given | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = 'mean',
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def Softplus(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Softplus takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the softplus
    function, y = ln(exp(x) + 1), is applied to the tensor elementwise."""
    ...
def Softsign(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the softsign (x/(1+|x|)) of the given input tensor element-wise."""
    ...
def SpaceToDepth(input: _Kind | _Given, *, blocksize: int, outputs: int | None = None) -> _Kind:
    """SpaceToDepth rearranges blocks of spatial data into depth."""
    ...
def Split(
    input: _Kind | _Given,
    split: _Kind | _Given | None = None,
    *,
    num_outputs: int | None = None,
    axis: int = 0,
    outputs: int | None = None,
) -> tuple[_Kind, ...]:
    """Split a tensor into a list of tensors, along the specified 'axis'."""
    ...
def SplitToSequence(
    input: _Kind | _Given,
    split: _Kind | _Given | None = None,
    *,
    keepdims: int = 1,
    axis: int = 0,
    outputs: int | None = None,
) -> _Kind:
    """Split a tensor into a sequence of tensors, along the specified 'axis'."""
    ...
def Sqrt(X: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Square root takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the square
    root is, y = x^0.5, is applied to the tensor elementwise."""
    ...
def Squeeze(data: _Kind | _Given, axes: _Kind | _Given | None = None, *, outputs: int | None = None) -> _Kind:
    """Remove single-dimensional entries from the shape of a tensor."""
    ...
def StringConcat(X: _Kind | _Given, Y: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """StringConcat concatenates string tensors elementwise (with NumPy-style broadcasting support)"""
    ...
def StringNormalizer(
    X: _Kind | _Given,
    *,
    stopwords: Sequence[str] | None = None,
    locale: str | None = None,
    is_case_sensitive: int = 0,
    case_change_action: str = 'NONE',
    outputs: int | None = None,
) -> _Kind:
    """StringNormalization performs string operations for basic cleaning."""
    ...
@overload
def StringSplit(
    X: _Kind | _Given,
    *,
    maxsplit: int | None = None,
    delimiter: str | None = None,
    outputs: None = None,
) -> tuple[_Kind, _Kind]:
    """StringSplit splits a string tensor's elements into substrings based on a delimiter attribute and a
    maxsplit attribute."""
    ...
@overload
def StringSplit(
    X: _Kind | _Given,
    *,
    maxsplit: int | None = None,
    delimiter: str | None = None,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def Sub(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Performs element-wise binary subtraction (with Numpy-style broadcasting support)."""
    ...
def Sum(*data_0: _Kind | _Given, outputs: int | None = None) -> _Kind:
    """Element-wise sum of each of the input tensors (with Numpy-style broadcasting support)."""
    ...
def Swish(X: _Kind | _Given, *, alpha: float = 1, outputs: int | None = None) -> _Kind:
    """Swish function takes one input data (Tensor<T>) and produces one output data (Tensor<T>) of the same
    shape, where $Swish(x) = x * sigmoid(alpha * x)$."""
    ...
def Tan(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the tangent of the given input tensor, element-wise."""
    ...
def Tanh(input: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Calculates the hyperbolic tangent of the given input tensor element-wise."""
    ...
def TensorScatter(
    past_cache: _Kind | _Given,
    update: _Kind | _Given,
    write_indices: _Kind | _Given | None = None,
    *,
    mode: str = 'linear',
    axis: int = -2,
    outputs: int | None = None,
) -> _Kind:
    """TensorScatter is a generic tensor update operation, motivated by the requirements for KV cache updates
    for Attention ops commonly found in LLMs."""
    ...
def TfIdfVectorizer(
    X: _Kind | _Given,
    *,
    mode: str,
    ngram_indexes: Sequence[int],
    ngram_counts: Sequence[int],
    max_skip_count: int,
    min_gram_length: int,
    max_gram_length: int,
    weights: Sequence[float] | None = None,
    pool_int64s: Sequence[int] | None = None,
    pool_strings: Sequence[str] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """This transform extracts n-grams from the input sequence and save them as a vector."""
    ...
def ThresholdedRelu(X: _Kind | _Given, *, alpha: float = 1, outputs: int | None = None) -> _Kind:
    """ThresholdedRelu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the
    rectified linear function, y = x for x > alpha, y = 0 otherwise, is applied to the tensor elementwise."""
    ...
def Tile(input: _Kind | _Given, repeats: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Constructs a tensor by tiling a given tensor."""
    ...
@overload
def TopK(
    X: _Kind | _Given,
    K: _Kind | _Given,
    *,
    sorted: int = 1,
    largest: int = 1,
    axis: int = -1,
    outputs: None = None,
) -> tuple[_Kind, _Kind]:
    """Retrieve the top-K largest or smallest elements along a specified axis."""
    ...
@overload
def TopK(
    X: _Kind | _Given,
    K: _Kind | _Given,
    *,
    sorted: int = 1,
    largest: int = 1,
    axis: int = -1,
    outputs: int,
) -> tuple[_Kind, ...]:
    ...
def Transpose(
    data: _Kind | _Given,
    *,
    perm: Sequence[int] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Returns a transpose of the input tensor."""
    ...
def TreeEnsemble(
    X: _Kind | _Given,
    *,
    tree_roots: Sequence[int],
    nodes_modes: np.ndarray | ir.TensorProtocol,
    leaf_weights: np.ndarray | ir.TensorProtocol,
    leaf_targetids: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_trueleafs: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_splits: np.ndarray | ir.TensorProtocol,
    nodes_falseleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    aggregate_function: int = 1,
    post_transform: int = 0,
    nodes_hitrates: np.ndarray | ir.TensorProtocol | None = None,
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    n_targets: int | None = None,
    membership_values: np.ndarray | ir.TensorProtocol | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Tree Ensemble operator."""
    ...
def Trilu(
    input: _Kind | _Given,
    k: _Kind | _Given | None = None,
    *,
    upper: int = 1,
    outputs: int | None = None,
) -> _Kind:
    """Given a 2-D matrix or batches of 2-D matrices, returns the upper or lower triangular part of the
    tensor(s)."""
    ...
@overload
def Unique(X: _Kind | _Given, *, axis: int | None = None, sorted: int = 1, outputs: None = None) -> _Kind:
    """Find the unique elements of a tensor."""
    ...
@overload
def Unique(X: _Kind | _Given, *, axis: int | None = None, sorted: int = 1, outputs: int) -> tuple[_Kind, ...]:
    ...
def Unsqueeze(data: _Kind | _Given, axes: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Insert single-dimensional entries to the shape of an input tensor (`data`)."""
    ...
def Where(
    condition: _Kind | _Given,
    X: _Kind | _Given,
    Y: _Kind | _Given,
    *,
    outputs: int | None = None,
) -> _Kind:
    """Return elements, either from X or Y, depending on condition."""
    ...
def Xor(A: _Kind | _Given, B: _Kind | _Given, *, outputs: int | None = None) -> _Kind:
    """Returns the tensor resulted from performing the `xor` logical operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support)."""
    ...
def ZipMap(
    X: _Kind | _Given,
    *,
    classlabels_int64s: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    outputs: int | None = None,
) -> _Kind:
    """Creates a map from the input and the attributes.<br> The values are provided by the input tensor, while
    the keys are specified by the attributes."""
    ...
