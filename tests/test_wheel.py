"""What users install: the wheel holds every folder under the name `onnxgrad`, and nothing beside it."""

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import onnxgrad as og
from tests.sources import ROOT, installed_path, module_name, source_files

WHEEL = f"onnxgrad-{og.__version__}-py3-none-any.whl"
SDIST = f"onnxgrad-{og.__version__}.tar.gz"

REPORT = """
import importlib, importlib.util, json, sys
import onnxgrad as og
modules = {name: importlib.import_module(name).__file__ for name in json.load(sys.stdin)}
bare = [name for name in ("engine", "importers", "exporters", "grad", "models", "cli")
        if importlib.util.find_spec(name) is not None]
print(json.dumps({"modules": modules, "bare": bare, "error": og.errors.OnnxGradError.__name__}))
"""


def call(*command: str | Path, cwd: Path, text: str = "") -> str:
    result = subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def names_in(wheel: Path) -> list[str]:
    return sorted(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two folders: a wheel built from the checkout, and an sdist with the wheel built from it."""
    direct, through_sdist = tmp_path_factory.mktemp("direct"), tmp_path_factory.mktemp("through_sdist")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir")
    call(*build, direct, "--wheel", ROOT, cwd=direct)
    call(*build, through_sdist, ROOT, cwd=direct)
    return direct, through_sdist


@pytest.fixture(scope="module")
def fresh_python(built, tmp_path_factory):
    """The Python of a new environment with the wheel in it, and the packages it depends on by a path file."""
    folder = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    scripts = folder / ("Scripts" if sys.platform == "win32" else "bin")
    python = next(scripts.glob("python*"))
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    call(*pip, built[0] / WHEEL, cwd=folder)
    site_packages = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    Path(site_packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_wheel_holds_every_module_and_the_mark_for_type_checkers(built):
    expected = {installed_path(path) for path in source_files()}
    names = {name for name in names_in(built[0] / WHEEL) if name.endswith(".py")}
    assert len(expected) > 10
    assert names == expected
    assert {"onnxgrad/py.typed", "onnxgrad/engine/graph/op.pyi"} <= set(names_in(built[0] / WHEEL))


def test_the_wheel_holds_nothing_outside_the_package(built):
    assert {name.partition("/")[0] for name in names_in(built[0] / WHEEL)} == {
        "onnxgrad",
        f"onnxgrad-{og.__version__}.dist-info",
    }


def test_the_wheel_built_from_the_sdist_is_the_same(built):
    direct, through_sdist = built
    assert (through_sdist / SDIST).exists()
    assert names_in(through_sdist / WHEEL) == names_in(direct / WHEEL)


def test_the_wheel_states_its_dependencies_and_licence(built):
    archive = zipfile.ZipFile(built[0] / WHEEL)
    info = f"onnxgrad-{og.__version__}.dist-info"
    metadata = archive.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Dist: onnxruntime-gpu" in metadata
    assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert "onnxgrad = onnxgrad.cli.main:main" in archive.read(f"{info}/entry_points.txt").decode()


def test_the_installed_wheel_imports_from_another_folder(fresh_python, tmp_path):
    names = [module_name(path) for path in source_files()]
    report = json.loads(call(fresh_python, "-c", REPORT, cwd=tmp_path, text=json.dumps(names)))
    assert report["error"] == "OnnxGradError"
    assert report["bare"] == [], "a bare folder name can be imported"
    home = fresh_python.parents[1]
    outside = {name: file for name, file in report["modules"].items() if not Path(file).is_relative_to(home)}
    assert not outside


@pytest.mark.slow
def test_a_type_checker_knows_the_types_of_the_installed_wheel(fresh_python, tmp_path):
    script = tmp_path / "user.py"
    script.write_text("import onnxgrad as og\n\nx: int = og.schedules.constant()\nog.lod\n")
    mypy = (sys.executable, "-m", "mypy", "--python-executable", fresh_python, "--cache-dir", tmp_path / "cache")
    result = subprocess.run([*mypy, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'variable has type "int"' in result.stdout, result.stdout + result.stderr
    assert 'Module has no attribute "lod"' in result.stdout
