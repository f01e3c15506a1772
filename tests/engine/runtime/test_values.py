import ctypes

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnxgrad.engine.errors import InputError
from onnxgrad.engine.runtime.values import allocate, from_dlpack, pack, to_numpy, to_ort, unpack

DTYPES = [
    np.float32, np.float64, np.float16, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
    np.uint64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu, ml_dtypes.int4, ml_dtypes.uint4,
    ml_dtypes.int2, ml_dtypes.uint2,
    ml_dtypes.float4_e2m1fn,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(5,), (2, 3), (), (0, 4)], ids=str)
def test_every_dtype_survives_the_way_into_an_ort_value_and_back(dtype, shape):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(np.float32).astype(dtype)
    value = to_ort(np.asarray(array))
    assert tuple(value.shape()) == shape and value.element_type() == int(ir.DataType.from_numpy(np.dtype(dtype)))
    back = to_numpy(value)
    assert back.dtype == dtype and back.shape == shape and back.tobytes() == np.asarray(array).tobytes()


@pytest.mark.parametrize(
    "dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2], ids=lambda d: np.dtype(d).name
)
def test_ort_values_share_the_memory_of_arrays(dtype):
    array = np.zeros(4, dtype)
    value = to_ort(array)
    array[:] = 1
    assert value.data_ptr() == array.ctypes.data
    assert to_numpy(value).astype(np.float32).tolist() == [1, 1, 1, 1]
    assert np.shares_memory(to_numpy(value), to_numpy(value))


def test_an_array_keeps_the_memory_of_its_ort_value_alive():
    arrays = []
    for number in range(64):
        value = allocate((4096,), ir.DataType.BFLOAT16)
        ctypes.memset(value.data_ptr(), number, 8192)
        arrays.append(to_numpy(value))
        del value
    assert all(set(array.view(np.uint8)) == {number} for number, array in enumerate(arrays))


def test_strided_arrays_are_copied():
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(to_numpy(to_ort(array)), array)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("count", range(6))
def test_packing_agrees_with_onnx(name, count):
    dtype = ir.DataType[name.upper()]
    low = 0 if name.startswith("u") else -(1 << (dtype.bitwidth - 1))
    values = (low + np.arange(count) % (1 << dtype.bitwidth)).astype(dtype.numpy())
    packed = pack(values, dtype.bitwidth)
    assert packed.tobytes() == numpy_helper.from_array(values).raw_data
    assert unpack(packed, count, dtype).tolist() == values.tolist()


class Foreign:
    """A tensor of another library that only speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_dlpack_tensors_are_shared_and_what_cannot_be_shared_is_an_error():
    array = np.ones(3, np.float32)
    assert from_dlpack(Foreign(array)).data_ptr() == array.ctypes.data
    with pytest.raises(InputError, match="Foreign"):
        from_dlpack(Foreign(np.ones(6, np.float32)[::2]))
