"""The verbs of random programs: each draws its arguments, asks engine and model, compares.

For `programs.py`.
"""

import random
from collections.abc import Callable
from itertools import accumulate
from typing import Final

from graveler.engine import (
    branching,
    commit,
    history,
    janitor,
    merge,
    objects,
    replay,
    resetting,
    tagging,
)
from graveler.records import CommitEntry, Strategy
from graveler.testing import model as m
from graveler.testing import model_merge as mm
from graveler.testing import program_checks as checks
from graveler.testing.program_arguments import (
    BRANCHES,
    PATHS,
    PREFIXES,
    TAGS,
    a_blob,
    a_branch,
    a_path,
    a_path_of,
    a_ref,
)
from graveler.testing.program_world import CONTENT_OF, World, blob_of

COMMITTER: Final = "program"

Verb = Callable[[World, random.Random], None]


# --- staging ----------------------------------------------------------------


def stage(world: World, rng: random.Random) -> None:
    branch, path, (blob, entry) = a_branch(world, rng), a_path(rng), a_blob(rng)
    only = rng.random() < 0.15
    if only:  # an address of its own, as the verb demands
        entry = entry._replace(address=f"data/own/{len(world.trace)}")
        address = objects.physical_address(world.repo, entry)
        world.ports.blocks.put(address, [CONTENT_OF[blob.checksum]])
    put = objects.stage_if_absent if only else objects.stage
    world.both(
        f"stage {branch} {path} {blob.checksum[:4]} only_if_absent={only}",
        lambda: put(world.ports, world.repo, branch, path, entry),
        lambda: m.stage(world.model, branch, path, blob, only),
    )


def upload(world: World, rng: random.Random) -> None:
    branch, path, (blob, entry) = a_branch(world, rng), a_path(rng), a_blob(rng)
    only = rng.random() < 0.2
    wanted = blob._replace(content_type="text/csv")
    body = CONTENT_OF[blob.checksum]
    done, got, _ = world.both(
        f"upload {branch} {path} {blob.checksum[:4]} only_if_absent={only}",
        lambda: objects.upload(
            world.ports,
            world.repo,
            branch,
            path,
            objects.Upload([body[:2], body[2:]], "text/csv", entry.metadata, only),
        ),
        lambda: m.stage(world.model, branch, path, wanted, only),
    )
    if done:
        world.same("what upload answered", blob_of(got), wanted)


def delete(world: World, rng: random.Random) -> None:
    branch = a_branch(world, rng)
    path = a_path_of(world, rng, branch)
    world.both(
        f"delete {branch} {path}",
        lambda: objects.delete(world.ports, world.repo, branch, path),
        lambda: m.delete(world.model, branch, [path]),
    )


def delete_many(world: World, rng: random.Random) -> None:
    branch, paths = a_branch(world, rng), rng.sample(PATHS, rng.randrange(1, 7))
    done, got, _ = world.both(
        f"delete_many {branch} {paths}",
        lambda: objects.delete_many(world.ports, world.repo, branch, paths),
        lambda: m.delete(world.model, branch, paths),
    )
    if done:
        world.same("errors of delete_many", list(got), [])


def copy(world: World, rng: random.Random) -> None:
    branch, path, ref = a_branch(world, rng), a_path(rng), a_ref(world, rng)
    source = a_path_of(world, rng, ref)
    done, got, wanted = world.both(
        f"copy {ref}/{source} to {branch}/{path}",
        lambda: objects.copy(world.ports, world.repo, branch, path, objects.Source(ref, source)),
        lambda: m.copy(world.model, branch, path, ref, source),
    )
    if done:
        world.same("what copy answered", blob_of(got), wanted)


def set_user_metadata(world: World, rng: random.Random) -> None:
    branch, pairs = a_branch(world, rng), {"size": rng.choice("xyz")}
    path = a_path_of(world, rng, branch)
    world.both(
        f"set_user_metadata {branch} {path} {pairs}",
        lambda: objects.set_user_metadata(world.ports, world.repo, branch, path, pairs),
        lambda: m.set_user_metadata(world.model, branch, path, pairs),
    )


def reset(world: World, rng: random.Random) -> None:
    branch, draw = a_branch(world, rng), rng.random()
    if draw < 0.4:
        world.both(
            f"reset {branch}",
            lambda: resetting.reset(world.ports, world.repo, branch),
            lambda: m.reset(world.model, branch),
        )
    elif draw < 0.7:
        path = a_path(rng)
        world.both(
            f"reset_path {branch} {path}",
            lambda: resetting.reset_path(world.ports, world.repo, branch, path),
            lambda: m.reset(world.model, branch, lambda staged: staged == path),
        )
    else:
        prefix = rng.choice([prefix for prefix in PREFIXES if prefix])
        world.both(
            f"reset_prefix {branch} {prefix}",
            lambda: resetting.reset_prefix(world.ports, world.repo, branch, prefix),
            lambda: m.reset(world.model, branch, lambda staged: staged.startswith(prefix)),
        )


# --- commits ----------------------------------------------------------------


def make_commit(world: World, rng: random.Random) -> None:
    branch, draft = a_branch(world, rng), world.draft(rng.random() < 0.15)
    request = commit.CommitRequest(
        draft.message, COMMITTER, {"n": "1"}, draft.allow_empty, created_ns=draft.created_ns
    )
    _commits(
        world,
        f"commit {branch} allow_empty={draft.allow_empty}",
        lambda: commit.commit(world.ports, world.repo, branch, request).id,
        lambda: m.commit(world.model, branch, draft),
    )


def merge_into(world: World, rng: random.Random) -> None:
    source, dest = a_ref(world, rng), a_branch(world, rng, clean=0.8)
    draft = world.draft(rng.random() < 0.1)
    strategies: list[Strategy] = ["", "", "", "dest-wins", "source-wins"]
    options = mm.Options(rng.choice(strategies), rng.random() < 0.15)
    request = merge.MergeRequest(
        COMMITTER,
        draft.message,
        strategy=options.strategy,
        squash=options.squash,
        allow_empty=draft.allow_empty,
        created_ns=draft.created_ns,
    )
    _commits(
        world,
        f"merge {source} into {dest} {options} allow_empty={draft.allow_empty}",
        lambda: merge.merge(world.ports, world.repo, source, dest, request),
        lambda: mm.merge(world.model, source, dest, draft, options),
    )


def revert(world: World, rng: random.Random) -> None:
    _replay(world, rng, "revert")


def cherry_pick(world: World, rng: random.Random) -> None:
    _replay(world, rng, "cherry_pick")


def _replay(world: World, rng: random.Random, verb: str) -> None:
    branch, ref = a_branch(world, rng, clean=0.8), a_ref(world, rng)
    draft, number = world.draft(rng.random() < 0.1), rng.choice((0, 0, 0, 1, 1, 2, 3))
    request = replay.ReplayRequest(
        COMMITTER,
        number,
        draft.message,
        allow_empty=draft.allow_empty,
        created_ns=draft.created_ns,
    )
    options = mm.Options(parent_number=number)
    ours = replay.revert if verb == "revert" else replay.cherry_pick
    theirs = mm.revert if verb == "revert" else mm.cherry_pick
    _commits(
        world,
        f"{verb} {ref} on {branch} parent={number} allow_empty={draft.allow_empty}",
        lambda: ours(world.ports, world.repo, branch, ref, request).id,
        lambda: theirs(world.model, branch, ref, draft, options),
    )


def _commits(world: World, title: str, engine: Callable[[], str], model: Callable[[], int]) -> None:
    done, commit_id, key = world.both(title, engine, model)
    if not done:
        return
    m.named(world.model, commit_id)
    entry: CommitEntry = history.get_commit(world.ports, world.repo, commit_id)
    made = world.model.commits[key]
    parents = tuple(world.model.ids[parent] for parent in made.parents)
    world.same("parents", entry.commit.parents, parents)
    world.same("generation", entry.commit.generation, made.generation)
    world.same("message", entry.commit.message, made.message)


def hard_reset(world: World, rng: random.Random) -> None:
    branch, ref = a_branch(world, rng, clean=0.6), a_ref(world, rng)
    world.both(
        f"hard_reset {branch} to {ref}",
        lambda: resetting.hard_reset(world.ports, world.repo, branch, ref),
        lambda: m.hard_reset(world.model, branch, ref),
    )


# --- names ------------------------------------------------------------------


def create_branch(world: World, rng: random.Random) -> None:
    name, source, hidden = rng.choice((*BRANCHES, *TAGS[:1])), a_ref(world, rng), rng.random() < 0.1
    done, got, key = world.both(
        f"create_branch {name} from {source} {hidden=}",
        lambda: branching.create_branch(world.ports, world.repo, name, source, hidden=hidden),
        lambda: m.create_branch(world.model, name, source, hidden),
    )
    if done:
        world.same("the new branch's commit", got, world.model.ids[key])


def delete_branch(world: World, rng: random.Random) -> None:
    name = rng.choice(BRANCHES)
    world.both(
        f"delete_branch {name}",
        lambda: branching.delete_branch(world.ports, world.repo, name),
        lambda: m.delete_branch(world.model, name),
    )


def create_tag(world: World, rng: random.Random) -> None:
    name, ref = rng.choice((*TAGS, *BRANCHES[:1])), a_ref(world, rng)
    done, got, key = world.both(
        f"create_tag {name} at {ref}",
        lambda: tagging.create_tag(world.ports, world.repo, name, ref),
        lambda: m.create_tag(world.model, name, ref),
    )
    if done:
        world.same("the new tag's commit", got, world.model.ids[key])


def delete_tag(world: World, rng: random.Random) -> None:
    name = rng.choice(TAGS)
    world.both(
        f"delete_tag {name}",
        lambda: tagging.delete_tag(world.ports, world.repo, name),
        lambda: m.delete_tag(world.model, name),
    )


def sweep(world: World, rng: random.Random) -> None:
    """Time passes, the janitor works: nobody can tell."""
    world.trace.append("sweep")
    world.ports.clock.sleep(rng.choice((0, 4_000, 90_000)))
    janitor.sweep(world.ports, world.repo)


def look_at_path(world: World, rng: random.Random) -> None:
    ref = a_ref(world, rng)
    checks.check_stat(world, rng, ref, a_path_of(world, rng, ref))


def commit_a_change(world: World, rng: random.Random) -> None:
    """Two verbs in one, so that histories grow."""
    stage(world, rng)
    make_commit(world, rng)


_WEIGHTS: Final[tuple[tuple[int, Verb], ...]] = (
    (16, stage),
    (5, upload),
    (8, delete),
    (2, delete_many),
    (3, copy),
    (3, set_user_metadata),
    (5, reset),
    (12, make_commit),
    (14, commit_a_change),
    (16, merge_into),
    (6, revert),
    (6, cherry_pick),
    (4, hard_reset),
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
_OPENING: Final[tuple[Verb, ...]] = (stage, stage, make_commit, create_branch, create_branch)


def step(world: World, rng: random.Random, number: int) -> None:
    """Verb `number` of a program: the first ones lay a ground, then all are drawn by weight."""
    if number < len(_OPENING):
        _OPENING[number](world, rng)
        return
    rng.choices(_VERBS, cum_weights=_TOTALS)[0](world, rng)
