"""The production code and the simulator as machine code: `python -m simulator.machine_code FOLDER`.

Both packages are copied to FOLDER, and mypyc compiles the modules below there from the same
sources.  With FOLDER first in PYTHONPATH, `simulator.rates` runs the compiled code; a long soak
makes such a folder for its schedules.  The same seed gives the same run, so the tests replay from
the sources what a compiled run finds.  The build takes minutes and needs a C compiler.  For tests
only: the product is never compiled.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

from graveler.engine.commits import commit
from graveler.records import ABSENT, Absent

_ROOT = Path(__file__).parent.parent
_PACKAGES = ("graveler", "simulator")
# One C file for each module: compilers need many times as long for a single file.
_SETUP = """\
from mypyc.build import mypycify
from setuptools import setup

compiled = mypycify({names}, opt_level="2", debug_level="0", multi_file=True)
setup(name="compiled", ext_modules=compiled)
"""
_COMPILED = (
    "graveler/engine/**/*.py",
    "graveler/events/*.py",
    "graveler/staging/*.py",
    "graveler/refs/**/*.py",
    "graveler/fanout.py",
    "graveler/identity.py",
    "graveler/ids.py",
    "graveler/lanes.py",
    "graveler/streams.py",
    "graveler/wire.py",
    "graveler/clock.py",
    "graveler/framing.py",
    "graveler/records.py",
    "graveler/requests.py",
    "graveler/block/address.py",
    "graveler/kv/replace.py",
    "graveler/kv/retry.py",
    "graveler/kv/store.py",
    "graveler/committed/apply.py",
    "graveler/committed/hash.py",
    "graveler/committed/memory.py",
    "graveler/committed/reader.py",
    "graveler/committed/ranges.py",
    "graveler/committed/diff.py",
    "graveler/committed/merge.py",
    "graveler/committed/splice.py",
    "graveler/committed/split.py",
    "graveler/committed/writer.py",
    "simulator/arrivals.py",
    "simulator/blocks.py",
    "simulator/families.py",
    "simulator/gc/*.py",
    "simulator/histories.py",
    "simulator/invariants.py",
    "simulator/lanes.py",
    "simulator/legality.py",
    "simulator/ports.py",
    "simulator/ranges.py",
    "simulator/registers.py",
    "simulator/schedule.py",
    "simulator/stage.py",
    "simulator/uploads.py",
    "simulator/verbs/*.py",
)
# Simulated clients replace this cache with their own class, which does not inherit from it.
_INTERPRETED = ("graveler/refs/cache.py",)
_SHOWN_LINES = 12  # of the compiler's log


class Refused(Exception):
    """The sources cannot be compiled; the message is the end of the compiler's log."""


def modules(root: Path, patterns: Sequence[str] = _COMPILED) -> list[Path]:
    """The files to compile, of the packages in the folder `root`."""
    left = {root / name for name in _INTERPRETED}
    return sorted({file for each in patterns for file in root.glob(each)} - left)


def is_running() -> bool:
    """Whether this process runs compiled code."""
    return not str(commit.__file__).endswith(".py")


def build(
    folder: Path,
    seconds: float = 3_600.0,
    stop: Callable[[], bool] = lambda: False,
    patterns: Sequence[str] = _COMPILED,
) -> None:
    """Copy the packages and compile the files of these patterns, until `stop` returns true.

    Raises `FileExistsError` if the folder exists, `TimeoutExpired` when the time is over, and
    `CalledProcessError` if the compiler fails or was stopped; the folder's `log` says why.
    """
    folder.mkdir(parents=True)
    for package in _PACKAGES:
        left_out = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(_ROOT / package, folder / package, ignore=left_out)
    shutil.copy(_ROOT / "pyproject.toml", folder)
    names = [str(file.relative_to(folder)) for file in modules(folder, patterns)]
    (folder / "setup.py").write_text(_SETUP.format(names=names), encoding="utf-8")
    # The compiler runs on a leash: it ends when this process ends, in any way.
    leash = [sys.executable, "-m", "simulator.soak.leash"]
    command = [*leash, sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    until = time.monotonic() + seconds
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
        ) as compiler,
    ):
        while compiler.poll() is None and time.monotonic() < until and not stop():
            time.sleep(0.2)
        is_late = compiler.poll() is None and not stop()
        # Leaving the block closes the compiler's stdin, and waits for it.
    if is_late:
        raise subprocess.TimeoutExpired(command, seconds)
    if compiler.returncode:
        raise subprocess.CalledProcessError(compiler.returncode, command)
    shutil.rmtree(folder / "build")


def kept(
    parent: Path, seconds: float, stop: Callable[[], bool], patterns: Sequence[str] = _COMPILED
) -> Path | Literal[Absent.ABSENT]:
    """The folder below `parent` with the code compiled from these sources.

    It is built within `seconds` unless it exists.  Folders of other sources are removed.  Returns
    ABSENT if there is no compiler, if the time is over, or if `stop` returned true.  Raises
    `Refused` if the sources cannot be compiled.
    """
    if shutil.which(str(sysconfig.get_config_var("CC") or "cc").split()[0]) is None:
        return ABSENT
    folder = place(parent, patterns)
    if not folder.is_dir():
        shutil.rmtree(parent, ignore_errors=True)
        half = parent / "half"
        try:
            build(half, seconds, stop, patterns)
        except subprocess.CalledProcessError as error:
            if not stop():
                log = (half / "log").read_text(errors="replace")
                raise Refused("\n".join(log.splitlines()[-_SHOWN_LINES:])) from error
            return ABSENT
        except (subprocess.SubprocessError, OSError):
            return ABSENT
        half.rename(folder)
    return folder


def place(parent: Path, patterns: Sequence[str] = _COMPILED) -> Path:
    """The folder below `parent` for the code compiled from these sources."""
    digest = sha256(f"{sys.version}\0{patterns}\0".encode())
    for file in sorted(file for package in _PACKAGES for file in (_ROOT / package).rglob("*.py")):
        digest.update(f"{file.relative_to(_ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return parent / digest.hexdigest()[:20]


def does_the_same(folder: Path, seconds: float = 600) -> bool:
    """Whether the package in the folder runs some seeds of every cell step by step like these
    sources."""
    theirs = _fingerprint(folder.absolute(), seconds)
    return bool(theirs) and theirs == _fingerprint(_ROOT, seconds)


def _fingerprint(root: Path, seconds: float) -> bytes:
    """What the packages in the folder do; nothing if they cannot be run."""
    run = subprocess.run(
        [sys.executable, "-m", "simulator.rates", "--fingerprint", "--seeds", "2"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        timeout=seconds,
        check=False,
    )
    return b"" if run.returncode else run.stdout


@contextlib.contextmanager
def imported_from(folder: Path | Literal[Absent.ABSENT]) -> Iterator[None]:
    """Inside the block, spawned processes import the packages from the folder, if there is one."""
    if folder is ABSENT:
        yield
        return
    sys.path.insert(0, str(folder.absolute()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.absolute()))


def main() -> None:
    """Build into the given folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="is made")
    build(parser.parse_args().folder)


if __name__ == "__main__":
    main()
