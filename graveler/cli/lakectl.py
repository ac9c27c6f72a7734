"""Commands of lakectl that have no like-named command here: hidden, with lakectl's flags.

`fs upload`, `fs download`, `fs stage`, `fs update-metadata`, `gc get-config`, `set-config`,
`delete-config`, `plugin list`.  What they print is ours.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.address import UsageMistake
from graveler.cli.arguments import address_argument, complete_side, ignored
from graveler.cli.command import Group, client, run_command
from graveler.cli.downloads import download
from graveler.cli.invocation import Invocation, metadata_pairs
from graveler.cli.objects import FS as FS_HERE
from graveler.cli.output import field, plain
from graveler.cli.transfer_options import transfer_options
from graveler.cli.uploads import upload
from graveler.client import objects
from graveler.errors import Invalid, NotFound
from graveler.variables import environment

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_PLUGIN: Final = "graveler-"
_RULES_LENGTH_MAX: Final = 1 << 20


def _complete_upload(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """The file, or the address if the file is known."""
    from graveler.cli.completion import addresses

    if ctx.params.get("source") or ctx.params.get("words"):
        return addresses(ctx.ensure_object(Invocation), incomplete)
    return complete_side(ctx, param, incomplete)


# ---- fs ------------------------------------------------------------------------------------------


@client("upload", examples=("graveler fs upload -s a.csv lakefs://lake/main/a.csv",))
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="[SRC] BRANCH[/PATH]",
    shell_complete=_complete_upload,
)
@click.option(
    *("-s", "--source"),
    default="",
    metavar="SRC",
    type=click.Path(),
    help="the file, the folder, or -",
)
@transfer_options
@click.option("--content-type", default="", metavar="TYPE", help="instead of a guess by name")
@click.option("--meta", "pairs", multiple=True, metavar="KEY=VALUE", help="metadata (repeatable)")
def fs_upload(invocation: Invocation, words: tuple[str, ...], source: str, **more: Any) -> int:
    """`graveler upload`, by the name of lakectl; a folder needs no -r."""
    sides = (source, *words) if source else words
    if len(sides) != 2:
        raise UsageMistake("one SRC and one address expected")
    more["recursive"] = more["recursive"] or Path(sides[0]).is_dir()
    return run_command(upload, source=sides[0], address=sides[1], **more)


@client("download", examples=("graveler fs download lakefs://lake/main/sales/ sales",))
@address_argument("address", metavar="REF/PATH")
@click.argument("target", metavar="[DEST]", type=click.Path(), required=False)
@transfer_options
@ignored(takes=("--part-size",))
def fs_download(invocation: Invocation, address: str, target: str | None, **more: Any) -> int:
    """`graveler download`, by the name of lakectl; a prefix needs no -r."""
    place = invocation.path(address, optional=True)
    if not more["recursive"]:
        more["recursive"] = not place.path or place.path.endswith("/")
    if not more["recursive"]:
        try:
            objects.stat(invocation.session, place.repository, place.ref, place.path)
        except NotFound:
            inside = objects.list_objects(
                *(invocation.session, place.repository, place.ref, place.folder), amount=1
            )
            more["recursive"] = next(inside, None) is not None
    return run_command(download, address=address, target=target, **more)


@client(
    "stage",
    examples=(
        "graveler fs stage lakefs://lake/main/a.csv --location s3://b/a --size 9 --checksum MD5",
    ),
)
@address_argument("address", metavar="BRANCH/PATH")
@click.option("--location", required=True, metavar="URL", help="where the object is")
@click.option("--size", type=click.IntRange(min=0), required=True, metavar="N", help="in bytes")
@click.option("--checksum", required=True, metavar="MD5", help="of its bytes")
@click.option("--mtime", type=int, metavar="SECONDS", help="when it was changed (default: now)")
@click.option("--content-type", default="", metavar="TYPE", help="its media type")
@click.option("--meta", "pairs", multiple=True, metavar="KEY=VALUE", help="metadata (repeatable)")
def fs_stage(
    invocation: Invocation, address: str, location: str, pairs: tuple[str, ...], **more: Any
) -> int:
    """Make an object outside the repository an object of a branch, where it is."""
    place = invocation.path(address)
    known = objects.Outside(location, more["checksum"], more["size"], more["mtime"])
    staged = objects.stage(
        *(invocation.session, place.repository, place.ref, place.path, known),
        objects.Upload(more["content_type"], metadata_pairs(pairs)),
    )
    invocation.output.record(staged, [f"staged {plain(str(place))}"])
    return 0


@client(
    "update-metadata",
    examples=("graveler fs update-metadata lakefs://lake/main/a.csv --metadata a=1,b=2",),
)
@address_argument("address", metavar="BRANCH/PATH")
@click.option("--metadata", required=True, multiple=True, metavar="KEY=VALUE,…", help="all of it")
def fs_update_metadata(invocation: Invocation, address: str, metadata: tuple[str, ...]) -> int:
    """Replace the metadata of an object."""
    place = invocation.path(address)
    pairs = metadata_pairs(tuple(pair for several in metadata for pair in several.split(",")))
    objects.set_metadata(invocation.session, place.repository, place.ref, place.path, pairs)
    invocation.output.done(f"metadata of {plain(str(place))} replaced")
    return 0


def _filled(names: Group) -> Group:
    for command in (fs_upload, fs_download, fs_stage, fs_update_metadata):
        names.add_command(command)
    return names


FS: Final = _filled(FS_HERE)


# ---- gc ------------------------------------------------------------------------------------------


@client("get-config", examples=("graveler gc get-config lakefs://lake",))
@address_argument("repository")
@click.option("-p", "as_json", is_flag=True, hidden=True)
def gc_get_config(invocation: Invocation, repository: str, as_json: bool) -> int:
    """`graveler retention --repository`, by the name of lakectl."""
    from graveler.cli.retention import lines
    from graveler.client import collections

    rules = collections.get_rules(invocation.session, invocation.repository(repository).repository)
    shown = [json.dumps(rules, indent=2)] if as_json else lines(rules)
    invocation.output.record(rules, shown)
    return 0


@client("set-config", examples=("graveler gc set-config lakefs://lake -f rules.json",))
@address_argument("repository")
@click.option("-f", "--filename", default="-", metavar="FILE", help="default: standard input")
def gc_set_config(invocation: Invocation, repository: str, filename: str) -> int:
    """Replace the retention rules by those in a file of JSON."""
    from graveler.client import collections

    with click.open_file(filename, encoding="utf-8") as opened:
        text = opened.read(_RULES_LENGTH_MAX + 1)
    try:
        rules = json.loads(text) if len(text) <= _RULES_LENGTH_MAX else None
    except (ValueError, RecursionError):
        rules = None
    if not isinstance(rules, dict):
        raise Invalid(f"rules invalid: {filename}: they must be an object of JSON")
    name = invocation.repository(repository).repository
    collections.replace_rules(invocation.session, name, {"branches": [], **rules})  # type: ignore[typeddict-item]
    invocation.output.done(f"set the retention rules of {name}")
    return 0


@client("delete-config", examples=("graveler gc delete-config lakefs://lake",))
@address_argument("repository")
def gc_delete_config(invocation: Invocation, repository: str) -> int:
    """Delete the retention rules: all commits are kept forever then."""
    from graveler.client import collections

    name = invocation.repository(repository).repository
    collections.delete_rules(invocation.session, name)
    invocation.output.done(f"deleted the retention rules of {name}")
    return 0


# ---- plug-ins ------------------------------------------------------------------------------------


@client("plugin list", examples=("graveler plugin list",))
def plugin_list(invocation: Invocation) -> int:
    """List the plug-ins on PATH."""
    columns = (field("name"), field("program"))
    if not invocation.output.items(columns, _plugins()):
        invocation.output.note("no program graveler-NAME on PATH")
    return 0


def _plugins() -> Iterator[Mapping[str, str]]:
    """The programs whose names begin as those of plug-ins; the first on PATH counts."""
    seen: set[str] = set()
    for folder in environment().get("PATH", "").split(os.pathsep):
        for file in sorted(Path(folder or ".").glob(f"{_PLUGIN}*")):
            name = file.name.removeprefix(_PLUGIN)
            if name not in seen and file.is_file() and os.access(file, os.X_OK):
                seen.add(name)
                yield {"name": name, "program": str(file)}
