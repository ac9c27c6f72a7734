"""What garbage collection may delete: files of our own shapes, struck off as uses are found.

    fresh   listed now, old enough, in nobody's list yet: what is left will be condemned
    due     condemned long enough ago: what is left will be deleted

Only names that this system gives are ever candidates; whatever else lies in a namespace stays, and
nothing outside of it can be spelled here.  For collect.py, listing.py and mark.py.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from graveler.block import address
from graveler.errors import Invalid
from graveler.records import ABSENT, AddressType, Repository

FILES = "_lakefs/"
OBJECTS = "data/"
_FILE = re.compile(r"_lakefs/[0-9a-f]{64}", re.ASCII)
_OBJECT = re.compile(r"data/[0-9a-v]{20}/[0-9a-v]{20}(?:,[A-Za-z0-9_-]{24})?", re.ASCII)

Kind = Literal["metarange", "range", "object"]
Reason = Literal["expired", "unused"]


class Line(NamedTuple):
    """A stored file of ours, as it was listed; `name` is its relative address."""

    name: str
    version: str
    size: int
    modified_ns: int


class Doomed(NamedTuple):
    """A stored file at a relative address, exactly as it was listed.  `expired`: commits that are
    not kept still name it; `unused`: nothing does."""

    address: str
    version: str
    size: int
    kind: Kind
    reason: Reason = "unused"


@dataclass(slots=True)
class Candidates:
    """`names`: everything listed, young or old; `young` of those: not to be touched yet."""

    fresh: dict[str, Doomed] = field(default_factory=dict)
    due: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    young: set[str] = field(default_factory=set)
    uses: int = 0
    misses: int = 0

    def strike(self, name: str, *, is_kept: bool) -> None:
        """Something uses `name`; `is_kept`: something that stays."""
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
        """What was taken for a range is a metarange."""
        doomed = self.fresh.get(name)
        if doomed is not None:
            self.fresh[name] = doomed._replace(kind="metarange")

    def is_old(self, name: str) -> bool:
        """Whether it was listed, and has not been written lately."""
        return name in self.names and name not in self.young


def candidates_of(lines: Iterable[Line], before_ns: int, pending: Iterable[str]) -> Candidates:
    """All that was listed; fresh are those last written before `before_ns` that are not `pending`
    in some list.  Pure, but for what it costs to take the lines."""
    found = Candidates()
    taken = set(pending)
    for line in lines:
        found.names.add(line.name)
        if line.modified_ns >= before_ns or not line.version:
            found.young.add(line.name)
        elif line.name not in taken:
            kind: Kind = "range" if line.name.startswith(FILES) else "object"
            found.fresh[line.name] = Doomed(line.name, line.version, line.size, kind)
    return found


def is_ours(name: str) -> bool:
    """Whether a relative address has a shape that only this system gives."""
    return _OBJECT.fullmatch(name) is not None or _FILE.fullmatch(name) is not None


class Addressed(Protocol):
    """An entry, decoded in full or as it is stored."""

    @property
    def address(self) -> str:
        """As it was written."""
        ...

    @property
    def address_type(self) -> int:
        """How it is to be read: a number of `AddressType`."""
        ...


def used_name(repo: Repository, entry: Addressed) -> str:
    """The relative address of an entry's bytes, however it is spelled; empty if they do not lie in
    the namespace, or cannot be read by that address at all."""
    text = entry.address
    if entry.address_type == AddressType.RELATIVE and _OBJECT.fullmatch(text) is not None:
        return text
    is_full = entry.address_type == AddressType.FULL
    if entry.address_type == AddressType.BY_PREFIX:
        is_full = "://" in text
    try:
        name = address.relative_to(repo.namespace, text if is_full else f"{repo.namespace}/{text}")
    except Invalid:
        return ""
    return "" if name is ABSENT else name
