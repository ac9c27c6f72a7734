"""Stores are opened by name, and drivers are loaded when asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from graveler.errors import Invalid, Unsupported
from graveler.kv.memory import MemoryStore
from graveler.kv.registry import open_store
from graveler.kv.rocksdb import RocksStore
from graveler.kv.store import Row


def test_names_open_their_drivers(tmp_path: Path) -> None:
    memory = open_store("memory:")
    assert isinstance(memory, MemoryStore)
    memory.close()
    embedded = open_store(f"rocksdb:{tmp_path / 'a:b'}")
    assert isinstance(embedded, RocksStore)
    embedded.set(b"p", b"k", b"v", b"1")
    embedded.close()
    assert (tmp_path / "a:b").is_dir()
    again = open_store(f"rocksdb:{tmp_path / 'a:b'}")
    assert again.get(b"p", b"k") == Row(b"v", b"1")
    again.close()


@pytest.mark.parametrize("uri", ["", "memory", "rocksdb", "rocksdb:", "memory:x", "redis:x", ":x"])
def test_other_names_are_refused_with_the_reason(uri: str) -> None:
    with pytest.raises(Invalid, match="kv uri"):
        open_store(uri)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    for module in ("rocksdb", "database"):
        monkeypatch.delitem(sys.modules, f"graveler.kv.{module}", raising=False)
    with pytest.raises(Unsupported, match="rocksdict"):
        open_store(f"rocksdb:{tmp_path}")


def test_the_registry_loads_no_driver() -> None:
    script = (
        "import sys, graveler.kv.registry as r; r.open_store('memory:');"
        "sys.exit('rocksdict' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
