"""Every file of examples/ runs as it says, in a process of its own, and prints something."""

import subprocess
import sys

import pytest

from tests.sources import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PRINTS = {
    "imperative_mnist": "traced: 80 steps in ",
    "training_loop": "epoch 5: loss 0.0",
    "two_parts": "out of turn: expected to execute part 0, actual part is 1",
    "stream_activations": "layer 3: 40960 values",
}


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} >= set(PRINTS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path):
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout) > 50
    assert PRINTS.get(path.stem, "") in result.stdout
