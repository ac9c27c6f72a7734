"""The flows and the simulator as machine code: `python -m graveler.testing.compiled FOLDER`.

The package is copied to FOLDER, and the modules below are compiled there by mypyc, out of the very
same sources; with FOLDER first in PYTHONPATH, a soak or `graveler.testing.simulator` runs them.
Same seed, same run: what a compiled run finds, the tests replay from the sources.  Takes minutes
and needs a C compiler.  For tests only: the product is never compiled.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_COMPILED = (
    "engine/*.py",
    "staging/*.py",
    "refs/*.py",
    "identity.py",
    "ids.py",
    "streams.py",
    "wire.py",
    "clock.py",
    "framing.py",
    "records.py",
    "kv/retrying.py",
    "kv/store.py",
    "committed/apply.py",
    "committed/hashing.py",
    "committed/reader.py",
    "committed/ranges.py",
    "committed/diff.py",
    "committed/merge.py",
    "committed/splicing.py",
    "committed/splitting.py",
    "testing/schedule.py",
    "testing/simulated.py",
    "testing/histories.py",
    "testing/legality.py",
    "testing/invariants.py",
    "testing/families.py",
    "testing/sim_*_verbs.py",
    "testing/sim_verbs.py",
    "testing/stage.py",
    "testing/remembered.py",
)
# Clients have a cache of their own in its place, which is none by inheritance.
_INTERPRETED = ("refs/cache.py",)


def modules(package: Path) -> list[Path]:
    """The files that are compiled, of a package at that path."""
    left = {package / name for name in _INTERPRETED}
    return sorted({file for each in _COMPILED for file in package.glob(each)} - left)


def build(folder: Path) -> None:
    """Copy and compile.  Raises `FileExistsError` for a folder that is there already and
    `CalledProcessError` if the compiler fails."""
    copy = folder / "graveler"
    folder.mkdir(parents=True)
    shutil.copytree(_PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(_PACKAGE.parent / "pyproject.toml", folder)
    names = [str(file.relative_to(folder)) for file in modules(copy)]
    mypyc = str(Path(sys.executable).parent / "mypyc")
    subprocess.run([mypyc, *names], cwd=folder, check=True)


def main() -> None:
    """Build into the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="is made")
    build(parser.parse_args().folder)


if __name__ == "__main__":
    main()
