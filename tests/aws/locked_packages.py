"""Lets a process import only the packages of one lock, as in an environment made from it."""

import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

_MEASURES = "coverage"  # what `make coverage` puts into every process


def pins(lock: Path) -> dict[str, str]:
    """Packages and their versions."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", lock.read_text(encoding="utf-8"), re.M))


class _Locked(MetaPathFinder):
    def __init__(self, absent: frozenset[str]) -> None:
        self._absent = absent

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top in self._absent:
            raise ModuleNotFoundError(f"not in the lock: {top}", name=top)
        return None


def import_only(lock: Path) -> None:
    """From now on every other package is missing."""
    allowed = {*pins(lock), "graveler", _MEASURES}
    absent = {
        top
        for top, owners in packages_distributions().items()
        if not allowed & {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners}
    }
    sys.meta_path.insert(0, _Locked(frozenset(absent - {"tests"})))
