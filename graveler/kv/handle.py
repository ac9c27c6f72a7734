"""Opens RocksDB: its options, and its failures as errors of the project."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
)

from graveler.core.errors import Corrupt, GravelerError, StorageFull, Unavailable
from graveler.kv import files, folder

_MEMORY: Final = "/dev/shm"
_LINKS_BYTES: Final = 1024 * 1024  # of a folder of links, and what RocksDB writes beside them
_NO_ROOM: Final = ("No space left", "File too large", "Disk quota exceeded")
_DAMAGE: Final = ("Corruption", "No such file")
_CONFIG: Final = "rocksdict-config.json"  # which the binding writes, also for a database to read
# Buffers of RocksDB come and go between small blocks that stay, and each leaves a hole in the heap.
# So they are large enough to be mapped apart (cli/support/host.py), or as small as many others.
_MEMORY_BLOCK_BYTES: Final = 1024 * 1024
_FILE_BUFFER_BYTES: Final = 64 * 1024
_REMOVED: Final = (1_000, 500, 0.5)  # a window of rows, removed ones in it; their share of a file
_LEVEL_ZERO_FILES: Final = 4  # that RocksDB merges at a time


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """The memory and files that the database may use, and the pause before it reopens files that
    failed.  The defaults need at most about 64 MB of memory.

    `synced`: if false, no answer waits for a sync: a loss of power may take any row, the end of a
    process takes none."""

    write_buffer_bytes: int = 16 * 1024 * 1024
    write_buffer_count: int = 3
    block_cache_bytes: int = 16 * 1024 * 1024
    open_files_max: int = 128
    reopen_seconds: float = 1.0
    synced: bool = True


class Handle:
    """An open database.  `links`: to files that are open for reads only, because of `failure`."""

    def __init__(self, rows: Rdict, failure: StorageFull | None = None) -> None:
        self.rows = rows
        self.failure = failure
        self.links = ExitStack()


def open_or_read(path: str, settings: RocksSettings) -> Handle:
    """As `open_to_write`, and signs the folder.  Without room, a database that exists is opened for
    reads only."""
    try:
        rows = open_to_write(path, settings)
    except StorageFull as error:
        if not files.holds_database(path):
            raise
        with ExitStack() as undone:
            at = undone.enter_context(links(path, with_logs=True))
            opened = Handle(open_to_read(path, at, settings), error)
            opened.links = undone.pop_all()
            return opened
    folder.sign(path)
    return Handle(rows)


def open_to_write(path: str, settings: RocksSettings) -> Rdict:
    """The database in a folder; a new one if the folder has none.  Raises `Corrupt` if files are
    lost or damaged, and then changes nothing; `StorageFull`, `Unavailable`."""
    options = _options(settings)
    is_new = not files.holds_database(path)
    options.create_if_missing(is_new)
    if not is_new:
        files.check(path)
        # RocksDB changes files before it finds that a table is lost, unless it only reads.
        with links(path, with_logs=False) as at:
            open_to_read(path, at, settings).close()
    try:
        return _opened(path, options, AccessType.read_write())
    except Exception as error:
        raise translated(error, "open", path, path) from error


def open_to_read(path: str, at: str, settings: RocksSettings) -> Rdict:
    """The database in the folder `path`, by the links in the folder `at`.  Raises `Corrupt`,
    `Unavailable`."""
    options = _options(settings)
    options.create_if_missing(False)
    try:
        return _opened(at, options, AccessType.read_only(False))
    except Exception as error:
        raise translated(error, "open", path, at) from error


def _opened(at: str, options: Options, access: AccessType) -> Rdict:
    """Without columns, the binding would take their options from a file of the folder."""
    return Rdict(at, options, {"default": options}, access)


@contextmanager
def links(path: str, *, with_logs: bool) -> Iterator[str]:
    """A temporary folder with links to the files of a database: RocksDB and its binding write files
    beside those that they only read.  `with_logs`: with the logs of rows."""
    with tempfile.TemporaryDirectory(dir=_roomy()) as at:
        for name in os.listdir(path):
            is_left_out = name == _CONFIG or name.startswith("LOG")
            if not is_left_out and (with_logs or not name.endswith(".log")):
                os.symlink(os.path.join(path, name), os.path.join(at, name))
        yield at


def _roomy() -> str | None:
    """Where a temporary folder has room; None: in the usual place."""
    usual = shutil.disk_usage(tempfile.gettempdir())
    is_full = usual.free < _LINKS_BYTES and os.path.isdir(_MEMORY)
    return _MEMORY if is_full else None


def try_room(path: str, settings: RocksSettings) -> None:
    """Raises `StorageFull`, `Unavailable` if there is no room to open the database anew."""
    try:
        folder.try_room(path, settings.write_buffer_count * settings.write_buffer_bytes)
    except GravelerError as error:
        raise translated(error.__cause__ or error, "write", path, path) from error


def is_damage(error: object) -> bool:
    """Whether a failure of RocksDB says that a file is lost or damaged."""
    return any(words in str(error) for words in _DAMAGE)


def translated(error: object, tried: str, path: str, at: str) -> GravelerError:
    """The project's error for a failure of RocksDB.  The text of the failure is all that RocksDB
    gives to recognise it.  Callers of the service get the error, so it does not name the folder
    `path`, nor the folder `at` through which the files were opened."""
    if isinstance(error, GravelerError):
        return error
    text = str(error)
    if any(words in text for words in _NO_ROOM):
        return StorageFull(f"{tried} kv row: no room is left")
    text = text.replace(at, "kv").replace(path, "kv")
    if is_damage(error):
        return Corrupt(
            f"{tried} kv row: files are damaged: said={text!r}; stop the service "
            f"and restore the store from a back-up ({files.BACK_UP})"
        )
    return Unavailable(f"{tried} kv row: no answer: said={text!r}")


def _options(settings: RocksSettings) -> Options:
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(settings.block_cache_bytes))
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
    tables.set_bloom_filter(10, False)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(tables)
    options.set_compression_type(DBCompressionType.lz4())
    # A file full of removed rows is merged soon: until then each scan steps over them.
    options.add_compact_on_deletion_collector_factory(*_REMOVED)
    options.set_write_buffer_size(settings.write_buffer_bytes)
    options.set_max_write_buffer_number(settings.write_buffer_count)
    # As large as what is merged into it, so that the work of a merge does not grow with the rows.
    options.set_max_bytes_for_level_base(_LEVEL_ZERO_FILES * settings.write_buffer_bytes)
    options.set_target_file_size_base(settings.write_buffer_bytes)
    options.set_arena_block_size(_MEMORY_BLOCK_BYTES)
    options.set_writable_file_max_buffer_size(_FILE_BUFFER_BYTES)
    options.set_max_open_files(settings.open_files_max)
    options.set_table_cache_num_shard_bits(0)  # each of 64 shards would keep one table at least
    # a put that RocksDB delays holds the interpreter's lock: so delay puts as late as possible
    options.set_level_zero_file_num_compaction_trigger(_LEVEL_ZERO_FILES)
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(60)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1024 * 1024)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options
