import pytest

from onnxgrad.engine.errors import OptionError, ProviderError
from onnxgrad.engine.runtime import providers as provider_module
from onnxgrad.engine.runtime.providers import (
    CPU,
    CUDA,
    Device,
    ProviderChoice,
    choose_providers,
    device_of,
    why_not_cuda,
)
from onnxgrad.engine.runtime.session import create_session
from tests.engine.text_models import model_of

CPU_ONLY = (ProviderChoice(CPU),)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("cpu", CPU_ONLY),
        (["CPU"], CPU_ONLY),
        ([CPU], CPU_ONLY),
        (("cpu", {"use_arena": 0}), (ProviderChoice(CPU, (("use_arena", "0"),)),)),
        ([("cpu", {"b": 2, "a": True})], (ProviderChoice(CPU, (("a", "True"), ("b", "2"))),)),
    ],
    ids=str,
)
def test_providers_go_by_short_and_by_full_names_with_options(wanted, chosen):
    assert choose_providers(wanted) == chosen


@pytest.mark.parametrize(
    ("wanted", "part"),
    [("cpux", "did you mean 'cpu'"), ("gpu", "did you mean 'cuda'"), ([], "empty"), (["cpu", "CPU"], "twice")],
    ids=str,
)
def test_names_that_are_no_providers_are_errors(wanted, part):
    with pytest.raises(OptionError, match=part):
        choose_providers(wanted)


def test_a_provider_that_the_wheel_lacks_is_an_error():
    with pytest.raises(ProviderError, match="has only"):
        choose_providers("rknpu")


def test_cuda_is_the_default_only_where_it_works(monkeypatch):
    monkeypatch.setattr(provider_module, "why_not_cuda", lambda: "")
    assert choose_providers() == (ProviderChoice(CUDA), ProviderChoice(CPU))
    assert choose_providers([("cuda", {"device_id": 1})])[1] == ProviderChoice(CPU)
    monkeypatch.setattr(provider_module, "why_not_cuda", lambda: "there is no driver")
    assert choose_providers() == CPU_ONLY
    with pytest.raises(ProviderError, match="there is no driver"):
        choose_providers(["cuda", "cpu"])


def test_a_session_without_the_provider_that_was_asked_for_is_an_error(monkeypatch):
    if why_not_cuda() == "":
        pytest.skip("CUDA works here")
    monkeypatch.setattr(provider_module, "why_not_cuda", lambda: "")
    with pytest.raises(ProviderError, match="did not start CUDAExecutionProvider"):
        create_session(model_of("g (float[N] x) => (float[N] y) { y = Sinh(x) }"), providers="cuda")


def test_state_lives_on_the_device_of_the_first_provider():
    assert device_of(choose_providers("cpu")) == Device("cpu", 0)
    assert device_of((ProviderChoice(CUDA, (("device_id", "2"),)), ProviderChoice(CPU))) == Device("cuda", 2)
