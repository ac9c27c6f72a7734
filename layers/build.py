"""Builds the Lambda layer of dependencies, and the code of a function, with their bytecode.

    build.py --runtime python3.12 --architecture arm64 layer FOLDER
    build.py --runtime python3.12 --architecture arm64 function api FOLDER
    build.py --runtime python3.12 --architecture arm64 warm

Every wheel is pinned by hash (requirements/layer.txt) and made for the given runtime and
architecture, not for this machine.  An interpreter of the runtime's minor version compiles the
bytecode.  On Lambda the code's folder is read-only, so a module that is not compiled here would be
compiled at every cold start.  The bytecode is never checked against its source.

build/layers caches each built layer, under the hash of its inputs; `layer` copies it from there.
`warm` only fills this cache.  For functions/Makefile.
"""

import argparse
import compileall
import contextlib
import hashlib
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "layer.txt"
PLATFORMS = {"arm64": "aarch64", "x86_64": "x86_64"}
# The services that are called.  botocore's data of all other services is 24 MB, and a process reads
# the table of all their endpoints, 1.2 MB, before it makes its first client.
SERVICES = (
    *("dynamodb", "s3", "secretsmanager", "sqs", "sts", "cloudwatch", "kms", "logs"),
    "lambda",  # the function of hooks
)
# Packages of the product that no function imports.
LEFT_OUT = ("cli", "lake", "spark", "gateway")
# Packages that the layer's packages require and never import: cryptography needs the library of
# cffi alone.
NOT_IMPORTED = ("cffi", "pycparser", "_yaml")
# Files for tools, tests and type checkers; none is read at run time.
UNREAD = ("*.pyi", "*.pyx", "*.pxd", "*.h", "*.c", "py.typed", "*.md", "*.rst")


def main() -> None:
    """Run one of the three commands.  An error exits with its cause and remedy."""
    parser = argparse.ArgumentParser(description="builds what is deployed")
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--architecture", required=True, choices=sorted(PLATFORMS))
    commands = parser.add_subparsers(dest="command", required=True)
    layer = commands.add_parser("layer")
    layer.add_argument("--wheels", default="")
    layer.add_argument("--pip", default=sys.executable)
    layer.add_argument("folder", type=Path)
    warm = commands.add_parser("warm")
    warm.add_argument("--wheels", default="")
    warm.add_argument("--pip", default=sys.executable)
    function = commands.add_parser("function")
    function.add_argument("name")
    function.add_argument("folder", type=Path)
    given = parser.parse_args()
    _check_interpreter(given.runtime)
    if given.command == "function":
        build_function(given.folder, given.name)
        return
    kept = kept_layer(given.runtime, given.architecture, given.wheels, given.pip)
    if given.command == "layer":
        shutil.copytree(kept, given.folder / "python", dirs_exist_ok=True)


def kept_layer(runtime: str, architecture: str, wheels: str, pip: str) -> Path:
    """The cached folder of the layer's packages; built atomically if it does not exist.  `pip`: an
    interpreter that has pip, because one of Debian's has none."""
    digest = hashlib.sha256(LOCK.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    kept = ROOT / "build" / "layers" / f"{runtime}-{architecture}-{digest}"
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        target = Path(name) / "python"
        _install(target, runtime, architecture, wheels, pip)
        _trim(target)
        _compile(target)
        with contextlib.suppress(OSError):  # another process has built it meanwhile
            target.rename(kept)
    return kept


def build_function(folder: Path, name: str) -> None:
    """Copy one function's handler, and the product's packages except `LEFT_OUT`, and compile
    them."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("shared", name):
        for source in sorted((ROOT / "functions" / part).glob("*.py")):
            shutil.copy(source, folder)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.pyi", "*.proto", *LEFT_OUT)
    shutil.copytree(ROOT / "graveler", folder / "graveler", ignore=ignored, dirs_exist_ok=True)
    _compile(folder)


def _check_interpreter(runtime: str) -> None:
    ours = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if runtime != ours:
        sys.exit(
            f"build: bytecode for {runtime} needs an interpreter of that version, and this is "
            f"{ours}: name one with LAYER_PYTHON="
        )


def _install(target: Path, runtime: str, architecture: str, wheels: str, pip: str) -> None:
    machine = PLATFORMS[architecture]
    command = [pip, "-P", "-m", "pip", "install", "--quiet"]
    command += ["--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile"]
    command += ["--implementation", "cp", "--python-version", runtime.removeprefix("python")]
    for platform in (f"manylinux2014_{machine}", f"manylinux_2_28_{machine}"):
        command += ["--platform", platform]
    command += ["--requirement", str(LOCK), "--target", str(target)]
    settings = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1")
    if wheels:
        settings |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels}
    if subprocess.run(command, env=settings, check=False).returncode:
        sys.exit(f"build: the layer's packages could not be installed for {runtime} {architecture}")


def _trim(target: Path) -> None:
    """Remove files that are never read.  Names and versions of distributions stay, because packages
    look them up at run time."""
    for name in ("bin", *NOT_IMPORTED):
        shutil.rmtree(target / name, ignore_errors=True)
    described = target / "botocore" / "data"
    for folder in [each for each in described.iterdir() if each.is_dir()]:
        if folder.name not in SERVICES:
            shutil.rmtree(folder)
    for example in described.glob("*/*/*examples-1*"):
        example.unlink()
    _trim_endpoints(described / "endpoints.json")
    for found in sorted(target.rglob("*")):
        if found.is_dir() and found.name in ("tests", "test", "__pycache__"):
            shutil.rmtree(found)
        elif found.is_dir() and found.suffix == ".dist-info":
            _keep_only(found, "METADATA")
    for pattern in UNREAD:
        for found in target.rglob(pattern):
            found.unlink()


def _trim_endpoints(file: Path) -> None:
    """Remove the endpoints of services that are not called.  Partitions and regions stay."""
    table = json.loads(file.read_bytes())
    called = {*SERVICES, "monitoring"}  # the name of CloudWatch's endpoints
    for partition in table["partitions"]:
        services = partition["services"].items()
        partition["services"] = {name: value for name, value in services if name in called}
    file.write_text(json.dumps(table, separators=(",", ":")))


def _keep_only(folder: Path, name: str) -> None:
    for found in folder.iterdir():
        if found.is_dir():
            shutil.rmtree(found)
        elif found.name != name:
            found.unlink()


def _compile(folder: Path) -> None:
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(folder, quiet=1, invalidation_mode=mode, stripdir=str(folder)):
        sys.exit(f"build: not everything compiles: folder={folder}")


if __name__ == "__main__":
    main()
