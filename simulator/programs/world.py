"""The state of a random program: ports, repository, model, and the comparison of the two.

Always: after `both` returned, engine and model gave the same answer or the same kind of error.
"""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from graveler.core.errors import GravelerError, Invalid, NotFound
from graveler.core.records import Entry, Repository
from graveler.engine import names as branches
from graveler.engine.ports import OpenRepository, Ports, open_repository
from simulator.programs import model as m
from simulator.programs.model import Blob, Draft, Model

FIRST_COMMIT_NS: Final = 0  # before any other, whatever the system's clock showed
_COMMITS_FROM_NS: Final = 2_000_000_000 * 1_000_000_000

CONTENTS: Final = (b"", b"one", b"two!", b"three", b"four and more", b"five" * 50)
SOURCES: Final = {"x": 1, "b": 2, "b/c": 3, "b/d": 0, "y/1": 4}  # path to import -> content
CONTENT_OF: Final = {hashlib.md5(body).hexdigest(): body for body in CONTENTS}


class Mismatch(AssertionError):
    """Engine and model disagree; `trace` holds the verbs so far."""

    def __init__(self, message: str, trace: tuple[str, ...]) -> None:
        super().__init__(message)
        self.trace = trace


@dataclass
class World:
    """One run of one program."""

    ports: Ports
    repo: Repository
    model: Model
    sources: str = ""  # the folder to import from, if the deployment allows one
    trace: list[str] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)

    def draft(self, allow_empty: bool = False) -> Draft:
        """A message and a time that no other commit of the program has."""
        number = len(self.trace)
        return Draft(f"commit {number}", _COMMITS_FROM_NS + number * 700_000_000, allow_empty)

    def both(
        self, title: str, engine: Callable[[], Any], model: Callable[[], Any]
    ) -> tuple[bool, Any, Any]:
        """Run both; return (whether they succeeded, the engine's result, the model's result)."""
        self.trace.append(title)
        got, got_error = attempt(engine)
        wanted, wanted_error = attempt(model)
        verb = title.split(" ", 1)[0]
        outcome = f"{verb}: {type(wanted_error).__name__ if wanted_error else 'done'}"
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if type(got_error) is not type(wanted_error):
            self.fail(f"{title}: {shown(got, got_error)}, model: {shown(wanted, wanted_error)}")
        self.trace[-1] = f"{title} -> {type(got_error).__name__ if got_error else 'done'}"
        if got_error is not None and wanted_error is not None:
            paths, expected = (getattr(e, "paths", None) for e in (got_error, wanted_error))
            self.same(f"{title}: conflict paths", paths, expected)
        return got_error is None, got, wanted

    def same(self, what: str, got: object, wanted: object) -> None:
        """Raise `Mismatch` if they differ."""
        if got != wanted:
            self.fail(f"{what}:\n    engine {got!r}\n    model  {wanted!r}")

    def fail(self, message: str) -> None:
        raise Mismatch(message, tuple(self.trace))


def attempt(call: Callable[[], Any]) -> tuple[Any, GravelerError | None]:
    """Return (result, None), or (None, the error)."""
    try:
        return call(), None
    except GravelerError as error:
        return None, error


def shown(result: object, error: GravelerError | None) -> str:
    """A result or an error as text for people."""
    return f"{type(error).__name__} {error}" if error else f"done {result!r}"


def blob_of(entry: Entry) -> Blob:
    """The model's view of an entry."""
    metadata = tuple(sorted(entry.metadata.items()))
    return Blob(entry.checksum, entry.size, metadata, entry.content_type)


def source_blob(path: str) -> Blob:
    """The blob that an import of the source `path` gives."""
    content = CONTENTS[SOURCES[path]]
    return Blob(hashlib.md5(content).hexdigest(), len(content))


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
