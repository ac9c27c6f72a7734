"""What collections store in the namespace, below `_graveler/gc/`.

<run>/condemned-<n>.jsonl  what may be deleted, as which version    dry-<id>/…  of a dry run
<run>/deleted-<n>.jsonl    what is deleted; written just before
lost/<time>.txt            commits that lose content: written before the marks, and they before
                           the first deletion; a restore finds its marks here
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from graveler.block import address
from graveler.block.address import is_ours
from graveler.block.drivers import list_all
from graveler.core import limits
from graveler.core.clock import ulid
from graveler.core.errors import Code, Contended, Corrupt, NotFound
from graveler.core.ids import is_hex64
from graveler.core.records import ABSENT, Repository
from graveler.engine.gc.listing import GarbageFile, Kind
from graveler.engine.ports import OpenRepository
from graveler.refs import repositories
from graveler.refs.garbage import DeletedContent, Mark

Page = tuple[GarbageFile, ...]
_PAGE_COUNT = limits.block_delete_count_max
_ORDER: dict[Kind, int] = {"metarange": 0, "range": 1, "object": 2}
_LOST: Final = "_graveler/gc/lost/"
_ENDING: Final = ".txt"
_KEPT: Final = "kept"
_ROUNDS: Final = 20


def write_list(repo: OpenRepository, run: str, doomed: Iterable[GarbageFile]) -> None:
    """Store the list of a run.  One put for each page."""
    number = 0
    ordered = sorted(doomed, key=lambda each: (_ORDER[each.kind], each.address))
    for _, group in groupby(ordered, key=lambda each: each.kind):
        lines = list(group)
        for first in range(0, len(lines), _PAGE_COUNT):
            _put_page(repo, f"{run}/condemned-{number:05}", lines[first : first + _PAGE_COUNT])
            number += 1


def rehearsed(
    repo: OpenRepository, id: str, fresh: Sequence[GarbageFile], due: Sequence[GarbageFile]
) -> str:
    """Store the result of a dry run; returns the folder.  One put for each page."""
    run = f"dry-{id}"
    write_list(repo, run, fresh)
    for number, first in enumerate(range(0, len(due), _PAGE_COUNT)):
        log_deleted(repo, run, number, tuple(due[first : first + _PAGE_COUNT]))
    return list_folder(repo.record, run)


def list_folder(repo: Repository, run: str) -> str:
    """The folder of the lists of a run: an address that ends with `/`.  Pure."""
    return f"{_lists(repo)}/{run}/"


def log_deleted(repo: OpenRepository, run: str, number: int, doomed: Page) -> None:
    """Record what is about to be deleted from a page.  One put."""
    _put_page(repo, f"{run}/deleted-{number:05}", doomed)


def read_list(repo: OpenRepository, run: str) -> Iterator[Page]:
    """The pages of a run, in order.  Errors: `Corrupt`.  Cost: one request for the list, one get
    for each page.
    """
    prefix = f"{_lists(repo.record)}/{run}/condemned-"
    for line in list_all(repo.blocks, prefix):
        yield _decode_page(b"".join(repo.blocks.get(line.address).chunks), line.address)


def _lists(repo: Repository) -> str:
    return address.join(repo.namespace, "_graveler/gc")


def _put_page(repo: OpenRepository, name: str, doomed: Iterable[GarbageFile]) -> None:
    body = "".join(json.dumps(each._asdict()) + "\n" for each in doomed)
    repo.blocks.put(f"{_lists(repo.record)}/{name}.jsonl", [body.encode()])


def _decode_page(raw: bytes, where: str) -> Page:
    try:
        page = tuple(GarbageFile(**json.loads(line)) for line in raw.splitlines())
        sound = all(is_ours(each.address) and each.version for each in page)
    except (ValueError, TypeError) as error:
        raise Corrupt(f"list of condemned files cannot be read: address={where}") from error
    if not sound:
        raise Corrupt(f"list of condemned files names a file of another kind: address={where}")
    return page


def note_lost(repo: OpenRepository, spent: Mapping[str, Mark]) -> None:
    """Note what of these commits is about to be deleted.  One put; none without such a commit."""
    _put_note(repo, repo.clock.now_ns(), _lines(spent))


def note_kept(repo: OpenRepository, ids: Iterable[str]) -> None:
    """Note that these commits lose nothing; ids of metaranges may be among them.  One put; none
    without an id."""
    _put_note(repo, repo.clock.now_ns(), [f"{id} {_KEPT}\n" for id in sorted(ids)])


def read_lost(repo: OpenRepository) -> dict[str, DeletedContent]:
    """What was lost of each commit, by the last note of it."""
    return {id: kind for id, kind in _notes(repo).items() if kind}


def _notes(repo: OpenRepository) -> dict[str, DeletedContent]:
    """The last note of each commit; NOTHING: it is kept."""
    lost: dict[str, DeletedContent] = {}
    for line in list_all(repo.blocks, address.join(repo.namespace, _LOST)):
        if line.address.endswith(_ENDING):
            raw = b"".join(repo.blocks.get(line.address).chunks)
            try:
                lost |= dict(map(_decoded_line, raw.decode().splitlines()))
            except ValueError as error:
                raise Corrupt(
                    "note of lost content cannot be read; restore it from a version or a backup of "
                    f"the bucket, or remove it: address={line.address}"
                ) from error
    return lost


def _lines(spent: Mapping[str, Mark]) -> list[str]:
    return [f"{id} {mark.spent}\n" for id, mark in sorted(spent.items()) if mark.spent]


def _put_note(repo: OpenRepository, now_ns: int, lines: list[str]) -> None:
    if lines:
        name = f"{_LOST}{ulid(now_ns, repo.ids.stamp())}{_ENDING}"
        repo.blocks.put(address.join(repo.namespace, name), ["".join(lines).encode()])


def _decoded_line(line: str) -> tuple[str, DeletedContent]:
    id, kind = line.split(" ")
    if not is_hex64(id) or not kind:
        raise ValueError(line)
    return id, DeletedContent.NOTHING if kind == _KEPT else DeletedContent(kind)


def announce(repo: OpenRepository) -> None:
    """Have every operation that uses a commit check whether it is condemned, from now on.  Must be
    called before marks are stored.

    Errors: `NotFound`, `Contended`.  Cost: 1 KV request, 2 the first time.
    """
    for _ in range(_ROUNDS):
        seen = repositories.find(repo.kv, repo.id)
        if seen is ABSENT or seen.repository.uid != repo.record.uid:
            raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
        if seen.repository.collected:
            return
        new = replace(seen.repository, collected=True)
        done = repositories.swap(repo.kv, seen, new, repo.ids.stamp())
        repo.cache.forget_repository(repo.id)
        if done is not ABSENT:
            return
    raise Contended(f"repository record kept changing: repository={repo.id}")
