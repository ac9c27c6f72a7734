"""The verbs of random programs that change staged rows.

Each draws its arguments, runs on engine and model, and compares.  For `verbs.py`.
"""

import random

from graveler.block.adapter import CREATE, OVERWRITE, Mode, Update
from graveler.engine.commits import reset as resetting
from graveler.engine.objects import copies, read, write
from graveler.errors import NotFound
from simulator.model import model as m
from simulator.programs.arguments import PATHS, PREFIXES, a_blob, a_branch, a_path, a_path_of, a_ref
from simulator.programs.world import CONTENT_OF, World, blob_of


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
