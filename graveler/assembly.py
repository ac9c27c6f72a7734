"""Putting the product together: which drivers stand behind the ports of a deployment.

    embedded store   <store>/kv        RocksDB: repositories, branches, staging, commits
                     <store>/objects   local://name/…: objects, ranges, metaranges
                     <store>/scratch   tables while they are being built
                     <store>/key       32 secret bytes, mode 0600: signs and seals
    memory           nothing is kept: for tests and for the model

One process opens an embedded store.  For the commands, the HTTP service and the tests.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from graveler.block.adapter import BlockStore
from graveler.block.local import ImportRules, LocalBlocks
from graveler.block.memory import MemoryBlocks
from graveler.block.signing import Signer
from graveler.clock import Clock, Ids, SystemClock, SystemIds
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import RangeStore
from graveler.engine.ports import EngineSettings, Fanout, Ports, Sequential
from graveler.errors import Corrupt, Invalid, StorageFull, Unavailable
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Store
from graveler.refs.cache import RefCache

A = TypeVar("A")
B = TypeVar("B")

KEY_LENGTH = 32
FANOUT_THREADS = 16


class ThreadFanout:
    """`Fanout` on a bounded pool of threads: writers that wait for the same sync share it."""

    def __init__(self, threads: int = FANOUT_THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="fanout")

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        futures = [self._pool.submit(function, item) for item in items]
        wait(futures)
        return [future.result() for future in futures]

    def close(self) -> None:
        """Let what runs end; take nothing more."""
        self._pool.shutdown(wait=True)


@dataclass(frozen=True, slots=True)
class Embedded:
    """An open embedded store.  `secret` is what keys are derived from."""

    ports: Ports
    signer: Signer
    secret: bytes
    close: Callable[[], None]


def open_embedded(
    store: Path, *, import_roots: Sequence[Path] = (), base_url: str = ""
) -> Embedded:
    """Open (or create) the store in a folder; the caller closes it.

    Errors: `Conflict` if another process has it, `Unavailable` or `StorageFull` if the folder cannot
    be written, `Corrupt` for a damaged key, `Invalid` for an import root that is not a folder.
    """
    # Imported here: tests and the model need neither RocksDB nor the table format.
    from graveler.committed.sstable import SstRangeStore
    from graveler.committed.tiers import StoredFiles
    from graveler.kv.rocksdb import RocksStore

    clock, ids = SystemClock(), SystemIds()
    folder = _prepared(store)
    roots = [_import_root(root) for root in import_roots]
    kv = RocksStore(str(folder / "kv"))
    try:
        secret = _secret(folder / "key", ids)
        signer = Signer(secret, base_url, clock)
        rules = ImportRules(roots=roots, closed=(folder,))
        blocks = LocalBlocks(folder / "objects", clock=clock, ids=ids, signer=signer, imports=rules)
        scratch = folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)  # a dead process's half-built tables
        scratch.mkdir(mode=0o700)
        ranges = SstRangeStore(StoredFiles(blocks, scratch))
    except BaseException:
        kv.close()
        raise
    fanout = ThreadFanout()

    def close() -> None:
        fanout.close()
        kv.close()

    drivers = Drivers(kv, blocks, ranges, clock, ids, fanout)
    return Embedded(_ports(drivers, secret), signer, secret, close)


@dataclass(frozen=True, slots=True)
class Drivers:
    """What stands behind the ports."""

    kv: Store
    blocks: BlockStore
    ranges: RangeStore
    clock: Clock
    ids: Ids
    fanout: Fanout


def _ports(drivers: Drivers, secret: bytes) -> Ports:
    return Ports(
        kv=drivers.kv,
        blocks=drivers.blocks,
        ranges=drivers.ranges,
        clock=drivers.clock,
        ids=drivers.ids,
        fanout=drivers.fanout,
        cache=RefCache(drivers.clock),
        settings=EngineSettings(signing_key=secret),
    )


def open_memory(clock: Clock | None = None, ids: Ids | None = None) -> Ports:
    """Ports on the memory drivers; namespaces are `mem://…`."""
    clock, ids = clock or SystemClock(), ids or SystemIds()
    blocks = MemoryBlocks(clock)
    drivers = Drivers(MemoryStore(), blocks, MemoryRangeStore(), clock, ids, Sequential())
    return _ports(drivers, bytes(KEY_LENGTH))


def _prepared(store: Path) -> Path:
    folder = Path(os.path.abspath(store))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise StorageFull(f"store folder has no room left: store={folder}") from error
        raise Unavailable(
            f"store folder cannot be written; make it writable or choose another: store={folder} "
            f"reason={error.strerror}"
        ) from error
    return folder


def _import_root(root: Path) -> Path:
    if not root.is_dir():
        raise Invalid(f"import root is not a folder: {root=}")
    return Path(os.path.realpath(root))


def _secret(path: Path, ids: Ids) -> bytes:
    """The store's secret; made on the first start, whole or not at all."""
    if not path.exists():
        fresh = path.with_name("key.new")
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(ids.stamp() + ids.stamp())
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        _sync_folder(path.parent)
    secret = path.read_bytes()
    if len(secret) != KEY_LENGTH:
        raise Corrupt(f"key file must have {KEY_LENGTH} bytes; restore it: path={path}")
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return secret


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
