"""What is compared and known of a linked folder, and kept in `$XDG_STATE_HOME/graveler/local`.

    ID.journal   the operation: what it writes and removes, in slots of the shelf; its phase; where
                 contents were stored that no commit has yet
    ID.json      notes: the link as last written, the server, what was ignored
    ID.base      the listing at a commit, which never changes: it saves listing it again
    ID.known     checksums of files by fingerprint: they save reading files again

Without these files nothing is lost but time, as long as no operation is interrupted.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from graveler.core.clock import Clock
from graveler.core.errors import Unavailable
from graveler.core.private_files import make_folder
from graveler.core.private_files import replace as replace_file
from graveler.lake.transfers.journal import Journal
from graveler.lake.transfers.link import Link, Prefix

Kind = Literal["added", "changed", "removed"]
EMPTY_MD5: Final = "d41d8cd98f00b204e9800998ecf8427e"  # of no bytes
_MD5: Final = re.compile(r"[0-9a-f]{32}")
Phase = Literal["receive", "place", "send", "stage", "back", "undone"]
# A file that was written again this soon after its checksum was computed may look the same.
_GRANULARITY_NS: Final = 10**9


# ---- what is compared ----------------------------------------------------------------------------
# Paths are relative to the prefix and the folder, and separated by slashes.


class Posix(NamedTuple):
    """Mode and owner of a file, as `stat` has them."""

    mode: int
    uid: int
    gid: int


class Entry(NamedTuple):
    """A path of a branch.  `mtime`: in seconds, that of the file it came from.  `link`: where a
    symbolic link leads.  `posix`: if it was tracked."""

    size: int
    mtime: int
    checksum: str
    link: str = ""
    posix: Posix | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """How to treat what is no regular file, and whether modes and owners are tracked.  The same
    settings as those of lakectl.  `owners`: of tracked files; only root can give files away."""

    skip_special: bool = False
    symlinks: bool = False
    posix: bool = False
    owners: bool = False

    def same_posix(self, one: Posix | None, other: Posix | None) -> bool:
        """Whether two files have the same mode and owner, as far as they are tracked."""
        if not self.posix or one == other:
            return True
        if one is None or other is None:
            return False
        return one.mode == other.mode and not self.owners

    def same(self, one: Entry, other: Entry) -> bool:
        """Whether two entries are the same file, whenever it was written."""
        if (one.size, one.link) != (other.size, other.link):
            return False
        if not one.link and one.checksum != other.checksum:
            return False
        return self.same_posix(one.posix, other.posix)


class Fingerprint(NamedTuple):
    """What a file system says about the content of a file without reading it."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int

    def moved(self, other: "Fingerprint") -> bool:
        """Whether the other is the same file, perhaps by another name."""
        return self[:3] == other[:3]


class Digest(NamedTuple):
    """The MD5 of a file that had this fingerprint."""

    fingerprint: Fingerprint
    checksum: str


class File(NamedTuple):
    """A file, symbolic link or folder (`path/`) on the disk."""

    path: str
    fingerprint: Fingerprint
    link: str = ""
    posix: Posix | None = None

    @property
    def mtime(self) -> int:
        """In seconds."""
        return self.fingerprint.mtime_ns // 10**9


class Change(NamedTuple):
    """A path that differs.  `entry`: as it is now, none if it was removed.  `file`: on the disk."""

    kind: Kind
    path: str
    entry: Entry | None = None
    file: File | None = None


class PlanStep(NamedTuple):
    """One step of the plan of an operation: write `entry`, or remove the path.  `before`: the file
    there when the plan was made."""

    slot: int
    path: str
    entry: Entry | None
    before: Fingerprint | None


def is_md5(checksum: str) -> bool:
    """Whether a checksum is that of the whole content."""
    return bool(_MD5.fullmatch(checksum))


# ---- what is kept --------------------------------------------------------------------------------


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
    """The files of one folder.  Threads may share it."""

    def __init__(self, file: Path, clock: Clock, busy: str = "", *, reads_only: bool = False):
        """`file`: their names but for the ends.  Raises `Unavailable`, and `Contended` with the
        text `busy` while another command has the journal; not with `reads_only`."""
        self._file, self._clock = file, clock
        self._known: dict[str, Any] | None = None
        self._journal = Journal(file.with_suffix(".journal"), busy, reads_only=reads_only)

    def close(self) -> None:
        """Let other commands have the journal."""
        self._journal.close()

    # ---- the operation ---------------------------------------------------------------------------

    def operation(self) -> Operation | None:
        """The operation that has begun and not ended."""
        if self._journal.begun is None:
            return None
        values = dict(self._journal.begun["operation"])
        for line in self._journal.done:
            values["phase"] = line.get("phase", values["phase"])
        values["old"] = _link(values["old"]) if values["old"] else None
        return Operation(**{**values, "new": _link(values["new"])})

    def begin(self, operation: Operation, steps: Iterable[PlanStep]) -> None:
        """Record an operation and its plan, durably."""
        self._journal.begin({"operation": asdict(operation), "steps": list(steps)})

    def enter(self, operation: Operation, phase: Phase) -> Operation:
        """Record the next phase of the operation, durably."""
        self._journal.add({"phase": phase}, durable=True)
        return replace(operation, phase=phase)

    def steps(self) -> list[PlanStep]:
        """The plan."""
        return [
            PlanStep(slot, path, _entry(entry), Fingerprint(*before) if before else None)
            for slot, path, entry, before in self._journal.begun["steps"]
        ]

    def finish(self) -> None:
        """End the operation."""
        self._journal.end()

    def places(self) -> dict[str, tuple[Entry, Mapping[str, Any]]]:
        """What was stored and is in no commit yet, by path."""
        places = {}
        for line in self._journal.done:
            entry = _entry(line.get("entry"))
            if entry is not None:
                places[line["path"]] = (entry, line["place"])
        return places

    def keep_place(self, path: str, entry: Entry, place: Mapping[str, Any]) -> None:
        """Keep where a content was stored."""
        self._journal.add({"path": path, "entry": entry, "place": dict(place)})

    # ---- notes -----------------------------------------------------------------------------------

    def note(self, name: str, value: str | None = None) -> str:
        """A value by name, or an empty text.  `value`: set it."""
        known = notes(self._file)
        if value is not None and known.get(name) != value:
            known[name] = value
            self._write(".json", known)
        return known.get(name, "")

    def last_link(self) -> Link | None:
        """The link as it was last written."""
        text = self.note("link")
        return _link(json.loads(text)) if text else None

    def keep_link(self, link: Link) -> None:
        """Keep a copy of the link."""
        self.note("link", json.dumps(asdict(link)))

    # ---- what can be found again -----------------------------------------------------------------

    def base(self, link: Link) -> dict[str, Entry] | None:
        """The listing at the commit of the link; none if another one, or none, is here."""
        known = _read(self._file.with_suffix(".base"))
        if known.get("of") != _base_name(link):
            return None
        return {path: _whole(values) for path, values in known["entries"].items()}

    def keep_base(self, link: Link, entries: Mapping[str, Entry]) -> None:
        """Keep the listing at the commit of the link."""
        self._write(".base", {"of": _base_name(link), "entries": entries})

    def drop_base(self) -> None:
        """Forget the listing."""
        self._file.with_suffix(".base").unlink(missing_ok=True)

    def known(self) -> dict[str, Digest]:
        """Checksums by path."""
        return {
            path: Digest(Fingerprint(*fingerprint), checksum)
            for path, (fingerprint, checksum, at_ns) in self._rows().items()
            if fingerprint[3] + _GRANULARITY_NS < at_ns
        }

    def learn(self, fresh: Mapping[str, Digest]) -> None:
        """Keep checksums."""
        now_ns = self._clock.now_ns()
        rows = self._rows()
        rows |= {path: [*digest, now_ns] for path, digest in fresh.items()}
        self._write(".known", rows)

    def _rows(self) -> dict[str, Any]:
        if self._known is None:
            self._known = _read(self._file.with_suffix(".known"))
        return self._known

    def _write(self, suffix: str, value: Any) -> None:
        file = self._file.with_suffix(suffix)
        try:
            make_folder(file.parent)
            replace_file(file, json.dumps(value).encode())
        except OSError as error:
            raise Unavailable(f"state cannot be kept: {file}: {error.strerror}") from error


def identity(root: Path) -> str:
    """A name for a folder, by its path."""
    return sha256(os.fsencode(root)).hexdigest()[:32]


def records_file(states: Path, root: Path) -> Path:
    """The files with the records of a folder, but for their ends.  They are kept by the one path
    that the folder has."""
    return states / "local" / identity(Path(os.path.realpath(root)))


def notes(file: Path) -> dict[str, str]:
    """The notes of a folder; none if they cannot be read."""
    return _read(file.with_suffix(".json"))


def _read(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        values = json.loads(file.read_bytes())
        return values if isinstance(values, dict) else {}
    return {}


def _base_name(link: Link) -> str:
    return f"{link.source.repository}/{link.head}/{link.source.path}"


def _link(values: Any) -> Link:
    return Link(Prefix(*values["source"]), values["head"], values["operation"])


def _entry(values: Any) -> Entry | None:
    return None if values is None else _whole(values)


def _whole(values: Any) -> Entry:
    entry = Entry._make(values)
    return entry if entry.posix is None else entry._replace(posix=Posix(*entry.posix))
