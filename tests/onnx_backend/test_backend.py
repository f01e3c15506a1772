"""onnx's own backend tests: a slice of them here, all of them with the slow tests."""

import hashlib
import warnings
from pathlib import Path

import pytest

from onnxgrad.backend import OnnxGradBackend
from tests.onnx_backend.expected_failures import EXPECTED_FAILURES

SHARE = 8  # one case in so many is in the quick run


def _in_quick_run(name):
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % SHARE == 0


def _cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose while they are made
        from onnx.backend.test import BackendTest

        suite = BackendTest(OnnxGradBackend, __name__)
        suite.exclude("^test_(bvlc_alexnet|densenet121|inception|resnet50|shufflenet|squeezenet|vgg19|zfnet512)")
        for name in EXPECTED_FAILURES:
            suite.xfail(f"^{name}_cpu$")
        cases = suite.test_cases
    for case in cases.values():
        for name in [name for name in vars(case) if name.startswith("test_")]:
            if name.endswith("_cuda"):
                delattr(case, name)
            elif not _in_quick_run(name):
                setattr(case, name, pytest.mark.slow(getattr(case, name)))
    return {name: case for name, case in cases.items() if name != "OnnxBackendRealModelTest"}


globals().update(_cases())


def test_the_expected_failures_are_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "execution.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in EXPECTED_FAILURES)
    assert f"{len(EXPECTED_FAILURES)} cases" in text
