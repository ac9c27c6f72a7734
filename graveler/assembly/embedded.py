"""Opens the embedded store: everything in one folder, for one process at a time.

    <store>/kv        RocksDB: repositories, branches, staging, commits
    <store>/objects   local://name/…: objects, ranges, metaranges, and the journal of small objects
    <store>/key       32 secret bytes, mode 0600: all keys are derived from it; after a rotation
                      32 more: the secret before

Only the owner may enter the folder.  If the folder exists with wider modes, opening corrects them.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Final

from graveler.assembly import folder as folders
from graveler.assembly.drivers import Drivers, ThreadFanout, WriteThreads, ports_of
from graveler.assembly.rewriters import PROCESSES_MAX, RewriterProcesses, cores
from graveler.auth import secrets
from graveler.block.local import ImportRules, LocalBlocks, check_journal
from graveler.block.signature import Signer
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Corrupt
from graveler.engine.ports import Ports
from graveler.kv.rocksdb import RocksReader, RocksSettings, RocksStore

KEY_FILE = "key"
PRESIGNED_PURPOSE = "presigned requests"  # the purpose of the key that signs URLs
RECORD_CACHE_BYTES: Final = 64 << 20  # about 100,000 records


@dataclass(frozen=True, slots=True)
class Embedded:
    """An open embedded store.  All keys are derived from `secret`.  `before`: the secret before its
    last rotation; empty if it was never rotated.  `damages`: what is damaged of the files of a
    store that is open to be read; reads all of them."""

    ports: Ports
    signer: Signer
    secret: bytes = field(repr=False)
    before: bytes = field(repr=False)
    close: Callable[[], None]
    damages: Callable[[], Iterator[str]] = lambda: iter(())


def open_embedded(
    store: Path,
    *,
    import_roots: Sequence[Path] = (),
    base_url: str = "",
    commit_rows_max: float = inf,
    rocks: RocksSettings | None = None,
    synced: bool = True,
) -> Embedded:
    """Open the store in a folder, or create it.  The caller closes it.

    `commit_rows_max`: see `EngineSettings`; by default there is no limit.  Set one if a cluster
    makes larger commits.  `rocks`: the settings of the database.
    `synced`: false only for data that may be lost: no answer waits for a sync, and a loss of power
    may take anything that was acknowledged, or leave a store that cannot be opened.
    Errors: `Conflict` if another process has the store open, `Unavailable` or `StorageFull` if the
    folder cannot be written, `Corrupt` for damaged or lost files, `Invalid` for an import root
    that is not a folder, or if the folder of the store has other files and is no store.
    """
    clock, ids = SystemClock(), SystemIds()
    folder = folders.prepared(store)
    roots = [folders.import_root(root) for root in import_roots]
    settings = rocks or RocksSettings()
    if (folder / KEY_FILE).exists():  # what may be damaged comes before the database, which changes
        folders.read_key(folder / KEY_FILE)
    check_journal(folder / "objects")
    kv = RocksStore(str(folder / "kv"), replace(settings, synced=settings.synced and synced))
    try:
        folders.close_files(folder / "kv")  # RocksDB creates files with the modes of the umask
        secret, before = folders.key_in(folder / KEY_FILE, ids)
        earlier = secrets.derive(before, PRESIGNED_PURPOSE) if before else b""
        signer = Signer(secrets.derive(secret, PRESIGNED_PURPOSE), base_url, clock, earlier)
        rules = ImportRules(roots=roots, closed=(folder,))
        blocks = LocalBlocks(
            folder / "objects",
            clock=clock,
            ids=ids,
            signer=signer,
            imports=rules,
            journaled=True,
            synced=synced,
        )
        waiters = WriteThreads()
        rewriters, ranges = _ranges(blocks, folder, waiters, synced)
    except BaseException:
        kv.close()
        raise
    fanout = ThreadFanout()

    def close() -> None:
        fanout.close()
        rewriters.close()
        waiters.close()
        try:
            blocks.close()
        finally:
            kv.close()

    drivers = Drivers(kv, blocks, ranges, clock, ids, fanout, commit_rows_max=commit_rows_max)
    return Embedded(ports_of(drivers, secret, before), signer, secret, before, close)


def open_to_read(store: Path, *, import_roots: Sequence[Path] = ()) -> Embedded:
    """Open a store that exists, and change nothing in its folder, which may be read-only.  Every
    write fails, and what is signed is void.

    Errors: `Conflict` if another process has it open to write; `Corrupt` if files of its database
    or its journal are damaged; `Unavailable` if they cannot be read."""
    clock, ids = SystemClock(), SystemIds()
    folder = Path(os.path.abspath(store))
    folders.check_database(folder)
    kv = RocksReader(str(folder / "kv"))
    with ExitStack() as undone:
        undone.callback(kv.close)
        roots = [folders.import_root(root) for root in import_roots]
        blocks = LocalBlocks(
            folder / "objects",
            clock=clock,
            ids=ids,
            imports=ImportRules(roots=roots, closed=(folder,)),
            journaled=True,
            read_only=True,
        )
        undone.callback(blocks.close)
        ranges = SstRangeStore(
            StoredFiles(blocks), record_cache_bytes=RECORD_CACHE_BYTES, is_near=True
        )
        fanout = ThreadFanout()
        undone.callback(fanout.close)
        held = undone.pop_all()
    void = bytes(folders.KEY_LENGTH)
    ports = ports_of(Drivers(kv, blocks, ranges, clock, ids, fanout), void)

    def damages() -> Iterator[str]:
        try:
            folders.read_key(folder / KEY_FILE)
        except (OSError, Corrupt) as error:
            yield str(error)
        yield from kv.damages()

    return Embedded(ports, Signer(void, "", clock), void, b"", held.close, damages)


def _ranges(
    blocks: LocalBlocks, folder: Path, waiters: WriteThreads, synced: bool
) -> tuple[RewriterProcesses, SstRangeStore]:
    """The store of ranges, and the processes that rewrite them.  A link to the store that changes
    later changes nothing, as for `blocks`."""
    folder = Path(os.path.realpath(folder))
    processes = min(cores(), PROCESSES_MAX)
    rewriters = RewriterProcesses(
        folder / "objects", SystemClock(), synced=synced, processes=processes
    )
    files = StoredFiles(blocks)
    return rewriters, SstRangeStore(
        files,
        record_cache_bytes=RECORD_CACHE_BYTES,
        is_near=True,
        rewriters=rewriters,
        waiters=waiters,
    )


def rotate_key(store: Path) -> None:
    """Replace the secret of a store that the caller has open, who opens it again to use the new
    one.  What was made under the present one is accepted until the next rotation.  Atomic.  Raises
    `Unavailable`, `Corrupt`."""
    folders.rotate_key(Path(os.path.abspath(store)) / KEY_FILE, SystemIds())
