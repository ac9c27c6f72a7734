"""The verbs of random programs, and how often each is drawn.

Each draws its arguments, runs on engine and model, and compares.
"""

import random
from collections.abc import Callable
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from graveler.block.adapter import CREATE, OVERWRITE, Mode, Update
from graveler.core.errors import DirtyBranch, NotFound
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT, Absent, CommitEntry, JobState, Strategy
from graveler.engine import imports, janitor, names
from graveler.engine.commits import commit, log, merge
from graveler.engine.commits import reset as resetting
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.engine.objects import copies, read, write
from simulator.programs import checks
from simulator.programs import merge as mm
from simulator.programs import model as m
from simulator.programs.world import (
    BRANCHES,
    CONTENT_OF,
    PATHS,
    PREFIXES,
    SOURCES,
    TAGS,
    World,
    a_blob,
    a_branch,
    a_path,
    a_path_of,
    a_ref,
    blob_of,
    source_blob,
)


def stage(world: World, rng: random.Random, branch: str = "") -> None:
    path, (blob, entry) = a_path(rng), a_blob(rng)
    branch = branch or a_branch(world, rng)
    mode = _mode(world, branch, path, rng.random(), create=0.15)
    if mode is not OVERWRITE:  # the verb requires an address that no other entry has
        entry = entry._replace(address=f"data/own/{len(world.trace)}")
        address = read.physical_address(world.repo, entry)
        world.ports.blocks.put(address, [CONTENT_OF[blob.checksum]])
    world.both(
        f"stage {branch} {path} {blob.checksum[:4]} {mode=}",
        lambda: write.stage(world.opened, branch, path, entry, mode),
        lambda: m.stage(world.model, branch, path, blob, mode),
    )


def upload(world: World, rng: random.Random) -> None:
    branch, path, (blob, entry) = a_branch(world, rng), a_path(rng), a_blob(rng)
    mode = _mode(world, branch, path, rng.random(), create=0.2)
    wanted = blob._replace(content_type="text/csv")
    body = CONTENT_OF[blob.checksum]
    done, got, _ = world.both(
        f"upload {branch} {path} {blob.checksum[:4]} {mode=}",
        lambda: write.upload(
            world.opened,
            branch,
            path,
            write.Upload([body[:2], body[2:]], "text/csv", entry.metadata, mode),
        ),
        lambda: m.stage(world.model, branch, path, wanted, mode),
    )
    if done:
        world.same("what upload answered", blob_of(got), wanted)


def _mode(world: World, branch: str, path: str, draw: float, *, create: float) -> Mode:
    """The condition of a write: rarely one, and if it names a checksum, then often the present
    one."""
    if draw < create:
        return CREATE
    if draw < 0.9:
        return OVERWRITE
    try:
        present = m.stat(world.model, branch, path).checksum
    except NotFound:
        present = "0"
    return Update(present if draw < 0.97 else "1")


def delete(world: World, rng: random.Random) -> None:
    branch = a_branch(world, rng)
    path = a_path_of(world, rng, branch)
    world.both(
        f"delete {branch} {path}",
        lambda: write.delete(world.opened, branch, path),
        lambda: m.delete(world.model, branch, [path]),
    )


def delete_many(world: World, rng: random.Random) -> None:
    branch, paths = a_branch(world, rng), rng.sample(PATHS, rng.randrange(1, 7))
    done, got, _ = world.both(
        f"delete_many {branch} {paths}",
        lambda: write.delete_many(world.opened, branch, paths),
        lambda: m.delete(world.model, branch, paths),
    )
    if done:
        world.same("errors of delete_many", list(got), [])


def copy(world: World, rng: random.Random) -> None:
    branch, path, ref = a_branch(world, rng), a_path(rng), a_ref(world, rng)
    source = a_path_of(world, rng, ref)
    done, got, wanted = world.both(
        f"copy {ref}/{source} to {branch}/{path}",
        lambda: copies.copy(world.opened, branch, path, copies.Source(ref, source)),
        lambda: m.copy(world.model, branch, path, ref, source),
    )
    if done:
        world.same("what copy answered", blob_of(got), wanted)


def set_user_metadata(world: World, rng: random.Random) -> None:
    branch, pairs = a_branch(world, rng), {"size": rng.choice("xyz")}
    path = a_path_of(world, rng, branch)
    world.both(
        f"set_user_metadata {branch} {path} {pairs}",
        lambda: copies.set_user_metadata(world.opened, branch, path, pairs),
        lambda: m.set_user_metadata(world.model, branch, path, pairs),
    )


def reset(world: World, rng: random.Random) -> None:
    branch, draw = a_branch(world, rng), rng.random()
    if draw < 0.4:
        world.both(
            f"reset {branch}",
            lambda: resetting.reset(world.opened, branch),
            lambda: m.reset(world.model, branch),
        )
    elif draw < 0.7:
        path = a_path(rng)
        world.both(
            f"reset_path {branch} {path}",
            lambda: resetting.reset_path(world.opened, branch, path),
            lambda: m.reset(world.model, branch, lambda staged: staged == path),
        )
    else:
        prefix = rng.choice([prefix for prefix in PREFIXES if prefix])
        world.both(
            f"reset_prefix {branch} {prefix}",
            lambda: resetting.reset_prefix(world.opened, branch, prefix),
            lambda: m.reset(world.model, branch, lambda staged: staged.startswith(prefix)),
        )


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
        lambda: resetting.hard_reset(world.opened, branch, ref, expected=expected),
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


class _SourceDraw(NamedTuple):
    """One source: the request for it, the tree that it gives, and the prefix that it replaces, if
    any."""

    asked: ImportPath
    found: m.Tree
    replaced: tuple[str, ...]


def import_objects(world: World, rng: random.Random) -> None:
    """Import one or two sources; a folder replaces everything below its destination."""
    if not world.sources:
        return
    branch = a_branch(world, rng, clean=0.8)
    drawn = [_draw(world, rng) for _ in range(rng.choice((1, 1, 2)))]
    request = ImportRequest([each.asked for each in drawn], f"import {len(world.trace)}", COMMITTER)
    created_ns: list[int] = []

    def engine() -> str:
        job = imports.submit(world.opened, branch, request, owner=b"program")
        imports.run(world.opened, job.branch, request, job.id)
        job = imports.status(world.opened, job.id)
        if "dirty" in job.error:
            raise DirtyBranch(job.error)
        assert job.state is JobState.DONE, job
        entry = log.get_commit(world.opened, job.commit)
        created_ns.append(entry.commit.created_ns)
        return entry.id

    def model() -> int:
        replaced = [prefix for each in drawn for prefix in each.replaced]
        found = {path: blob for each in drawn for path, blob in each.found.items()}
        draft = m.Draft(request.message, created_ns[0] if created_ns else 0, True)
        return m.import_tree(world.model, branch, replaced, found, draft)

    title = [
        f"{each.asked.path[len(world.sources) :]} at {each.asked.destination}" for each in drawn
    ]
    commits(world, f"import {title} to {branch}", engine, model)


def _draw(world: World, rng: random.Random) -> _SourceDraw:
    destination = rng.choice(("", "a", "a/b", "z/", "new"))
    if rng.random() < 0.3:
        path, target = rng.choice(list(SOURCES)), destination or "a"
        asked = ImportPath("object", world.sources + path, target)
        return _SourceDraw(asked, {target: source_blob(path)}, ())
    folder = rng.choice(("", "b/", "y"))
    asked = ImportPath("common_prefix", world.sources + folder, destination)
    below = f"{destination.rstrip('/')}/" if destination else ""
    inside = f"{folder.rstrip('/')}/" if folder else ""
    found = {
        below + path[len(inside) :]: source_blob(path)
        for path in SOURCES
        if path.startswith(inside)
    }
    return _SourceDraw(asked, found, (below,))


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
    stage(world, rng, branch)
    make_commit(world, rng, branch)


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
    stage,
    stage,
    make_commit,
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
