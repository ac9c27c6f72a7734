"""Packs what jobs on Spark need besides Spark itself into one archive, for clusters without pip.

    make spark-archive                                     Spark 4, the Python of this machine
    make spark-archive ARGS='--spark 3 --python 3.11'      the other lock, another Python
    make spark-archive ARGS='--architecture aarch64'

Run it with the Python of the environment of that Spark: it knows which packages need which.  Every
file is checked by its hash in requirements/spark*.txt.  It writes
build/spark/graveler-spark4-py311-x86_64.tar.gz and its SHA-256 beside it.  Uses the network.
"""

import argparse
import gzip
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
OUT: Final = ROOT / "build" / "spark"
CLUSTERS: Final = frozenset(("pyspark", "py4j", "pandas"))  # clusters bring these themselves
_SOURCES: Final = ("graveler", "pyproject.toml", "README.md", "LICENSE", "NOTICE")
_NAME: Final = re.compile(r"[\s<>=!~;(\[]")


def normal(name: str) -> str:
    """A name of a distribution in the spelling of locks."""
    return re.sub("[-_.]+", "-", _NAME.split(name)[0]).lower()


def wanted() -> list[str]:
    """The dependencies of the package, and those of its extra `spark`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["spark"]]


def needed(names: list[str]) -> set[str]:
    """These, and all that they need, without what clusters bring, by what this environment has."""
    found: set[str] = set()
    waiting = [normal(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found or name in CLUSTERS:
            continue
        found.add(name)
        asked = metadata.requires(name) or []
        waiting += [normal(each) for each in asked if "extra ==" not in each]
    return found


def pinned(lock: str, names: set[str]) -> str:
    """The lines of a lock for these names, with their hashes.  Raises `SystemExit` if one lacks."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    chosen = {normal(block): block for block in blocks if "==" in block.split("\n")[0]}
    missing = sorted(names - chosen.keys())
    if missing:
        raise SystemExit(f"spark-archive: not in the lock: {', '.join(missing)}: run `make lock`")
    return "".join(chosen[name] for name in sorted(names))


def packed(folder: Path, archive: Path) -> str:
    """Pack a folder, the same for the same files; returns the SHA-256."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
        info.mode = 0o755 if info.isdir() else 0o644
        return info

    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for path in sorted(folder.rglob("*")):
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=plain)
    return hashlib.sha256(archive.read_bytes()).hexdigest()


def _pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *words, "--quiet"], check=True)


def _install(folder: Path, requirements: Path, python: str, architecture: str) -> None:
    """The packages of the lock, for the Python and the machine of the cluster; and this one."""
    platforms = (f"manylinux2014_{architecture}", f"manylinux_2_28_{architecture}")
    machine = [word for each in platforms for word in ("--platform", each)]
    checked = ["--no-deps", "--only-binary", ":all:", "--target", str(folder), "--no-compile"]
    _pip(
        *("install", "--require-hashes", *checked, *machine, "--python-version", python),
        *("--requirement", str(requirements)),
    )
    with tempfile.TemporaryDirectory() as copy:
        for name in _SOURCES:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, Path(copy, name))
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", copy, copy)
        (wheel,) = Path(copy).glob("graveler-*.whl")
        _pip("install", "--no-deps", "--no-compile", "--target", str(folder), str(wheel))
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for cache in list(folder.rglob("__pycache__")):
        shutil.rmtree(cache)


def main() -> int:
    """Write the archive and its checksum."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser = argparse.ArgumentParser(
        prog="spark_archive.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--spark", choices=("3", "4"), default="4")
    parser.add_argument("--python", default=here, help=f"of the cluster (default: {here})")
    parser.add_argument("--architecture", choices=("x86_64", "aarch64"), default="x86_64")
    said = parser.parse_args()
    lock = (ROOT / "requirements" / f"spark{said.spark}.txt").read_text(encoding="utf-8")
    name = f"graveler-spark{said.spark}-py{said.python.replace('.', '')}-{said.architecture}"
    archive = OUT / f"{name}.tar.gz"
    with tempfile.TemporaryDirectory() as made:
        folder, requirements = Path(made, "packages"), Path(made, "requirements.txt")
        requirements.write_text(pinned(lock, needed(wanted())), encoding="utf-8")
        _install(folder, requirements, said.python, said.architecture)
        digest = packed(folder, archive)
    checksum = archive.with_name(f"{archive.name}.sha256")
    checksum.write_text(f"{digest}  {archive.name}\n", encoding="utf-8")
    size = archive.stat().st_size >> 20
    sys.stdout.write(f"wrote {archive.relative_to(ROOT)} ({size} MiB)\nsha256 {digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
