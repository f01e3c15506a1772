import numpy as np
import pytest

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import OptionError, ProviderError
from onnxgrad.engine.runtime import feeds, providers, values
from onnxgrad.engine.runtime.cuda_options import cuda_options
from onnxgrad.engine.runtime.providers import CUDA, Device, ProviderChoice, captures_graphs, device_of
from tests.engine.text_models import RELU, compiled, floats, model_of


def test_our_names_become_those_of_onnxruntime():
    given = {
        "device": 1,
        "memory_limit": 2**31,
        "cudnn_search": "heuristic",
        "tf32": False,
        "nhwc": True,
        "cuda_graph": True,
    }
    assert cuda_options(given) == {
        "device_id": "1",
        "gpu_mem_limit": str(2**31),
        "cudnn_conv_algo_search": "HEURISTIC",
        "use_tf32": "0",
        "prefer_nhwc": "1",
        "enable_cuda_graph": "1",
    }
    assert cuda_options({"sdpa_kernel": 8, "fuse_conv_bias": True}) == {"sdpa_kernel": "8", "fuse_conv_bias": "1"}


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"memory_limt": 1}, "did you mean 'memory_limit'"),
        ({"device": -1}, "the number of a GPU"),
        ({"device": True}, "the number of a GPU"),
        ({"tf32": 1}, "True or False"),
        ({"cudnn_search": "fast"}, "exhaustive"),
        ({"cudnn_search": ["fast"]}, "exhaustive"),
        ({"device": 0, "device_id": 1}, "given twice"),
    ],
)
def test_wrong_options_are_errors(given, part):
    with pytest.raises(OptionError, match=part):
        compile(model_of(RELU), providers=[("cuda", given)])


def test_choices_say_where_memory_is_and_whether_graphs_are_captured():
    choice = ProviderChoice(CUDA, tuple(sorted(cuda_options({"device": 2, "cuda_graph": True}).items())))
    assert device_of([choice]) == Device("cuda", 2)
    assert captures_graphs([choice])
    assert not captures_graphs([ProviderChoice(CUDA)])


def test_cuda_that_is_asked_for_and_not_there_is_an_error_that_says_why(monkeypatch):
    monkeypatch.setattr(providers, "why_not_cuda", lambda: "there is no driver")
    with pytest.raises(ProviderError, match=r"(?s)cannot be used.*because: there is no driver.*try: pip install"):
        compile(model_of(RELU), providers=["cuda"])


class OnDevice:
    """A tensor whose memory is on a GPU, of a library that would copy it to the host without a word."""

    def __init__(self, array):
        self.array = array

    def __array__(self, *args, **kwargs):
        raise AssertionError("copied to the host")

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__()


def test_tensors_on_a_device_are_shared_and_not_copied_to_the_host(monkeypatch):
    shared, from_dlpack = [], values.from_dlpack

    def share(tensor):
        shared.append(tensor)
        return from_dlpack(tensor.array)

    monkeypatch.setattr(feeds, "from_dlpack", share)
    tensor = OnDevice(floats(2, 3))
    np.testing.assert_array_equal(compiled(RELU)(tensor)["y"], np.maximum(floats(2, 3), 0))
    assert shared == [tensor]
