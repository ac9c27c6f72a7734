"""Random programs: verbs run on an engine and on the model in lock step.

    seed ──► verb 1, verb 2, …   each: engine answers ── same result, same kind of error? ── model
                    └──► at the end: every branch with its staging, every commit, every log

A program is a pure function of its seed.  Each verb draws from its own generator, so dropping a
verb does not change the arguments of the others; this is how a failing program is shrunk.  Programs
run on any `Ports`; the verbs are in `verbs.py`.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from graveler.core.records import BreakParameters
from graveler.engine.ports import Ports, open_repository
from graveler.engine.repositories import repository
from simulator.programs import checks, verbs
from simulator.programs.model import new_model
from simulator.programs.world import (
    CONTENTS,
    FIRST_COMMIT_NS,
    SOURCES,
    Mismatch,
    World,
    head_id,
    scheme,
)
from tests.support.clockwork import SeededIds, TickingClock

VERB_COUNT_DEFAULT = 30
_BREAKS = (
    BreakParameters(raggedness=3, salt=b"program"),
    BreakParameters(max_size=600, raggedness=1_000, salt=b"program"),
    BreakParameters(min_size=300, max_size=900, raggedness=2, salt=b"program"),
)


class Failure(NamedTuple):
    """A program on which engine and model disagree, after shrinking."""

    seed: int
    kept: tuple[int, ...]
    trace: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        lines = "\n  ".join(self.trace)
        return f"program seed={self.seed} verbs={list(self.kept)}\n  {lines}\n{self.message}"


def run(
    make_ports: Callable[[], Ports], seed: int, kept: Sequence[int] = range(VERB_COUNT_DEFAULT)
) -> World:
    """Run the verbs `kept` of the program `seed` to its end; raises `Mismatch`.

    A clock and ids from the seed replace those of the machine.
    """
    world = begin(make_ports(), seed)
    try:
        for number in kept:
            verbs.step(world, random.Random(f"{seed}/{number}"), number)
        checks.check_all(world, random.Random(f"{seed}/end"))
    except Mismatch:
        raise
    except Exception as error:
        raise Mismatch(f"{type(error).__name__}: {error}", tuple(world.trace)) from error
    return world


def begin(ports: Ports, seed: int) -> World:
    """A fresh repository with small ranges and one to three shards at first, and its model."""
    rng = random.Random(f"{seed}/begin")
    unique = ports.ids.unique(12)  # a program can then run again on the same store
    growing = ports.settings._replace(staging_shards_max=3, staging_shard_rows=2)
    ports = replace(ports, clock=TickingClock(), ids=SeededIds(seed), settings=growing)
    new = repository.NewRepository(
        f"program-{seed}-{unique}",
        f"{scheme(ports)}://programs/{seed}/{unique}",
        breaks=rng.choice(_BREAKS),
        staging_shards=rng.choice((1, 1, 2, 3)),
    )
    repo = repository.create(ports, new)
    for number, content in enumerate(CONTENTS):
        ports.blocks.put(f"{repo.namespace}/data/pool/{number}", [content])
    sources = f"mem://sources/{seed}/{unique}/"
    if scheme(ports) == "mem":
        for path, number in SOURCES.items():
            ports.blocks.put(sources + path, [CONTENTS[number]])
    else:
        sources = ""
    first = head_id(open_repository(ports, repo), repo.default_branch)
    return World(ports, repo, new_model(first, FIRST_COMMIT_NS, repo.default_branch), sources)


def shrink(make_ports: Callable[[], Ports], seed: int, kept: Sequence[int]) -> Failure:
    """Drop verbs while the program still fails; at most two passes."""
    left = list(kept)
    failure = _attempt(make_ports, seed, left)
    assert failure is not None, "only a failing program can be shrunk"
    for _ in range(2):
        before = len(left)
        for number in reversed(left.copy()):
            shorter = [other for other in left if other != number]
            found = _attempt(make_ports, seed, shorter)
            if found is not None:
                left, failure = shorter, found
        if len(left) == before:
            break
    return failure


def _attempt(make_ports: Callable[[], Ports], seed: int, kept: Sequence[int]) -> Failure | None:
    try:
        run(make_ports, seed, kept)
    except Mismatch as mismatch:
        return Failure(seed, tuple(kept), mismatch.trace, str(mismatch))
    return None
