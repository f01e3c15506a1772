"""Fetch a pinned wheel with pip, so that the user's own index, proxy and certificates are the ones that are used."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from onnxgrad.engine.errors import CatalogError
from onnxgrad.models.catalog.entry import Wheel

# What pip writes when it has no connection, as opposed to an index that answers without the package.
_NO_CONNECTION = (
    "NewConnectionError",
    "ConnectionError",
    "ConnectTimeout",
    "ReadTimeout",
    "ProxyError",
    "SSLError",
    "SSLCertVerificationError",
    "Could not fetch URL",
    "Network is unreachable",
    "name resolution",
    "Connection refused",
    "connection broken",
    "timed out",
)


def download_wheel(wheel: Wheel, folder: Path) -> Path:
    """Download one wheel into the empty `folder`, check its sha256, and return its path.

    Raises CatalogError where pip is missing, the index cannot be reached or lacks the package, or the checksum differs.
    """
    megabytes = wheel.size / 1e6
    print(f"onnxgrad: downloading {wheel.package} {wheel.version} ({megabytes:.1f} MB)", file=sys.stderr, flush=True)
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    destination = folder / "wheel"
    destination.mkdir()
    finished = run_pip(_pip_arguments(wheel, requirements, destination), folder)
    if finished.returncode != 0:
        raise _explain(wheel, finished.stderr or finished.stdout)
    found = sorted(destination.glob("*.whl"))
    if len(found) != 1:
        raise CatalogError(f"pip gave {len(found)} wheels for {wheel.package}=={wheel.version}, not one")
    check_sha256(found[0], wheel)
    return found[0]


def run_pip(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `pip` of this interpreter and return what it wrote. `folder` takes a scratch file."""
    if not sys.executable:
        raise CatalogError("pip cannot be run", why="this Python does not know the path of its interpreter")
    unconstrained = folder / "constraints.txt"
    unconstrained.touch()
    # Nothing is installed, so settings that guard an environment do not apply.
    settings = {"PIP_CONSTRAINT": str(unconstrained), "PIP_REQUIRE_VIRTUALENV": "false", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(  # the arguments are the catalog's own
        command,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def check_sha256(path: Path, wheel: Wheel) -> None:
    """Raise CatalogError unless the file is, bit for bit, the wheel that the catalog pins."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != wheel.sha256:
        raise _checksum_error(wheel, f"expected sha256 {wheel.sha256}, got {digest}")


def _pip_arguments(wheel: Wheel, requirements: Path, destination: Path) -> list[str]:
    """The wheel is data, so the interpreter and the platform it was built for do not matter: ask for them by name."""
    arguments = ["download", "--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    arguments += ["--progress-bar", "off", "--python-version", "3.11", "--implementation", "cp"]
    if wheel.platform:
        arguments += ["--platform", wheel.platform]
    return [*arguments, "--dest", str(destination), "--requirement", str(requirements)]


def _explain(wheel: Wheel, output: str) -> CatalogError:
    requirement = f"{wheel.package}=={wheel.version}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last_words = next(
        (line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "no output"
    )
    if "No module named pip" in output:
        return CatalogError(
            f"{requirement} cannot be downloaded",
            where=sys.executable,
            why="this environment has no pip",
            fix=f"{sys.executable} -m ensurepip",
        )
    if "DO NOT MATCH THE HASHES" in output:
        return _checksum_error(wheel, next((line for line in lines if line.startswith("Got")), last_words))
    no_connection = [line for line in lines if any(sign in line for sign in _NO_CONNECTION)]
    if no_connection:
        return CatalogError(
            f"the package index cannot be reached to download {requirement}",
            why=no_connection[-1],
            fix="check the network and pip's settings: python -m pip config list",
        )
    if "No matching distribution" in output:
        return CatalogError(
            f"the package index has no {requirement}",
            why=last_words,
            fix="check that pip is set to an index that mirrors all of PyPI: python -m pip config list",
        )
    return CatalogError(f"pip could not download {requirement}", why=last_words)


def _checksum_error(wheel: Wheel, why: str) -> CatalogError:
    return CatalogError(
        f"{wheel.package}=={wheel.version} is not the file that the catalog pins",
        why=why,
        fix="the index serves other content under this version: use another index; nothing was kept",
    )
