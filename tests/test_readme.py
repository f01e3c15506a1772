"""The documentation tells the truth: its Python runs as printed, its links and its make targets exist."""

import os
import re
import subprocess
import sys

import pytest

from tests.sources import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[str]:
    return CODE_BLOCK.findall(text)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if python_blocks(page.read_text())], ids=lambda page: page.name
)
def test_the_examples_of_a_page_run_as_printed(page, tmp_path):
    script = tmp_path / "example.py"
    script.write_text("\n".join(python_blocks(page.read_text())))
    environment = os.environ | {"MPLCONFIGDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip(), "the examples print nothing: nobody sees what they do"


def test_the_readme_opens_with_the_two_commands_and_an_example():
    text = (ROOT / "README.md").read_text()
    opening = text[: text.index("## ")]
    assert "make demo" in opening
    assert "make test" in opening
    assert len(python_blocks(opening)) == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_that_are_named_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^ {4}|`)make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert named <= targets
