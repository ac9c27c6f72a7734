"""The import verb of random programs: objects of a folder become paths of a branch.

For `verbs.py`.
"""

import random
from typing import NamedTuple

from graveler.engine import imports
from graveler.engine.commits import log
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.errors import DirtyBranch
from graveler.records import JobState
from simulator.model import model as m
from simulator.programs.arguments import a_branch
from simulator.programs.commits import COMMITTER, commits
from simulator.programs.world import SOURCES, World, source_blob


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
