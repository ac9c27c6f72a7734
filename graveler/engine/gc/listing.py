"""Everything in a namespace that garbage collection may find, listed once by all runs of a job.

    steps of earlier runs ──► the rest, listed now ──every 50,000 files──► a step

A run that goes on is like one that was slow between listing and marking, at which nobody takes
offence (collect.py): it judges age by the time at which the first run began.  Once a run begins to
delete, what was listed is out of date; it says so, and whoever goes on lists anew.

    listed-<how often>-<when it began, in nanoseconds>-<n>      files of ours, in order
    closed-<how often>                                          that list is out of date

For collect.py.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from graveler.block import address
from graveler.block.adapter import BlockStore, ListedObject
from graveler.block.listing import list_all
from graveler.engine.gc.candidates import FILES, OBJECTS, Line, is_ours
from graveler.engine.jobs.checkpoints import Step, Steps
from graveler.errors import StorageFull
from graveler.records import ABSENT, Absent, Repository

_CLOSED: Final = "closed-"
_NAME: Final = re.compile(r"listed-[0-9]{5}-([0-9]{20})-[0-9]{5}", re.ASCII)
_TYPES: Final = (str, str, int, int)


class Listing(NamedTuple):
    """`began_ns`: before anything was listed; `lines` can be taken once.  `attempt`: how often a
    list of this job was closed before."""

    began_ns: int
    lines: Iterator[Line]
    attempt: int


def listing(blocks: BlockStore, repo: Repository, steps: Steps, now_ns: int) -> Listing:
    """Everything of our shapes.  Cost: a get for each step, a request for each 1,000 files behind
    the last, a put for each step that becomes full."""
    attempt = len(steps.names(_CLOSED))
    known = map(_NAME.fullmatch, steps.names(_all_of(attempt)))
    began_ns = next((int(found[1]) for found in known if found), now_ns)
    chain = f"{_all_of(attempt)}{began_ns:020}-"
    return Listing(began_ns, _lines(blocks, repo, steps, chain), attempt)


def close(steps: Steps, found: Listing) -> None:
    """From here on files are deleted: whoever goes on with the job lists anew.  Raises
    `StorageFull`: then nothing may be.  Cost: a put if there are steps of that list."""
    if not steps.names(_all_of(found.attempt)):
        return
    name = f"{_CLOSED}{found.attempt:05}"
    steps.add(name, Step({}, ()))
    if not steps.names(name):
        raise StorageFull(f"nothing deleted: no room to say that the list is out of date: {name}")


def _all_of(attempt: int) -> str:
    return f"listed-{attempt:05}-"


def _lines(blocks: BlockStore, repo: Repository, steps: Steps, chain: str) -> Iterator[Line]:
    after, number = "", 0
    while (part := _part(steps, f"{chain}{number:05}", after)) is not ABSENT:
        yield from part.lines
        after, number = part.ends, number + 1
    count, begins = 0, after
    held: list[Line] = []
    for found in _below(blocks, repo, after):
        count += 1
        name = address.relative_to(repo.namespace, found.address)
        if name is not ABSENT and is_ours(name):
            line = Line(name, found.head.version, found.head.size, found.head.modified_ns)
            yield line
            if steps.row_count:
                held.append(line)
        if count == steps.row_count:
            said = {"begins": begins, "ends": found.address}
            steps.add(f"{chain}{number:05}", Step(said, held))
            count, number, begins, held = 0, number + 1, found.address, []


def _below(blocks: BlockStore, repo: Repository, after: str) -> Iterator[ListedObject]:
    for folder in (FILES, OBJECTS):  # in byte order
        prefix = f"{repo.namespace}/{folder}"
        if after.startswith(prefix):
            yield from list_all(blocks, prefix, after)
        elif prefix > after:
            yield from list_all(blocks, prefix)


class _Part(NamedTuple):
    """Lines that follow one another, and the address of the last file that was looked at."""

    lines: Sequence[Line]
    ends: str


def _part(steps: Steps, name: str, after: str) -> _Part | Literal[Absent.ABSENT]:
    """A step, if it goes on where the one before it ended and holds nothing but lines."""
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
