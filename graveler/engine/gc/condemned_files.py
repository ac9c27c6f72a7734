"""The lists of a collection, stored in the namespace, one JSON object a line.

    <namespace>/_graveler/gc/<run>/condemned-00000.jsonl    what may be deleted, as which version
    <namespace>/_graveler/gc/<run>/deleted-00000.jsonl      what is deleted; written just before
    <namespace>/_graveler/gc/dry-<id>/…                     both, of a dry run: what would be

A list has metaranges first, then ranges, then objects, and no page has two kinds.  Used by
collect.py.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from graveler import limits
from graveler.block import address
from graveler.block.address import is_ours
from graveler.block.listing import list_all
from graveler.engine.gc.candidates import GarbageFile, Kind
from graveler.engine.ports import OpenRepository
from graveler.errors import Corrupt
from graveler.records import Repository

Page = tuple[GarbageFile, ...]
_PAGE_COUNT = limits.block_delete_count_max
_ORDER: dict[Kind, int] = {"metarange": 0, "range": 1, "object": 2}


def write(repo: OpenRepository, run: str, doomed: Iterable[GarbageFile]) -> None:
    """Store the list of a run.  One put for each page."""
    number = 0
    ordered = sorted(doomed, key=lambda each: (_ORDER[each.kind], each.address))
    for _, group in groupby(ordered, key=lambda each: each.kind):
        lines = list(group)
        for first in range(0, len(lines), _PAGE_COUNT):
            _put(repo, f"{run}/condemned-{number:05}", lines[first : first + _PAGE_COUNT])
            number += 1


def rehearsed(
    repo: OpenRepository, id: str, fresh: Sequence[GarbageFile], due: Sequence[GarbageFile]
) -> str:
    """Store the result of a dry run; returns the folder.  One put for each page."""
    run = f"dry-{id}"
    write(repo, run, fresh)
    for number, first in enumerate(range(0, len(due), _PAGE_COUNT)):
        log_deleted(repo, run, number, tuple(due[first : first + _PAGE_COUNT]))
    return folder(repo.record, run)


def folder(repo: Repository, run: str) -> str:
    """The folder of the lists of a run: an address that ends with `/`.  Pure."""
    return f"{_folder(repo)}/{run}/"


def log_deleted(repo: OpenRepository, run: str, number: int, doomed: Page) -> None:
    """Record what is about to be deleted from a page.  One put."""
    _put(repo, f"{run}/deleted-{number:05}", doomed)


def read(repo: OpenRepository, run: str) -> Iterator[Page]:
    """The pages of a run, in order.  Errors: `Corrupt`.  Cost: one request for the list, one get
    for each page.
    """
    prefix = f"{_folder(repo.record)}/{run}/condemned-"
    for line in list_all(repo.blocks, prefix):
        yield _decode(b"".join(repo.blocks.get(line.address).chunks), line.address)


def _folder(repo: Repository) -> str:
    return address.join(repo.namespace, "_graveler/gc")


def _put(repo: OpenRepository, name: str, doomed: Iterable[GarbageFile]) -> None:
    body = "".join(json.dumps(each._asdict()) + "\n" for each in doomed)
    repo.blocks.put(f"{_folder(repo.record)}/{name}.jsonl", [body.encode()])


def _decode(raw: bytes, where: str) -> Page:
    try:
        page = tuple(GarbageFile(**json.loads(line)) for line in raw.splitlines())
        sound = all(is_ours(each.address) and each.version for each in page)
    except (ValueError, TypeError) as error:
        raise Corrupt(f"list of condemned files cannot be read: address={where}") from error
    if not sound:
        raise Corrupt(f"list of condemned files names a file of another kind: address={where}")
    return page
