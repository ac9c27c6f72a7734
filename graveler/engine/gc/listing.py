"""The files that garbage collection may delete: listed once for all attempts of a job.

Only names of the shapes that this system generates are candidates; they leave the candidates as
uses of them are found.  Age is measured from the begin of the first attempt.  Once an attempt
begins to delete, it closes its list, and the next attempt lists again.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypedDict

from graveler.block import address
from graveler.block.adapter import BlockStore, ListedObject
from graveler.block.address import FILES, OBJECTS, is_our_object, is_ours
from graveler.block.drivers import list_all
from graveler.core.errors import Invalid, StorageFull
from graveler.core.records import ABSENT, Absent, AddressType, Repository
from graveler.engine.jobs.checkpoints import Step, Steps

Kind = Literal["metarange", "range", "object"]
Reason = Literal["expired", "unused"]
_CLOSED: Final = "closed-"
_NAME: Final = re.compile(r"listed-[0-9]{5}-([0-9]{20})-[0-9]{5}", re.ASCII)
_TYPES: Final = (str, str, int, int)


class Line(NamedTuple):
    """A stored file of our shapes, as it was listed; `name` is its relative address."""

    name: str
    version: str
    size: int
    modified_ns: int


class GarbageFile(NamedTuple):
    """A stored file, exactly as it was listed; `address` is relative.

    `expired`: only commits that are not kept name the file; `unused`: nothing names it.
    """

    address: str
    version: str
    size: int
    kind: Kind
    reason: Reason = "unused"


class Total(TypedDict):
    """How many files, and how many bytes."""

    count: int
    size_bytes: int


def total_of(files: Sequence[GarbageFile]) -> Total:
    """The number and the bytes of files.  Pure."""
    return {"count": len(files), "size_bytes": sum(file.size for file in files)}


@dataclass(slots=True)
class Candidates:
    """The candidates, and what was listed.

    `names`: everything that was listed, young or old.  `young`: those of `names` that must not be
    touched yet.  `uses`, `misses`: how many uses were found, and how many of them were not listed.
    """

    fresh: dict[str, GarbageFile] = field(default_factory=dict)
    due: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    young: set[str] = field(default_factory=set)
    uses: int = 0
    misses: int = 0

    def strike(self, name: str, *, is_kept: bool) -> None:
        """Remove `name` from the candidates, because something uses it."""
        if not is_ours(name):
            return
        self.due.discard(name)
        self.uses += 1
        self.misses += name not in self.names
        if is_kept:
            self.fresh.pop(name, None)
        else:
            doomed = self.fresh.get(name)
            if doomed is not None:
                self.fresh[name] = doomed._replace(reason="expired")

    def name_metarange(self, name: str) -> None:
        """Correct the kind of a candidate: it was taken for a range and is a metarange."""
        doomed = self.fresh.get(name)
        if doomed is not None:
            self.fresh[name] = doomed._replace(kind="metarange")

    def is_old(self, name: str) -> bool:
        """Whether the file was listed and is not young."""
        return name in self.names and name not in self.young


def candidates_of(lines: Iterable[Line], before_ns: int, pending: Iterable[str]) -> Candidates:
    """The candidates of a listing."""
    candidates = Candidates()
    taken = set(pending)
    for line in lines:
        candidates.names.add(line.name)
        if line.modified_ns >= before_ns or not line.version:
            candidates.young.add(line.name)
        elif line.name not in taken:
            kind: Kind = "range" if line.name.startswith(FILES) else "object"
            candidates.fresh[line.name] = GarbageFile(line.name, line.version, line.size, kind)
    return candidates


class AddressedEntry(Protocol):
    """An entry, decoded in full or as it is stored."""

    @property
    def address(self) -> str:
        """The address as it was written."""
        ...

    @property
    def address_type(self) -> int:
        """How to interpret the address: a number of `AddressType`."""
        ...


def used_name(repo: Repository, entry: AddressedEntry) -> str:
    """The relative address of an entry's bytes, however the entry spells it.

    Empty if the bytes are outside of the namespace, or if the address cannot be read at all.
    """
    text = entry.address
    if entry.address_type == AddressType.RELATIVE and is_our_object(text):
        return text
    is_full = entry.address_type == AddressType.FULL
    if entry.address_type == AddressType.BY_PREFIX:
        is_full = "://" in text
    try:
        name = address.relative_to(repo.namespace, text if is_full else f"{repo.namespace}/{text}")
    except Invalid:
        return ""
    return "" if name is ABSENT else name


class Listing(NamedTuple):
    """One list of the namespace.

    `began_ns`: a time before the first file was listed.  `lines`: can be consumed once.
    `attempt`: how many lists of this job were closed before.
    """

    began_ns: int
    lines: Iterator[Line]
    attempt: int


def list_files(blocks: BlockStore, repo: Repository, steps: Steps, now_ns: int) -> Listing:
    """All files of our shapes."""
    attempt = len(steps.names(_CLOSED))
    known = map(_NAME.fullmatch, steps.names(_all_of(attempt)))
    began_ns = next((int(match[1]) for match in known if match), now_ns)
    chain = f"{_all_of(attempt)}{began_ns:020}-"
    return Listing(began_ns, _lines(blocks, repo, steps, chain), attempt)


def close_listing(steps: Steps, listed: Listing) -> None:
    """Close a list before files are deleted, so that a later attempt of the job lists again."""
    if not steps.names(_all_of(listed.attempt)):
        return
    name = f"{_CLOSED}{listed.attempt:05}"
    steps.add(name, Step({}, ()))
    if not steps.names(name):
        raise StorageFull(
            f"nothing deleted: the device is too full to mark the list as outdated: {name}"
        )


def _all_of(attempt: int) -> str:
    return f"listed-{attempt:05}-"


def _lines(blocks: BlockStore, repo: Repository, steps: Steps, chain: str) -> Iterator[Line]:
    after, number = "", 0
    while (part := _part(steps, f"{chain}{number:05}", after)) is not ABSENT:
        yield from part.lines
        after, number = part.ends, number + 1
    count, begins = 0, after
    held: list[Line] = []
    for line_head in _below(blocks, repo, after):
        count += 1
        name = address.relative_to(repo.namespace, line_head.address)
        if name is not ABSENT and is_ours(name):
            line = Line(
                name, line_head.head.version, line_head.head.size, line_head.head.modified_ns
            )
            yield line
            if steps.row_count:
                held.append(line)
        if count == steps.row_count:
            note = {"begins": begins, "ends": line_head.address}
            steps.add(f"{chain}{number:05}", Step(note, held))
            count, number, begins, held = 0, number + 1, line_head.address, []


def _below(blocks: BlockStore, repo: Repository, after: str) -> Iterator[ListedObject]:
    for folder in (FILES, OBJECTS):  # in byte order
        prefix = f"{repo.namespace}/{folder}"
        if after.startswith(prefix):
            yield from list_all(blocks, prefix, after)
        elif prefix > after:
            yield from list_all(blocks, prefix)


class _Part(NamedTuple):
    """Consecutive lines, and the address of the last file that was examined."""

    lines: Sequence[Line]
    ends: str


def _part(steps: Steps, name: str, after: str) -> _Part | Literal[Absent.ABSENT]:
    """A checkpoint, if it continues where the one before it ended and holds only valid lines."""
    step = steps.read(name)
    if step is ABSENT or step.said.get("begins") != after:
        return ABSENT
    ends = step.said.get("ends")
    if not isinstance(ends, str) or ends <= after or not all(map(_is_line, step.rows)):
        return ABSENT
    return _Part([Line(*row) for row in step.rows], ends)


def _is_line(row: object) -> bool:
    if not isinstance(row, list) or len(row) != len(_TYPES):
        return False
    return all(map(isinstance, row, _TYPES)) and is_ours(row[0])
