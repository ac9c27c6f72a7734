"""The candidates of garbage collection: files of our own shapes, removed as uses of them are found.

    fresh   listed now, old enough, in no stored list; what remains at the end is condemned
    due     condemned for the undo period; what remains at the end is deleted

Only file names of the shapes that this system generates are candidates.  All other files in a
namespace stay, and a candidate cannot name a file outside of it.  Used by collect.py, listing.py
and mark.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypedDict

from graveler.block import address
from graveler.block.address import FILES, is_our_object, is_ours
from graveler.errors import Invalid
from graveler.records import ABSENT, AddressType, Repository

Kind = Literal["metarange", "range", "object"]
Reason = Literal["expired", "unused"]


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
        """Remove `name` from the candidates, because something uses it.

        `is_kept`: the user of the file stays.  If it does not, a fresh candidate remains and
        becomes *expired*.
        """
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
    """The candidates of a listing.

    Fresh are the files that were last written before `before_ns` and are not `pending`, that is, in
    a stored list.  Pure, apart from the cost of reading `lines`.
    """
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
