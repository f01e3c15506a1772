"""Modules: names, states, files."""

from copy import deepcopy

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad import nn
from tests.models.nn.layers import floats


class Block(nn.Module):
    def __init__(self):
        self.fc, self.norm = nn.Linear(4, 4), nn.BatchNorm(4)
        self.step = og.Tensor(0.0)  # no state: neither Parameter nor Buffer

    def __call__(self, x):
        return nn.relu(self.norm(self.fc(x)))


class Net(nn.Module):
    def __init__(self):
        self.scale = nn.Parameter([1.0])
        self.blocks = [Block(), Block()]
        self.heads = {"a": nn.Linear(4, 2), "b": nn.Linear(4, 3, bias=False)}
        self.tied = self.heads["a"].weight

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return self.heads["a"](x * self.scale)


BLOCK = ["fc.weight", "fc.bias", "norm.weight", "norm.bias"]
STATISTICS = ["norm.running_mean", "norm.running_var"]


def test_parameters_are_called_by_the_way_to_them():
    names = [name for name, _ in Net().named_parameters()]
    blocks = [f"blocks.{i}.{name}" for i in (0, 1) for name in BLOCK]
    assert names == ["scale", *blocks, "heads.a.weight", "heads.a.bias", "heads.b.weight"]


def test_buffers_are_no_parameters():
    assert [name for name, _ in Net().named_buffers()] == [f"blocks.{i}.{name}" for i in (0, 1) for name in STATISTICS]


def test_a_parameter_with_two_names_comes_once_and_has_both_in_the_state():
    net = Net()
    assert len(net.parameters()) == len({id(parameter) for parameter in net.parameters()})
    assert {"heads.a.weight", "tied"} <= set(net.state_dict())


def test_a_module_that_holds_itself_ends():
    net = Block()
    net.whole = net
    assert [name for name, _ in net.named_parameters()] == BLOCK
    assert len(list(net.modules())) == 3


def test_train_and_eval_reach_all_modules():
    net = Net()
    assert all(not module.training for module in net.eval().modules())
    assert all(module.training for module in net.train().modules())


def test_a_state_goes_from_one_module_to_another():
    one, other = Net(), Net()
    other.load_state_dict(one.state_dict())
    x = og.Tensor(floats(3, 4))
    np.testing.assert_array_equal(one.eval()(x).numpy(), other.eval()(x).numpy())


def test_a_state_is_a_copy():
    net = nn.Linear(2, 2)
    state = net.state_dict()
    state["weight"][:] = 0
    assert net.weight.numpy().any()


STATES = {
    "missing": (lambda s: s.pop("weight"), "missing weight"),
    "unexpected": (lambda s: s.update(extra=np.zeros(1)), "unexpected extra"),
    "shape": (lambda s: s.update(weight=np.zeros((2, 3))), r"wrong shape: weight is \[2, 3\], not \[2, 2\]"),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_does_not_fit_is_refused_as_a_whole(name):
    change, message = STATES[name]
    net = nn.Linear(2, 2)
    before = net.state_dict()
    state = {key: array + 1 for key, array in before.items()}
    change(state)
    with pytest.raises(og.errors.InputError, match=message):
        net.load_state_dict(state)
    assert all(np.array_equal(array, before[key]) for key, array in net.state_dict().items())


def test_without_strict_what_fits_by_name_is_taken():
    net = nn.Linear(2, 2)
    net.load_state_dict({"bias": [1.0, 2.0], "extra": [0.0]}, strict=False)
    assert net.bias is not None
    assert net.bias.tolist() == [1, 2]


def test_a_state_is_saved_as_safetensors(tmp_path):
    from safetensors.numpy import load_file

    one, other = Net(), Net()
    one.save(tmp_path / "net.safetensors")
    assert set(load_file(tmp_path / "net.safetensors")) == set(one.state_dict())
    other.load(tmp_path / "net.safetensors")
    assert all(np.array_equal(array, one.state_dict()[key]) for key, array in other.state_dict().items())
    assert [path.name for path in tmp_path.iterdir()] == ["net.safetensors"]


@pytest.mark.parametrize("content", [None, b"", b"no safetensors", (10**6).to_bytes(8, "little") + b"{}"])
def test_a_damaged_file_is_an_error(content, tmp_path):
    path = tmp_path / "net.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(og.errors.InputError, match="cannot be read as safetensors"):
        nn.Linear(2, 2).load(path)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(og.errors.OptionError, match="does not exist"):
        nn.Linear(2, 2).save(tmp_path / "none" / "net.safetensors")


def test_floats_get_another_dtype():
    net = Net().to(dtype="float64")
    assert {array.dtype for array in net.state_dict().values()} == {np.dtype("float64")}
    assert net.tied is net.heads["a"].weight
    assert net.eval()(og.Tensor(floats(3, 4), "float64")).dtype == np.float64


def test_a_copy_has_tensors_of_its_own():
    net = Net()
    copy = deepcopy(net)
    assert copy.tied is copy.heads["a"].weight
    assert isinstance(copy.scale, nn.Parameter)
    copy.scale.set([5.0])
    assert net.scale.item() == 1


def test_a_method_called_forward_is_refused():
    with pytest.raises(og.errors.OptionError, match="rename its method forward to __call__"):
        type("Wrong", (nn.Module,), {"forward": lambda self, x: x})


def test_a_seed_repeats_the_first_values():
    states = []
    for _ in range(2):
        nn.seed(5)
        states.append(Net().state_dict())
    assert all(np.array_equal(array, states[1][name]) for name, array in states[0].items())


def test_a_generator_may_be_given():
    one, other = (nn.Linear(3, 3, rng=np.random.default_rng(2)) for _ in range(2))
    np.testing.assert_array_equal(one.weight.numpy(), other.weight.numpy())


BOUNDS = {
    "linear": (lambda: nn.Linear(100, 50), {"weight": 0.1, "bias": 0.1}),
    "convolution": (lambda: nn.Conv(4, 50, 5), {"weight": 0.1, "bias": 0.1}),
    "lstm": (lambda: nn.LSTM(20, 25), {"weight_ih_l0": 0.2, "bias_hh_l0": 0.2}),
    "attention": (lambda: nn.MultiHeadAttention(64, 4), {"in_proj_weight": (6 / 256) ** 0.5, "out_proj.weight": 0.125}),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_first_values_are_spread_as_those_of_pytorch(name):
    make, bounds = BOUNDS[name]
    nn.seed(0)
    state = make().state_dict()
    for key, bound in bounds.items():
        array = state[key]
        assert np.abs(array).max() <= bound
        assert np.abs(array).max() > 0.9 * bound
        np.testing.assert_allclose(array.std(), bound / 3**0.5, rtol=0.15)


def test_a_module_shows_what_it_holds():
    text = repr(nn.Sequential(nn.Linear(4, 8), nn.relu, nn.Linear(8, 2, bias=False)))
    assert text == "Sequential()\n  0: Linear(weight: [8, 4], bias: [8])\n  2: Linear(weight: [2, 8])"


def test_the_parts_of_a_sequence_can_be_taken():
    net = nn.Sequential(nn.Linear(4, 8), nn.relu)
    assert len(net) == 2
    assert net[-1] is nn.relu


@pytest.mark.slow
def test_state_dicts_of_batch_norm_go_to_pytorch_and_back():
    import torch

    theirs, ours = torch.nn.Sequential(torch.nn.BatchNorm1d(3)), nn.Sequential(nn.BatchNorm(3))
    theirs(torch.arange(12.0).reshape(4, 3))
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_array_equal(ours.state_dict()["0.running_mean"], theirs.state_dict()["0.running_mean"].numpy())
    theirs.load_state_dict({name: torch.from_numpy(array) for name, array in ours.state_dict().items()})
