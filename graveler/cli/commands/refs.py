"""`graveler refs`: the refs of a repository as a manifest, and a repository from a manifest."""

import json
from typing import TYPE_CHECKING, Any, Final, cast

import click

from graveler.cli.commands.jobs import Task, wait
from graveler.cli.support.command import client, group, run_command
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, ignored, yes
from graveler.cli.support.output import dumped
from graveler.core.errors import Invalid

if TYPE_CHECKING:
    from graveler.lake.job import Manifest

_LENGTH_MAX: Final = 1 << 16  # of a manifest, in characters


@group("refs")
def refs() -> None:
    """Dump branches, tags and commits, and restore them."""


@client(
    "dump",
    group=refs,
    examples=(
        "graveler refs dump lake >lake.json",
        "graveler refs dump lake lake.json             # the same",
    ),
)
@address_argument("repository")
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(dir_okay=False))
def dump(invocation: Invocation, repository: str, file: str | None) -> int:
    """Write the branches, tags and commits to the storage of the repository.

    The manifest, which names what was written, goes to FILE or to the standard output, alone.  Keep
    it: `graveler refs restore` needs it.  Uncommitted changes are not dumped.
    """
    name = invocation.repository(repository)
    begun = invocation.repo(name).begin_dump()
    done = wait(invocation, Task(name, "dump", begun.id), begun.progress)
    text = dumped(done.manifest, indent=2) + "\n"
    with click.open_file(file or "-", "w", encoding="utf-8", atomic=file not in (None, "-")) as out:
        out.write(text)
    return 0


@client(
    "restore",
    group=refs,
    examples=(
        "graveler refs restore lake lake.json",
        "graveler refs restore lake --yes <lake.json",
    ),
)
@address_argument("repository")
@click.argument("file", default="-", metavar="[FILE]", type=click.Path(dir_okay=False))
@click.option("--force", is_flag=True, help="also into a read-only repository")
@yes
def restore(invocation: Invocation, repository: str, file: str, force: bool, yes: bool) -> int:
    """Restore branches, tags and commits by the manifest of a dump.

    The repository must be bare (`graveler repo create --bare`), else nothing is restored.  Its
    storage must be that of the dump.  FILE is by default the standard input.
    """
    name = invocation.repository(repository)
    manifest = _read(file)
    invocation.confirm(f"Restore the branches and tags of {name} from {file}?", yes=yes)
    begun = invocation.repo(name).begin_restore(manifest, force=force)
    done = wait(invocation, Task(name, "restore", begun.id), begun.progress)
    invocation.output.record(done, [f"restored {name}"])
    return 0


def _read(file: str) -> "Manifest":
    with click.open_file(file, encoding="utf-8") as opened:
        text = opened.read(_LENGTH_MAX + 1)
    try:
        value = json.loads(text) if len(text) <= _LENGTH_MAX else None
    except (ValueError, RecursionError):
        value = None
    from graveler.lake.job import Manifest

    names = tuple(Manifest.__annotations__)
    if not isinstance(value, dict) or not all(isinstance(value.get(each), str) for each in names):
        raise Invalid(f"manifest invalid: {file}: it must be JSON with {', '.join(names)}")
    manifest: Any = {name: value[name] for name in names}
    return cast(Manifest, manifest)


# ---- lakectl's names -----------------------------------------------------------------------------


@client("refs-dump", examples=("graveler refs-dump lakefs://lake >lake.json",))
@address_argument("repository")
@click.option("-o", "--output", "file", metavar="FILE", help="instead of the standard output")
@ignored(takes=("--poll-interval", "--timeout"))
def refs_dump(invocation: Invocation, repository: str, file: str | None) -> int:
    """`graveler refs dump`, by the name of lakectl."""
    return run_command(dump, repository=repository, file=file)


@client("refs-restore", examples=("graveler refs-restore lakefs://lake --manifest - <lake.json",))
@address_argument("repository")
@click.option("--manifest", "file", default="-", metavar="FILE", help="default: standard input")
@ignored(takes=("--poll-interval", "--timeout"))
@click.option("--force", is_flag=True, help="also into a read-only repository")
@yes
def refs_restore(invocation: Invocation, repository: str, file: str, **more: Any) -> int:
    """`graveler refs restore`, by the name of lakectl."""
    return run_command(restore, repository=repository, file=file, **more)
