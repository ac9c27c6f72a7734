"""The commits whose content was given up, noted in the namespace, where a restore finds them.

    <namespace>/_graveler/gc/lost/<time and chance>.txt     a commit a line: id, and what it loses:
                                                            "objects", "all"; "kept": nothing

The marks of condemned commits are rows, and go with the repository.  A restore of a dump, into a
new repository on the same namespace, gets the marks from here: otherwise it would show commits as
whole that have lost their objects, and no collection could read what it must keep.

A note is written before the marks, and they before the first file is deleted.  So whatever was
deleted is noted.  A collection that keeps a commit again notes that before it removes the mark: an
earlier note may be of a collection that ended there.

Used by collections, dumps and restores.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from graveler.block import address
from graveler.block.listing import list_all
from graveler.clock import ulid
from graveler.engine.ports import OpenRepository
from graveler.errors import Corrupt
from graveler.ids import is_hex64
from graveler.refs.gc import marks
from graveler.refs.gc.marks import DeletedContent, Mark

_FOLDER: Final = "_graveler/gc/lost/"
_ENDING: Final = ".txt"
_KEPT: Final = "kept"


def note(repo: OpenRepository, spent: Mapping[str, Mark]) -> None:
    """Note what of these commits is about to be deleted.  One put; none without such a commit."""
    _put(repo, repo.clock.now_ns(), _lines(spent))


def note_unnoted(repo: OpenRepository) -> None:
    """Note the commits whose marks record a loss and of which nothing was noted: earlier versions
    noted nothing.

    The note has the time before the marks are read, so a note that a commit is kept again is later.
    Cost: 1 KV request for each 1,000 marks; if any records a loss that of `read`, and a put if one
    is not noted.
    """
    now_ns = repo.clock.now_ns()
    spent = {id: mark for id, mark in marks.list_all(repo.kv, repo.record) if mark.spent}
    known = _notes(repo) if spent else {}
    _put(repo, now_ns, _lines({id: mark for id, mark in spent.items() if id not in known}))


def note_kept(repo: OpenRepository, ids: Iterable[str]) -> None:
    """Note that these commits lose nothing; ids of metaranges may be among them.  One put; none
    without an id."""
    _put(repo, repo.clock.now_ns(), [f"{id} {_KEPT}\n" for id in sorted(ids)])


def read(repo: OpenRepository) -> dict[str, DeletedContent]:
    """What was lost of each commit, by the last note of it.

    Raises `Corrupt` if a note cannot be read.  Cost: one list for each 1,000 notes, and a get for
    each.
    """
    return {id: kind for id, kind in _notes(repo).items() if kind}


def _notes(repo: OpenRepository) -> dict[str, DeletedContent]:
    """The last note of each commit; NOTHING: it is kept."""
    lost: dict[str, DeletedContent] = {}
    for line in list_all(repo.blocks, address.join(repo.namespace, _FOLDER)):
        if line.address.endswith(_ENDING):
            raw = b"".join(repo.blocks.get(line.address).chunks)
            try:
                lost |= dict(map(_decoded, raw.decode().splitlines()))
            except ValueError as error:
                raise Corrupt(
                    "note of lost content cannot be read; restore it from a version or a backup of "
                    f"the bucket, or remove it: address={line.address}"
                ) from error
    return lost


def _lines(spent: Mapping[str, Mark]) -> list[str]:
    return [f"{id} {mark.spent}\n" for id, mark in sorted(spent.items()) if mark.spent]


def _put(repo: OpenRepository, now_ns: int, lines: list[str]) -> None:
    if lines:
        name = f"{_FOLDER}{ulid(now_ns, repo.ids.stamp())}{_ENDING}"
        repo.blocks.put(address.join(repo.namespace, name), ["".join(lines).encode()])


def _decoded(line: str) -> tuple[str, DeletedContent]:
    id, kind = line.split(" ")
    if not is_hex64(id) or not kind:
        raise ValueError(line)
    return id, DeletedContent.NOTHING if kind == _KEPT else DeletedContent(kind)
