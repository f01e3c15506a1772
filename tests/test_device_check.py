"""benchmarks/device_check.py on a machine without a GPU: it runs what it can and names what it skips."""

import json
import sys

import pytest

from benchmarks import device_check
from benchmarks.device_check import Skip, checks, make_setting, run_check
from tests.engine.text_models import f32


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(device_check, "why_not_cuda", lambda: "there is no driver")
    monkeypatch.setitem(sys.modules, "torch", None)


def test_without_a_gpu_the_checks_pass_or_are_skipped_with_the_reason(without_gpu, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["device_check.py", "--small", "--json"])
    assert device_check.main() == 0
    report = json.loads(capsys.readouterr().out)
    outcomes = {check["name"]: check for check in report["checks"]}
    assert report["cuda"] is False and report["failed"] == 0
    nets = ("mlp", "resnet", "bert", "lstm")
    run = {f"{what} {net}" for net in nets for what in ("training", "binding", "device values")}
    assert {name for name, check in outcomes.items() if check["status"] == "passed"} == run
    assert outcomes["CUDA"] == outcomes["CUDA"] | {"status": "skipped", "detail": "there is no driver"}
    assert outcomes["torch tensors"]["detail"] == "torch is not installed"
    assert {"CUDA graph mlp", "placement bert", "agreement lstm"} <= set(outcomes) - run


def test_outputs_that_differ_fail_a_check():
    wrong = {"y": f32([1, 2.01])}
    outcome = run_check("agreement", lambda: device_check._compare({"y": f32([1, 2])}, wrong))
    assert outcome.status == "failed" and "5.0e-03 apart" in outcome.detail
    assert run_check("fine", lambda: device_check._compare(wrong, wrong)).status == "passed"


def test_a_skip_is_no_failure():
    def skip():
        raise Skip("not here")

    outcome = run_check("x", skip)
    assert (outcome.status, outcome.detail) == ("skipped", "not here")


def test_every_net_and_file_is_placed_and_compared(without_gpu, tmp_path):
    path = tmp_path / "double.onnx"
    path.write_bytes(device_check._double().SerializeToString())
    names = [name for name, _ in checks(make_setting((path,), small=True))]
    assert {"placement double.onnx", "agreement double.onnx", "placement mlp"} <= set(names)
    assert len(names) == len(set(names))
