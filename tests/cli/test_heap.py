"""The memory of the C library: one heap, however many threads serve, and large blocks apart."""

import ctypes
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graveler.cli.support import host
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


# Tells whether a block of 1 MiB, and one of 256 KiB, lie outside the heap, after larger ones were
# freed.
APART = """
import ctypes
from graveler.cli.support import host
system = ctypes.CDLL(None)
system.malloc.restype = ctypes.c_void_p
system.free.argtypes = [ctypes.c_void_p]
host.share_heap()
for length in (1 << 20, 2 << 20, 4 << 20):
    system.free(system.malloc(length))
start, end = next(
    (int(part, 16) for part in line.split()[0].split("-"))
    for line in open("/proc/self/maps") if "[heap]" in line
)
for length in (1 << 20, 256 << 10):
    block = system.malloc(length)
    end = next(
        int(line.split()[0].split("-")[1], 16)
        for line in open("/proc/self/maps") if "[heap]" in line
    )
    print(not start <= block < end)
"""
_GLIBC = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc"
)


@_GLIBC
def test_threads_of_a_service_share_one_heap(tmp_path: Path) -> None:
    with serving(tmp_path / "store", prelude=TELLING) as service:
        with service.client() as client, ThreadPoolExecutor(UPLOADS) as together:
            where = f"{repository(client)}/objects"

            def upload(number: int) -> int:
                return client.post(where, params={"path": f"{number}"}, content=b"x").status_code

            assert set(together.map(upload, range(UPLOADS))) == {201}
        code, _, err = service.end()
    assert (code, err) == (0, "heaps: 1")


@_GLIBC
def test_a_large_block_is_apart_also_after_one_was_freed() -> None:
    """Else the library takes later ones from the heap, where each leaves a hole."""
    ended = subprocess.run(
        [sys.executable, "-c", APART], capture_output=True, text=True, timeout=300, check=True
    )
    assert ended.stdout.split() == ["True", "False"]


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """None of the variables of the C library is set."""
    for name in ("ARENA_MAX", "MMAP_THRESHOLD_", "TRIM_THRESHOLD_"):
        monkeypatch.delenv(f"MALLOC_{name}", raising=False)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    return monkeypatch


class _System:
    """A C library that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []

    def mallopt(self, name: int, value: int) -> None:
        self.told.append((name, value))


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, {-8, -3, -1}),
        ({"MALLOC_ARENA_MAX": "4"}, {-3, -1}),
        ({"MALLOC_MMAP_THRESHOLD_": "4"}, {-8, -1}),
        ({"MALLOC_TRIM_THRESHOLD_": "4"}, {-8, -3}),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4:glibc.malloc.trim_threshold=9"}, {-3}),
    ],
)
def test_the_numbers_of_the_environment_stay(
    variables: dict[str, str], told: set[int], no_variables: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        no_variables.setenv(name, value)
    system = _System()
    no_variables.setattr(ctypes, "CDLL", lambda _name: system)
    host.share_heap()
    assert {name for name, _ in system.told} == told


def test_a_library_without_heaps_fails_nothing(no_variables: pytest.MonkeyPatch) -> None:
    for library in (lambda _name: object(), _failing):
        no_variables.setattr(ctypes, "CDLL", library)
        host.share_heap()


def _failing(_name: object) -> object:
    raise OSError("a Python that is linked statically")
