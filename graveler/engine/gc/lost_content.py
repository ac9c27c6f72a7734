"""The commits whose content was given up, noted in the namespace, where a restore finds them.

    <namespace>/_graveler/gc/lost/<time and chance>.txt     a commit a line: id, "objects" or "all"

The marks of condemned commits are rows, and go with the repository.  A restore of a dump, into a
new repository on the same namespace, gets the marks from here: otherwise it would show commits as
whole that have lost their objects, and no collection could read what it must keep.

A note is written before the marks, and they before the first file is deleted.  So whatever was
deleted is noted.  What is noted may still be there: its deletion was about to begin.

Used by collections and by restores.
"""

from collections.abc import Mapping
from typing import Final

from graveler.block import address
from graveler.block.listing import list_all
from graveler.clock import ulid
from graveler.engine.ports import OpenRepository
from graveler.errors import Corrupt
from graveler.ids import is_hex64
from graveler.refs.gc.marks import DeletedContent, Mark

_FOLDER: Final = "_graveler/gc/lost/"


def note(repo: OpenRepository, spent: Mapping[str, Mark]) -> None:
    """Note what of these commits is about to be deleted.  One put; none without a commit."""
    lines = [f"{id} {mark.spent}\n" for id, mark in sorted(spent.items()) if mark.spent]
    if lines:
        name = f"{_FOLDER}{ulid(repo.clock.now_ns(), repo.ids.stamp())}.txt"
        repo.blocks.put(address.join(repo.namespace, name), ["".join(lines).encode()])


def read(repo: OpenRepository) -> dict[str, DeletedContent]:
    """What was noted of each commit, the last note of it.

    Raises `Corrupt` if a note cannot be read.  Cost: one list for each 1,000 notes, and a get for
    each.
    """
    lost: dict[str, DeletedContent] = {}
    for line in list_all(repo.blocks, address.join(repo.namespace, _FOLDER)):
        raw = b"".join(repo.blocks.get(line.address).chunks)
        try:
            for id, kind in (each.split(" ") for each in raw.decode().splitlines()):
                if not is_hex64(id) or not kind:
                    raise ValueError(id)
                lost[id] = DeletedContent(kind)
        except ValueError as error:
            raise Corrupt(f"note of lost content cannot be read: {line.address}") from error
    return lost
