"""The memory of the C library: one heap, however many threads serve."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graveler.cli import heap
from tests.cli.service import repository, serving

# Tells on stderr at the end how many heaps the process has.
TELLING = """
import atexit, ctypes, sys
def tell():
    system = ctypes.CDLL(None)
    system.open_memstream.restype = ctypes.c_void_p
    text, length = ctypes.c_char_p(), ctypes.c_size_t()
    stream = ctypes.c_void_p(system.open_memstream(ctypes.byref(text), ctypes.byref(length)))
    system.malloc_info(0, stream)
    system.fclose(stream)
    sys.stderr.write(f"heaps: {text.value.count(b'<heap ')}")
atexit.register(tell)
"""
UPLOADS = 32


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc"
)
def test_threads_of_a_service_share_one_heap(tmp_path: Path) -> None:
    with serving(tmp_path / "store", prelude=TELLING) as service:
        with service.client() as client, ThreadPoolExecutor(UPLOADS) as together:
            where = f"{repository(client)}/objects"

            def upload(number: int) -> int:
                return client.post(where, params={"path": f"{number}"}, content=b"x").status_code

            assert set(together.map(upload, range(UPLOADS))) == {201}
        code, _, err = service.end()
    assert (code, err) == (0, "heaps: 1")


class _System:
    """A C library that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []

    def mallopt(self, name: int, value: int) -> None:
        self.told.append((name, value))


@pytest.mark.parametrize(("variables", "told"), [({}, 1), ({"MALLOC_ARENA_MAX": "4"}, 0)])
def test_the_number_of_the_environment_stays(
    variables: dict[str, str], told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    system = _System()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: system)
    heap.share()
    assert len(system.told) == told


def test_a_library_without_heaps_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    for library in (lambda _name: object(), _failing):
        monkeypatch.setattr(ctypes, "CDLL", library)
        heap.share()


def _failing(_name: object) -> object:
    raise OSError("a Python that is linked statically")
