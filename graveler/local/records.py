"""The database of a linked folder, outside of it: `$XDG_STATE_HOME/graveler/local/<hash>.db`.

    meta     the link as last written, the server, the commit of `base`, the operation
    base     the listing at that commit, which never changes: it saves listing it again
    known    checksums of files by fingerprint: they save reading files again
    action   the journal of the operation: what it writes and removes, in slots of the shelf
    place    where contents were stored that no commit has yet

Without the database nothing is lost but time, as long as no operation is interrupted.  Threads may
share it.  For this folder.
"""

import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from graveler import private_files
from graveler.clock import Clock
from graveler.errors import Contended, GravelerError, Unavailable
from graveler.local.compare import Digest
from graveler.local.entries import Entry, Fingerprint, Link, PlanStep, Posix, Prefix

Phase = Literal["receive", "place", "send", "stage", "back", "undone"]
_VERSION: Final = 1
_WAIT_SECONDS: Final = 5.0
_TORN: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# A file that was written again this soon after its checksum was computed may look the same.
_GRANULARITY_NS: Final = 10**9
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS base (path TEXT PRIMARY KEY, size INTEGER, mtime INTEGER, checksum TEXT,
    link TEXT, posix TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS known (path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER,
    inode INTEGER, ctime_ns INTEGER, checksum TEXT, at_ns INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS action (slot INTEGER PRIMARY KEY, path TEXT, entry TEXT, before TEXT);
CREATE TABLE IF NOT EXISTS place (path TEXT PRIMARY KEY, entry TEXT, address TEXT) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that has begun.  `old`: the link before; none of a clone."""

    name: str
    phase: Phase
    old: Link | None
    new: Link
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


class Records:
    """The database.  Every change is one transaction."""

    def __init__(self, file: Path, clock: Clock) -> None:
        """Opens or makes it.  A damaged one is renamed to `NAME.torn`.  Raises `Unavailable`, and
        `Contended` while another process holds it."""
        self._lock = threading.Lock()
        try:
            private_files.make_folder(file.parent)
            self._db = _open_sound(file)
        except sqlite3.Error as error:
            raise _failed(error, f"{file}: ") from error
        except OSError as error:
            raise Unavailable(f"state cannot be kept: {file}: {error.strerror}") from error
        self.cache: Final = Cache(self._db, self._lock, clock)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    # ---- the operation ---------------------------------------------------------------------------

    def operation(self) -> Operation | None:
        """The operation that has begun and not ended."""
        text = self.note("operation")
        if not text:
            return None
        values = json.loads(text)
        values["old"] = _link(values["old"]) if values["old"] else None
        return Operation(**{**values, "new": _link(values["new"])})

    def begin(self, operation: Operation, steps: Iterable[PlanStep]) -> None:
        """Record an operation and its journal, durably."""
        rows = [
            (slot, path, json.dumps(entry), json.dumps(before))
            for slot, path, entry, before in steps
        ]
        with self._change(durable=True) as db:
            db.execute("DELETE FROM action")
            db.executemany("INSERT INTO action VALUES (?, ?, ?, ?)", rows)
            _set(db, "operation", json.dumps(asdict(operation)))

    def enter(self, operation: Operation, phase: Phase) -> Operation:
        """Record the next phase of the operation, durably."""
        operation = replace(operation, phase=phase)
        with self._change(durable=True) as db:
            _set(db, "operation", json.dumps(asdict(operation)))
        return operation

    def steps(self) -> list[PlanStep]:
        """The journal."""
        with self._lock:
            rows = self._db.execute("SELECT * FROM action ORDER BY slot").fetchall()
        return [
            PlanStep(slot, path, _entry(json.loads(entry)), _fingerprint(json.loads(before)))
            for slot, path, entry, before in rows
        ]

    def finish(self, base: tuple[Link, Mapping[str, Entry]] | None = None) -> None:
        """End the operation.  `base`: the listing at the commit that the folder has now."""
        with self._change(durable=True) as db:
            for table in ("action", "place"):
                db.execute(f"DELETE FROM {table}")
            db.execute("DELETE FROM meta WHERE name = 'operation'")
            if base is not None:
                _set_base(db, *base)

    def last_link(self) -> Link | None:
        """The link as it was last written."""
        text = self.note("link")
        return _link(json.loads(text)) if text else None

    def keep_link(self, link: Link) -> None:
        """Keep a copy of the link."""
        self.note("link", json.dumps(asdict(link)))

    # ---- what is known ---------------------------------------------------------------------------

    def note(self, name: str, value: str | None = None) -> str:
        """A value by name, or an empty text.  `value`: set it."""
        if value is not None:
            with self._change() as db:
                _set(db, name, value)
            return value
        with self._lock:
            row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def places(self) -> dict[str, tuple[Entry, Mapping[str, Any]]]:
        """What was stored and is in no commit yet, by path."""
        with self._lock:
            rows = self._db.execute("SELECT path, entry, address FROM place").fetchall()
        entries = (
            (path, _entry(json.loads(entry)), json.loads(place)) for path, entry, place in rows
        )
        return {path: (entry, place) for path, entry, place in entries if entry is not None}

    def keep_place(self, path: str, entry: Entry, place: Mapping[str, Any]) -> None:
        """Keep where a content was stored."""
        row = (path, json.dumps(entry), json.dumps(place))
        with self._change() as db:
            db.execute("INSERT OR REPLACE INTO place VALUES (?, ?, ?)", row)

    def _change(self, *, durable: bool = False) -> "_Change":
        return _Change(self._db, self._lock, durable=durable)


class Cache:
    """What can be found again: listings by asking, checksums by reading."""

    def __init__(self, db: sqlite3.Connection, lock: threading.Lock, clock: Clock) -> None:
        self._db, self._lock, self._clock = db, lock, clock

    def base(self, link: Link) -> dict[str, Entry] | None:
        """The listing at the commit of the link; none if another one, or none, is here."""
        with self._lock:
            row = self._db.execute("SELECT value FROM meta WHERE name = 'base'").fetchone()
            if row is None or row[0] != _base_name(link):
                return None
            rows = self._db.execute("SELECT path, size, mtime, checksum, link, posix FROM base")
            return {
                row[0]: Entry(row[1], row[2], row[3], row[4], _posix(row[5]) if row[5] else None)
                for row in rows
            }

    def keep_base(self, link: Link, entries: Mapping[str, Entry]) -> None:
        """Keep the listing at the commit of the link."""
        with self._change() as db:
            _set_base(db, link, entries)

    def known(self) -> dict[str, Digest]:
        """Checksums by path."""
        with self._lock:
            rows = self._db.execute(
                "SELECT path, size, mtime_ns, inode, ctime_ns, checksum FROM known"
                f" WHERE ctime_ns + {_GRANULARITY_NS} < at_ns"
            )
            return {row[0]: Digest(Fingerprint(*row[1:5]), row[5]) for row in rows}

    def learn(self, known: Mapping[str, Digest]) -> None:
        """Keep checksums."""
        now_ns = self._clock.now_ns()
        rows = ((path, *each.fingerprint, each.checksum, now_ns) for path, each in known.items())
        with self._change() as db:
            db.executemany("INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def _change(self) -> "_Change":
        return _Change(self._db, self._lock, durable=False)


class _Change:
    """A transaction."""

    def __init__(self, db: sqlite3.Connection, lock: threading.Lock, *, durable: bool) -> None:
        self._db, self._lock, self._durable = db, lock, durable

    def __enter__(self) -> sqlite3.Connection:
        self._lock.acquire()
        try:
            self._db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._lock.release()
            raise _failed(error) from error
        except BaseException:
            self._lock.release()
            raise
        return self._db

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> None:
        try:
            if kind is None:
                self._db.execute("COMMIT")
        except sqlite3.Error as failure:
            error = failure
        finally:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            self._lock.release()
        if isinstance(error, sqlite3.Error):
            raise _failed(error) from error


def _open_sound(file: Path) -> sqlite3.Connection:
    try:
        return _open(file)
    except sqlite3.Error as error:
        if _kind(error) not in _TORN:  # a lock, or a full disk: the journal is sound
            raise
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            file.with_name(file.name + end).replace(file.with_name(f"{file.name}.torn{end}"))
    file.with_name(f"{file.name}-shm").unlink(missing_ok=True)
    return _open(file)


def _open(file: Path) -> sqlite3.Connection:
    db = sqlite3.connect(file, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise Unavailable(f"state was written by another version: {file}: version={version}")
        db.executescript(_SCHEMA)
        if version != _VERSION:
            db.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        with suppress(sqlite3.Error):
            db.close()
        raise
    return db


def _kind(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _failed(error: sqlite3.Error, place: str = "") -> GravelerError:
    if _kind(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Contended(f"the state of the folder is in use: {place}{error}")
    return Unavailable(f"the state of the folder cannot be kept: {place}{error}")


def _set(db: sqlite3.Connection, name: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def _set_base(db: sqlite3.Connection, link: Link, entries: Mapping[str, Entry]) -> None:
    rows = (
        (path, *entry[:4], json.dumps(entry.posix) if entry.posix else "")
        for path, entry in entries.items()
    )
    db.execute("DELETE FROM base")
    db.executemany("INSERT INTO base VALUES (?, ?, ?, ?, ?, ?)", rows)
    _set(db, "base", _base_name(link))


def _base_name(link: Link) -> str:
    return f"{link.source.repository}/{link.head}/{link.source.path}"


def _link(values: Any) -> Link:
    return Link(Prefix(*values["source"]), values["head"], values["operation"])


def _entry(values: Any) -> Entry | None:
    if values is None:
        return None
    size, mtime, checksum, link, posix = values
    return Entry(size, mtime, checksum, link, Posix(*posix) if posix else None)


def _posix(text: str) -> Posix:
    return Posix(*json.loads(text))


def _fingerprint(values: Any) -> Fingerprint | None:
    return None if values is None else Fingerprint(*values)
