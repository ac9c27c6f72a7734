"""Archives that a process was started with are read once."""

import importlib
import sys
import zipfile
from pathlib import Path

import pytest

from graveler.spark.workers import settle, settle_archives


def archive(path: Path, *modules: str) -> str:
    with zipfile.ZipFile(path, "w") as file:
        for name in modules:
            file.writestr(name, "")
    return str(path)


def test_only_what_is_named_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = archive(tmp_path / "first.zip", "settled/__init__.py", "settled/a.py")
    other = archive(tmp_path / "other.zip", "changing/__init__.py", "changing/a.py")
    monkeypatch.setattr(sys, "path", [*sys.path, first, other])
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    for name in ("settled.a", "changing.a"):
        importlib.import_module(name)
    settle_archives([first, str(tmp_path), str(tmp_path / "none.zip")])
    settle_archives([first])
    archive(tmp_path / "first.zip", "settled/__init__.py", "settled/b.py")
    archive(tmp_path / "other.zip", "changing/__init__.py", "changing/b.py")
    importlib.invalidate_caches()
    importlib.import_module("changing.b")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("settled.b")


def test_a_process_without_tasks_stays_as_it_is() -> None:
    known = dict(sys.path_importer_cache)
    settle()
    assert dict(sys.path_importer_cache) == known
