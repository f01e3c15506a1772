"""Who may import whom: the contracts of pyproject.toml, and the rules that contracts cannot say."""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.sources import FOLDERS, PACKAGE, ROOT, label, module_name, source_files

HEAVY = {"torch", "onnxruntime", "rich", "typer", "matplotlib", "tokenizers", "PIL"}
MAY_IMPORT = {
    "onnxruntime": ("onnxgrad.engine.runtime",),
    "torch": ("onnxgrad.importers.torch",),
    "typer": ("onnxgrad.cli",),
}


def imported_names(tree: ast.AST) -> set[str]:
    """Full names of all modules that are imported anywhere in the tree, functions included."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def lies_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def run_lint_imports(config: Path, cwd: Path, python_path: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    return subprocess.run(
        [*command, "--no-cache", "--no-logo", str(config)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_contract_is_kept():
    result = run_lint_imports(ROOT / "pyproject.toml", cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    assert f"{len(contracts)} kept, 0 broken" in " ".join(result.stdout.split())


def test_the_contracts_see_every_module():
    import grimp

    graph = grimp.build_graph("onnxgrad", cache_dir=None)
    modules = {module_name(path) for path in source_files()}
    assert len(modules) > 10
    assert modules <= graph.modules


def test_the_type_checker_sees_every_module():
    """`mypy -p onnxgrad` says "success" when it finds one file only: ask it what it finds."""
    from mypy.modulefinder import FindModuleCache, SearchPaths
    from mypy.options import Options

    search = SearchPaths(python_path=(str(PACKAGE.parent),), mypy_path=(), package_path=(), typeshed_path=())
    found = FindModuleCache(search, None, Options()).find_modules_recursive("onnxgrad")
    modules = {module_name(path) for path in source_files()}
    assert modules <= {source.module for source in found}


@pytest.mark.parametrize("path", source_files(), ids=label)
def test_a_module_imports_only_what_its_layer_may(path):
    module = module_name(path)
    for name in imported_names(parse(path)):
        top_level = name.partition(".")[0]
        assert not name.startswith("."), f"{module} imports {name!r}: write the full name"
        assert top_level not in FOLDERS, f"{module} imports {name!r}: write onnxgrad.{name}"
        allowed = MAY_IMPORT.get(top_level)
        assert allowed is None or any(lies_in(module, package) for package in allowed), f"{module} imports {name}"


@pytest.mark.parametrize("path", source_files(), ids=label)
def test_only_the_command_line_uses_the_public_names(path):
    """Inside the package a name is imported from where it is defined; the public table would hide the layers."""
    module = module_name(path)
    if module != "onnxgrad" and not lies_in(module, "onnxgrad.cli"):
        assert "onnxgrad" not in imported_names(parse(path))


@pytest.mark.parametrize("path", source_files(), ids=label)
def test_heavy_packages_are_imported_inside_functions(path):
    if lies_in(module_name(path), "onnxgrad.cli"):
        return
    statements = [node for node in parse(path).body if not is_type_checking(node)]
    top_level = [node for node in statements if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {name.partition(".")[0] for node in top_level for name in imported_names(node)}
    assert not names & HEAVY


def test_importing_the_package_is_light():
    code = f"import sys, onnxgrad; print(sorted({HEAVY!r} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


# A small package with the names of the real one, to see that the contracts can fail.
SMALL_PACKAGE = {
    "cli": "",
    "models": "",
    "importers/onnx": "",
    "importers/torch": "import torch",
    "exporters": "",
    "engine/errors": "",
    "engine/ir/names": "import onnxgrad.engine.errors",
    "engine/runtime": "import onnxruntime",
    "engine/compile": "import onnxgrad.engine.runtime",
    "engine/passes/fold": "import onnxgrad.engine.passes.rewrite",
    "engine/passes/prune": "",
    "engine/passes/rewrite": "",
    "grad/registry": "",
    "grad/reverse": "import onnxgrad.grad.registry",
    "grad/rules/conv": "import onnxgrad.grad.registry",
    "grad/rules/pool": "import onnxgrad.grad.windows",
    "grad/windows": "import onnxgrad.grad.registry",
    "grad/tape": "import onnxgrad.engine.compile",
}


def lint_package(folder: Path, texts: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in texts.items():
        path = folder / "onnxgrad" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for parent in list(path.relative_to(folder).parents)[:-1]:
            (folder / parent / "__init__.py").touch()
    return run_lint_imports(ROOT / "pyproject.toml", cwd=folder, python_path=str(folder))


def test_the_contracts_allow_what_the_layers_allow(tmp_path):
    result = lint_package(tmp_path, SMALL_PACKAGE)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("engine/errors", "import onnxgrad.grad.registry"),
        ("engine/ir/names", "import onnxgrad.engine.runtime"),
        ("importers/onnx", "import onnxgrad.exporters"),
        ("grad/rules/conv", "import onnxgrad.grad.rules.pool"),
        ("engine/passes/fold", "import onnxgrad.engine.passes.prune"),
        ("importers/onnx", "import onnxgrad.grad.reverse"),
        ("grad/reverse", "import onnxgrad.engine.compile"),
        ("grad/windows", "import onnxgrad.grad.reverse"),
        ("grad/registry", "import onnxruntime"),
        ("models", "import torch"),
    ],
)
def test_a_contract_catches(module, line, tmp_path):
    result = lint_package(tmp_path, SMALL_PACKAGE | {module: line})
    assert result.returncode == 1
    assert "BROKEN" in result.stdout
