"""The files that garbage collection may delete, listed once for all attempts of a job.

    checkpoints ──► the rest, listed now ──every 50,000 files──► a checkpoint

An attempt that continues a list is equivalent to a run that was slow between listing and marking,
which is safe (collect.py): it measures age from the time at which the first attempt began.

Once an attempt begins to delete, its list is out of date.  It closes the list, and the next
attempt lists again.

    listed-<lists closed before>-<when it began, in nanoseconds>-<n>    files of ours, in order
    closed-<lists closed before>                                        that list is out of date

Used by collect.py.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from graveler.block import address
from graveler.block.adapter import BlockStore, ListedObject
from graveler.block.address import FILES, OBJECTS, is_ours
from graveler.block.listing import list_all
from graveler.engine.gc.candidates import Line
from graveler.engine.jobs.checkpoints import Step, Steps
from graveler.errors import StorageFull
from graveler.records import ABSENT, Absent, Repository

_CLOSED: Final = "closed-"
_NAME: Final = re.compile(r"listed-[0-9]{5}-([0-9]{20})-[0-9]{5}", re.ASCII)
_TYPES: Final = (str, str, int, int)


class Listing(NamedTuple):
    """One list of the namespace.

    `began_ns`: a time before the first file was listed.  `lines`: can be consumed once.
    `attempt`: how many lists of this job were closed before.
    """

    began_ns: int
    lines: Iterator[Line]
    attempt: int


def listing(blocks: BlockStore, repo: Repository, steps: Steps, now_ns: int) -> Listing:
    """All files of our shapes.

    Cost: a get for each checkpoint, a request for each 1,000 files behind the last checkpoint, and
    a put for each checkpoint that becomes full.
    """
    attempt = len(steps.names(_CLOSED))
    known = map(_NAME.fullmatch, steps.names(_all_of(attempt)))
    began_ns = next((int(match[1]) for match in known if match), now_ns)
    chain = f"{_all_of(attempt)}{began_ns:020}-"
    return Listing(began_ns, _lines(blocks, repo, steps, chain), attempt)


def close(steps: Steps, listed: Listing) -> None:
    """Close a list before files are deleted, so that a later attempt of the job lists again.

    Raises `StorageFull`: then nothing may be deleted.  Cost: a put if there are checkpoints of that
    list.
    """
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
