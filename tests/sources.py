"""Where the code of the package is: the files, by their real paths and by their import names."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("engine", "importers", "exporters", "grad", "models")
PACKAGE = ROOT / "src" / "onnxgrad"


def source_files() -> list[Path]:
    """Every Python file of the package, each once."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return sorted([*files, *PACKAGE.glob("*.py"), *(PACKAGE / "cli").rglob("*.py")])


def all_python_files() -> list[Path]:
    """The package's files, and those of the tests, examples and benchmarks."""
    others = [path for folder in ("tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return sorted([*source_files(), *others])


def installed_path(path: Path) -> str:
    """engine/ir/names.py -> onnxgrad/engine/ir/names.py, its name inside a wheel"""
    base = PACKAGE if path.is_relative_to(PACKAGE) else ROOT
    return (Path("onnxgrad") / path.relative_to(base)).as_posix()


def module_name(path: Path) -> str:
    """engine/ir/names.py -> onnxgrad.engine.ir.names"""
    return installed_path(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def label(path: Path) -> str:
    """The path as a reader of a failed test wants it."""
    return str(path.relative_to(ROOT))
