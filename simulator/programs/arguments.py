"""The arguments of random programs: names and paths from small pools, so that verbs interact.

Most arguments name something that exists; some do not.  For the verbs of programs.
"""

import random
from typing import Final

from graveler.engine import names as branches
from graveler.engine.ports import OpenRepository, Ports
from graveler.errors import Invalid, NotFound
from graveler.records import Entry
from simulator.model import model as m
from simulator.model.model import Blob
from simulator.programs.world import CONTENT_OF, CONTENTS, World

PATHS: Final = (
    *("a", "a/", "a/b", "a/b/c", "a/b/d", "a/c", "a!", "ab", "b/x/1", "b/x/2", "b/y", "c", "c d"),
    *("é/ü", "z/0", "z/1", "z/2", "z/3", "z//3", "z/日本", "{", "~"),
)
PREFIXES: Final = ("", "", "a", "a/", "a/b", "b/x/", "z/", "é", "q", "c ")
BRANCHES: Final = ("main", "dev", "feature-x", "b_1", "0")
TAGS: Final = ("v1", "v1.0", "last", "t_3")
_NOTHING_THERE = 0.07


def scheme(ports: Ports) -> str:
    """The scheme of the addresses that the block store of `ports` serves."""
    try:
        ports.blocks.list("mem://probe/", "", 1)
    except Invalid:
        return "local"
    return "mem"


def head_id(repo: OpenRepository, branch: str) -> str:
    """The id of a branch's head."""
    return branches.get_branch(repo, branch).branch.commit


def a_branch(world: World, rng: random.Random, *, clean: float = 0) -> str:
    """Usually an existing branch; with probability `clean` one without staged changes, if there is
    one."""
    if rng.random() < _NOTHING_THERE:
        return rng.choice(BRANCHES)
    names = sorted(world.model.branches)
    if rng.random() < clean:
        names = [name for name in names if not m.is_dirty(world.model, name)] or names
    return rng.choice(names)


def a_ref(world: World, rng: random.Random) -> str:
    """A branch, tag, id or prefix of an id, with or without modifiers; it usually resolves."""
    draw = ""
    for _ in range(4):
        draw = _any_ref(world, rng)
        try:
            m.resolve(world.model, draw)
        except NotFound:
            continue
        return draw
    return draw


def _any_ref(world: World, rng: random.Random) -> str:
    model, draw = world.model, rng.random()
    if draw < 0.02:
        return "nothing-of-that-name"
    if draw < 0.6:
        name = a_branch(world, rng)
    elif draw < 0.7 and model.tags:
        name = rng.choice(sorted(model.tags))
    else:
        name = rng.choice(model.ids)[: rng.choice((64, 64, 64, 12, 2))]
    modifiers = ("", "", "", "", "~", "~1", "~2", "^", "^1", "^2", "^2", "~0", "^0", "~1^2", "^2~1")
    chosen = rng.choice(modifiers)
    if name in model.branches and rng.random() < 0.2:
        return f"{name}@{chosen}"
    return name + chosen


def a_path(rng: random.Random) -> str:
    """In half of the cases one of a few paths, so that changes interact."""
    return rng.choice(PATHS[:5] if rng.random() < 0.5 else PATHS)


def a_path_of(world: World, rng: random.Random, ref: str) -> str:
    """Usually a path that exists at `ref`."""
    try:
        paths = sorted(m.tree_of(world.model, ref))
    except NotFound:
        paths = []
    return rng.choice(paths) if paths and rng.random() < 0.8 else a_path(rng)


def a_blob(rng: random.Random) -> tuple[Blob, Entry]:
    """One of a few contents, sometimes with metadata or a content type."""
    number = rng.randrange(len(CONTENTS))
    checksum = next(known for known, body in CONTENT_OF.items() if body == CONTENTS[number])
    metadata = (("colour", rng.choice("ab")),) if rng.random() < 0.15 else ()
    kind = "text/plain" if rng.random() < 0.1 else ""
    blob = Blob(checksum, len(CONTENTS[number]), metadata, kind)
    entry = Entry(
        f"data/pool/{number}",
        blob.size,
        checksum,
        rng.randrange(1, 10**18),
        dict(metadata),
        content_type=kind,
    )
    return blob, entry
