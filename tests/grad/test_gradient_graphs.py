"""What a gradient is made of: standard operators, and functions of these, that the checker and onnxruntime take."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

import numpy as np
import onnx
import onnx.checker
import onnxruntime as ort
import pytest

from onnxgrad.exporters import to_proto
from onnxgrad.grad.gradient_model import gradient_model
from tests.grad.checks import Case, build
from tests.grad.test_decisions import SCHEMAS
from tests.grad.test_rules import CASES
from tests.sources import ROOT

STANDARD = [case for case in CASES if case.runs32 and not case.op_domain and ("", case.op_type) in SCHEMAS]
SAMPLE = list({case.op_type: case for case in reversed(STANDARD)}.values())  # the first case of each operator

# The checker refuses the operator itself: it fails on the body that the standard gives, where axes are the default.
UNCHECKED = {"MeanVarianceNormalization"}


def gradient_of(case: Case) -> onnx.ModelProto:
    model, _ = build(case, np.float32, symbolic=True)
    return to_proto(gradient_model(model))


def nodes_in(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes and those of the bodies below them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from nodes_in(attribute.g.node)


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.op_type)
def test_a_gradient_is_standard_onnx(case):
    proto = gradient_of(case)
    onnx.checker.check_model(proto, full_check=case.op_type not in UNCHECKED)
    functions = {(function.domain, function.name): function for function in proto.functions}
    assert {domain for domain, _ in functions} <= {"onnxgrad"}
    for node in nodes_in([*proto.graph.node, *(node for function in functions.values() for node in function.node)]):
        assert (node.domain, node.op_type) in functions if node.domain == "onnxgrad" else node.domain == ""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_outputs()] == [value.name for value in proto.graph.output]


@pytest.mark.parametrize("case", SAMPLE[::4], ids=lambda case: case.op_type)
def test_names_are_unique_and_say_where_they_come_from(case):
    model, _ = build(case, np.float32, symbolic=True)
    before = {node.name for node in model.graph.node}
    proto = to_proto(gradient_model(model))
    nodes = [node.name for node in proto.graph.node]
    values = [name for node in proto.graph.node for name in node.output if name]
    assert len(set(nodes)) == len(nodes) and all(nodes)
    assert len(set(values)) == len(values)
    added = [name for name in nodes if name not in before]
    assert all(name.isascii() and name.isprintable() and " " not in name for name in added)


PRINT_DIGESTS = """
import hashlib
from tests.grad.test_gradient_graphs import SAMPLE, gradient_of
for case in SAMPLE[::5]:
    print(case, hashlib.sha256(gradient_of(case).SerializeToString(deterministic=True)).hexdigest())
"""


def test_the_bytes_are_the_same_in_processes_that_hash_differently():
    digests = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        result = subprocess.run(
            [sys.executable, "-c", PRINT_DIGESTS], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        digests.append(result.stdout)
    assert digests[0] == digests[1]
    assert len(digests[0].splitlines()) > 10
