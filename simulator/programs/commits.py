"""The verbs of random programs that move a branch's head.

Each draws its arguments, runs on engine and model, and compares.  For `verbs.py`.
"""

import random
from collections.abc import Callable
from typing import Final, Literal

from graveler.engine.commits import commit, log, merge, reset
from graveler.ids import CommitId
from graveler.records import ABSENT, Absent, CommitEntry, Strategy
from simulator.model import merge as mm
from simulator.model import model as m
from simulator.programs.arguments import a_branch, a_ref
from simulator.programs.world import World

COMMITTER: Final = "program"
_PREFIXES: Final = ("", "a", "a/", "a/b", "b/x/", "c", "z/", "z/0")
_SIDES: Final[tuple[Literal["source", "dest"], ...]] = ("source", "dest")


def make_commit(world: World, rng: random.Random, branch: str = "") -> None:
    draft = world.draft(rng.random() < 0.15)
    branch = branch or a_branch(world, rng)
    request = commit.CommitRequest(
        draft.message, COMMITTER, {"n": "1"}, draft.allow_empty, created_ns=draft.created_ns
    )
    commits(
        world,
        f"commit {branch} allow_empty={draft.allow_empty}",
        lambda: commit.commit(world.opened, branch, request).id,
        lambda: m.commit(world.model, branch, draft),
    )


def merge_into(world: World, rng: random.Random) -> None:
    source, dest = a_ref(world, rng), a_branch(world, rng, clean=0.8)
    draft = world.draft(rng.random() < 0.1)
    strategies: list[Strategy] = ["", "", "", "dest-wins", "source-wins"]
    options = mm.Options(rng.choice(strategies), rng.random() < 0.15)
    options = options._replace(resolutions=_resolutions(draft.message))
    request = merge.MergeRequest(
        COMMITTER,
        draft.message,
        strategy=options.strategy,
        resolutions=dict(options.resolutions),
        squash=options.squash,
        allow_empty=draft.allow_empty,
        created_ns=draft.created_ns,
    )
    commits(
        world,
        f"merge {source} into {dest} {options} allow_empty={draft.allow_empty}",
        lambda: merge.merge(world.opened, source, dest, request),
        lambda: mm.merge(world.model, source, dest, draft, options),
    )


def _resolutions(message: str) -> mm.Resolutions:
    """Some resolutions, drawn from the message: the draws of the program stay what they were."""
    rng = random.Random(message)
    count = rng.choice((0, 0, 1, 2, 4))
    prefixes = rng.sample(_PREFIXES, count)
    return tuple((prefix, rng.choice(_SIDES)) for prefix in prefixes)


def revert(world: World, rng: random.Random) -> None:
    _replay(world, rng, "revert")


def cherry_pick(world: World, rng: random.Random) -> None:
    _replay(world, rng, "cherry_pick")


def _replay(world: World, rng: random.Random, verb: str) -> None:
    branch, ref = a_branch(world, rng, clean=0.8), a_ref(world, rng)
    draft, number = world.draft(rng.random() < 0.1), rng.choice((0, 0, 0, 1, 1, 2, 3))
    request = merge.ReplayRequest(
        COMMITTER,
        number,
        draft.message,
        allow_empty=draft.allow_empty,
        created_ns=draft.created_ns,
    )
    options = mm.Options(parent_number=number)
    ours = merge.revert if verb == "revert" else merge.cherry_pick
    theirs = mm.revert if verb == "revert" else mm.cherry_pick
    commits(
        world,
        f"{verb} {ref} on {branch} parent={number} allow_empty={draft.allow_empty}",
        lambda: ours(world.opened, branch, ref, request).id,
        lambda: theirs(world.model, branch, ref, draft, options),
    )


def commits(world: World, title: str, engine: Callable[[], str], model: Callable[[], int]) -> None:
    """Run a verb that makes a commit; give the model's commit the engine's id, and compare them."""
    done, commit_id, key = world.both(title, engine, model)
    if not done:
        return
    m.named(world.model, commit_id)
    entry: CommitEntry = log.get_commit(world.opened, commit_id)
    made = world.model.commits[key]
    parents = tuple(world.model.ids[parent] for parent in made.parents)
    world.same("parents", entry.commit.parents, parents)
    world.same("generation", entry.commit.generation, made.generation)
    world.same("message", entry.commit.message, made.message)


def hard_reset(world: World, rng: random.Random) -> None:
    branch, ref = a_branch(world, rng, clean=0.6), a_ref(world, rng)
    expected = _expected(world, rng, branch)
    world.both(
        f"hard_reset {branch} to {ref} {expected=!s}",
        lambda: reset.hard_reset(world.opened, branch, ref, expected=expected),
        lambda: m.hard_reset(world.model, branch, ref, expected),
    )


def _expected(world: World, rng: random.Random, branch: str) -> CommitId | Literal[Absent.ABSENT]:
    """No condition, the head of the branch, or any commit."""
    draw = rng.random()
    if draw < 0.5 or branch not in world.model.branches:
        return ABSENT
    if draw < 0.75:
        return CommitId(world.model.ids[world.model.branches[branch].head])
    return CommitId(rng.choice(world.model.ids))
