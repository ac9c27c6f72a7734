"""The verbs of random programs, and how often each is drawn.

The verbs on names are here; those on staging and commits have their own modules.  For
`programs.py`.
"""

import random
from collections.abc import Callable
from itertools import accumulate
from typing import Final

from graveler.engine import janitor, names
from simulator.model import model as m
from simulator.programs import checks, commits, staging
from simulator.programs.arguments import BRANCHES, TAGS, a_branch, a_path_of, a_ref
from simulator.programs.imports import import_objects
from simulator.programs.world import World

Verb = Callable[[World, random.Random], None]


def create_branch(world: World, rng: random.Random) -> None:
    name, source, hidden = rng.choice((*BRANCHES, *TAGS[:1])), a_ref(world, rng), rng.random() < 0.1
    done, got, key = world.both(
        f"create_branch {name} from {source} {hidden=}",
        lambda: names.create_branch(world.opened, name, source, hidden=hidden),
        lambda: m.create_branch(world.model, name, source, hidden),
    )
    if done:
        world.same("the new branch's commit", got, world.model.ids[key])


def delete_branch(world: World, rng: random.Random) -> None:
    name = rng.choice(BRANCHES)
    world.both(
        f"delete_branch {name}",
        lambda: names.delete_branch(world.opened, name),
        lambda: m.delete_branch(world.model, name),
    )


def create_tag(world: World, rng: random.Random) -> None:
    name, ref = rng.choice((*TAGS, *BRANCHES[:1])), a_ref(world, rng)
    done, got, key = world.both(
        f"create_tag {name} at {ref}",
        lambda: names.create_tag(world.opened, name, ref),
        lambda: m.create_tag(world.model, name, ref),
    )
    if done:
        world.same("the new tag's commit", got, world.model.ids[key])


def delete_tag(world: World, rng: random.Random) -> None:
    name = rng.choice(TAGS)
    world.both(
        f"delete_tag {name}",
        lambda: names.delete_tag(world.opened, name),
        lambda: m.delete_tag(world.model, name),
    )


def sweep(world: World, rng: random.Random) -> None:
    """Let time pass and run the janitor: no reader may notice."""
    world.trace.append("sweep")
    world.ports.clock.sleep(rng.choice((0, 4_000, 90_000)))
    janitor.sweep(world.opened)


def look_at_path(world: World, rng: random.Random) -> None:
    ref = a_ref(world, rng)
    checks.check_stat(world, rng, ref, a_path_of(world, rng, ref))


def commit_a_change(world: World, rng: random.Random) -> None:
    """Two verbs in one, so that histories grow and diverge."""
    branch = a_branch(world, rng)
    staging.stage(world, rng, branch)
    commits.make_commit(world, rng, branch)


_WEIGHTS: Final[tuple[tuple[int, Verb], ...]] = (
    (16, staging.stage),
    (5, staging.upload),
    (8, staging.delete),
    (2, staging.delete_many),
    (3, staging.copy),
    (3, staging.set_user_metadata),
    (5, staging.reset),
    (12, commits.make_commit),
    (14, commit_a_change),
    (16, commits.merge_into),
    (6, commits.revert),
    (6, commits.cherry_pick),
    (4, commits.hard_reset),
    (3, import_objects),
    (5, create_branch),
    (2, delete_branch),
    (2, create_tag),
    (1, delete_tag),
    (2, sweep),
    (4, look_at_path),
    (4, lambda world, rng: checks.check_listing(world, rng, a_ref(world, rng))),
    (3, lambda world, rng: checks.check_uncommitted(world, rng, a_branch(world, rng))),
    (5, lambda w, rng: checks.check_diff(w, rng, a_ref(w, rng), a_ref(w, rng))),
    (4, lambda w, rng: checks.check_preview(w, rng, a_ref(w, rng), a_branch(w, rng))),
    (3, lambda world, rng: checks.check_log(world, rng, a_ref(world, rng))),
    (3, lambda w, rng: checks.check_merge_base(w, a_ref(w, rng), a_ref(w, rng))),
)
_TOTALS = tuple(accumulate(weight for weight, _ in _WEIGHTS))
_VERBS = tuple(verb for _, verb in _WEIGHTS)
_OPENING: Final[tuple[Verb, ...]] = (
    staging.stage,
    staging.stage,
    commits.make_commit,
    create_branch,
    create_branch,
)


def step(world: World, rng: random.Random, number: int) -> None:
    """Verb `number` of a program.  The first verbs are fixed and create a start; the others are
    drawn by weight."""
    if number < len(_OPENING):
        _OPENING[number](world, rng)
        return
    rng.choices(_VERBS, cum_weights=_TOTALS)[0](world, rng)
