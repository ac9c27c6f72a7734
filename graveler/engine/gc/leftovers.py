"""Files that jobs on Spark have left and no reader needs: the rule, and their removal.

    _graveler/gc/hashes/<range>     the names in a range, of a range that is deleted
    _graveler/jobs/<job>/…          checkpoints and pieces of a bulk job that has ended
Both only save work.  A job's files must also be old: they are in use while the job may land.
"""

from collections.abc import Collection, Iterator
from itertools import chain, islice
from typing import Final

from graveler.block.adapter import BlockStore
from graveler.block.address import FILES
from graveler.block.drivers import delete_every, list_all
from graveler.core import limits
from graveler.engine.bulk import job as bulk
from graveler.engine.ports import OpenRepository

_JOBS: Final = "_graveler/jobs/"
_HASHES: Final = "_graveler/gc/hashes/"


def hashes_file(namespace: str, range_id: str) -> str:
    """The address of the kept hashes of a range; of their folder without an id."""
    return f"{namespace}/{_HASHES}{range_id}"


def of_ranges(blocks: BlockStore, namespace: str, digit: str = "") -> Iterator[str]:
    """The hash files of deleted ranges whose ids begin with `digit`: two lists in one order are
    compared.  Cost: one request for each 1,000 hash files, and each 1,000 ranges if there are any.
    """
    ranges = _names(blocks, f"{namespace}/{FILES}", digit)
    listed: str | None = ""
    for name in _names(blocks, hashes_file(namespace, ""), digit):
        while listed is not None and listed < name:
            listed = next(ranges, None)
        if listed != name:
            yield hashes_file(namespace, name)


def of_jobs(
    blocks: BlockStore, namespace: str, alive: Collection[str], before_ns: int
) -> Iterator[str]:
    """The files of bulk jobs that are not `alive`, last written before `before_ns`.  Cost: one
    request for each 1,000 files."""
    prefix = f"{namespace}/{_JOBS}"
    for line in list_all(blocks, prefix):
        job = line.address.removeprefix(prefix).partition("/")[0]
        if job not in alive and line.head.modified_ns < before_ns:
            yield line.address


def remove(repo: OpenRepository, files_max: int = limits.collect_leftovers_max) -> int:
    """Delete at most `files_max` leftovers of a repository; return the number of files.

    Errors: `Unavailable`, `Refused`.  Cost: that of `bulk.list_alive`, `of_ranges` and `of_jobs`,
    and one request for each 1,000 deleted files.
    """
    before_ns = repo.clock.now_ns() - limits.collect_min_age_seconds * limits.SECOND_NS
    alive = {str(each.job.id) for each in bulk.list_alive(repo)}
    names = chain(
        of_ranges(repo.blocks, repo.namespace),
        of_jobs(repo.blocks, repo.namespace, alive, before_ns),
    )
    return delete_every(repo.blocks, islice(names, files_max))


def _names(blocks: BlockStore, folder: str, start: str) -> Iterator[str]:
    """The names in a folder that begin with `start`, in order."""
    return (line.address.removeprefix(folder) for line in list_all(blocks, folder + start))
