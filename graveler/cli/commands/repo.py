"""`graveler repo`: repositories."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from graveler.cli.support.command import client, group, run_command
from graveler.cli.support.failures import creating, of_server
from graveler.cli.support.invocation import Invocation, metadata_pairs
from graveler.cli.support.options import address_argument, paging, yes
from graveler.cli.support.output import Column, field, plural
from graveler.core.errors import Invalid, UsageMistake
from graveler.core.ids import parse_branch_id, parse_repository_id

_IN_USE: Final = "storage namespace already in use"  # in what servers say of a namespace
COLUMNS = (
    field("id", title="REPOSITORY"),
    field("creation_date", "time", "CREATED"),
    field("default_branch"),
    field("storage_namespace"),
)


@group("repo")
def repo() -> None:
    """Create, list and delete repositories."""


@client(
    "list",
    group=repo,
    examples=("graveler repo list", "graveler repo list --prefix sales -n 10 --json"),
)
@paging
def list_repositories(invocation: Invocation, prefix: str, after: str, amount: int | None) -> int:
    """List the repositories."""
    rows = invocation.lake.repositories(prefix, after=after, limit=amount)
    invocation.output.items(
        COLUMNS, rows, none=of_server(invocation, "no repositories: graveler repo create NAME")
    )
    return 0


@client("show", group=repo, examples=("graveler repo show lake",))
@address_argument("repository")
def show(invocation: Invocation, repository: str) -> int:
    """Show one repository."""
    invocation.output.pairs(invocation.repo(invocation.repository(repository)), COLUMNS)
    return 0


@client(
    "create",
    group=repo,
    examples=(
        "graveler repo create lake                                # of `graveler serve`",
        "graveler repo create lake s3://bucket/lake",
        "graveler repo create lake local://lake --default-branch trunk",
        "graveler repo create copy s3://bucket/copy --bare        # for a restore",
    ),
)
@address_argument("repository")
@click.argument("namespace", required=False)
@click.option("-d", "--default-branch", default="", metavar="NAME", help="instead of main")
@click.option("--sample-data", is_flag=True, help="with some sample objects")
@click.option("--read-only", is_flag=True, help="refuse changes")
@click.option("--bare", is_flag=True, help="without a branch, to restore into")
def create(
    invocation: Invocation,
    repository: str,
    namespace: str | None,
    default_branch: str,
    sample_data: bool,
    read_only: bool,
    bare: bool,
) -> int:
    """Create a repository whose objects are stored below NAMESPACE.

    NAMESPACE is a place in the storage that no other repository uses, for example s3://bucket/lake.
    It may be left out if the server keeps its objects in a folder.
    """
    name = invocation.repository(repository)
    namespace = namespace or _namespace(invocation, name)
    remedy = f"graveler repo show {name}"
    with (
        _explaining_namespace(name, namespace),
        creating("branch", parse_branch_id, default_branch or "main", ""),
        creating("repository", parse_repository_id, name, remedy),
    ):
        created = invocation.lake.create_repository(
            name,
            namespace,
            default_branch=default_branch,
            sample_data=sample_data,
            read_only=read_only,
            bare=bare,
        )
    filled = f"repository {created} with the branch {created.default_branch.name}"
    text = f"created bare repository {created}" if bare else f"created {filled}"
    invocation.output.record(created, [text])
    return 0


@contextmanager
def _explaining_namespace(name: str, namespace: str) -> Iterator[None]:
    """A refusal of the namespace says which one is perhaps free, or that it may be left out."""
    try:
        yield
    except Invalid as error:
        if isinstance(error, UsageMistake) or error.fields.get("status") != "400":
            raise
        reason = error.fields["reason"]
        _, in_use, until = reason.partition(_IN_USE)
        if in_use:
            reason = f"{namespace} is in use{until}"
            remedy = f"graveler repo create {name} {namespace.rstrip('/')}-2"
            error.fields = {**error.fields, "reason": reason, "remedy": remedy}
            raise
        remedy = f"graveler repo create {name}, or with a place in the storage of the server"
        raise UsageMistake(f"namespace refused: {namespace}: {reason}", remedy=remedy) from error


def _namespace(invocation: Invocation, name: str) -> str:
    """A namespace for a repository that is given none.  Raises `UsageMistake` if the server knows
    no place for it."""
    places = invocation.lake.namespaces()
    if not places.prefix:
        raise UsageMistake(
            "namespace missing: name a place in the storage that no other repository uses",
            remedy=f"graveler repo create {name} {places.example}{name}",
        )
    return places.prefix + name


@client(
    "delete",
    group=repo,
    examples=("graveler repo delete lake", "graveler repo delete lake --confirm lake"),
)
@address_argument("repository")
@click.option("--confirm", "typed", metavar="NAME", help="the name again, instead of a question")
@click.option("--force", is_flag=True, help="even if it is read-only")
@click.option("-y", "--yes", is_flag=True, help="do not ask for the name, as in lakectl")
def delete(
    invocation: Invocation, repository: str, typed: str | None, force: bool, yes: bool
) -> int:
    """Delete a repository with its branches, tags and history.

    Its objects stay in the storage.
    """
    name = invocation.repository(repository)
    known = invocation.repo(name)
    question = f"Delete {name} ({known.namespace}) with its whole history?"
    invocation.confirm_name(question, name, name if yes else typed, or_yes=True)
    known.delete(force=force)
    invocation.output.done(f"deleted repository {name}")
    return 0


@client(
    "create-bare", group=repo, hidden=True, examples=("graveler repo create-bare lake s3://b/lake",)
)
@address_argument("repository")
@click.argument("namespace")
@click.option("-d", "--default-branch", default="", metavar="NAME", help="instead of main")
def create_bare(
    invocation: Invocation, repository: str, namespace: str, default_branch: str
) -> int:
    """`graveler repo create --bare`, by the name of lakectl."""
    flags = {"sample_data": False, "read_only": False, "bare": True}
    names = {"repository": repository, "namespace": namespace, "default_branch": default_branch}
    return run_command(create, **names, **flags)


@group("meta", parent=repo)
def meta() -> None:
    """Metadata of a repository."""


@client("show", group=meta, examples=("graveler repo meta show lake",))
@address_argument("repository")
def show_metadata(invocation: Invocation, repository: str) -> int:
    """Show the metadata of a repository."""
    pairs = invocation.repo(invocation.repository(repository)).metadata
    if invocation.output.form != "human":
        invocation.output.record(pairs, ())
        return 0
    columns = (
        Column("KEY", lambda pair: pair["key"]),
        Column("VALUE", lambda pair: pair["value"]),
    )
    invocation.output.items(columns, [{"key": k, "value": v} for k, v in sorted(pairs.items())])
    return 0


@client("set", group=meta, examples=("graveler repo meta set lake owner=sales tier=gold",))
@address_argument("repository")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
def set_metadata(invocation: Invocation, repository: str, pairs: tuple[str, ...]) -> int:
    """Set keys of a repository's metadata; others stay."""
    name = invocation.repository(repository)
    metadata = metadata_pairs(pairs)
    invocation.repo(name).set_metadata(metadata)
    invocation.output.done(f"set {plural(len(metadata), 'key')} of {name}")
    return 0


@client("delete", group=meta, examples=("graveler repo meta delete lake tier --yes",))
@address_argument("repository")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@yes
def delete_metadata(
    invocation: Invocation, repository: str, keys: tuple[str, ...], yes: bool
) -> int:
    """Delete keys of a repository's metadata, with their values."""
    name = invocation.repository(repository)
    if not yes:
        known = invocation.repo(name).metadata
        pairs = ", ".join(f"{key}={known[key]}" for key in keys if key in known)
        if pairs:  # else nothing is lost
            invocation.confirm(f"Delete {pairs} from the metadata of {name}?", yes=yes)
    invocation.repo(name).delete_metadata(*keys)
    invocation.output.done(f"deleted {plural(len(keys), 'key')} of {name}")
    return 0


_LISTED_BY = "graveler branch-protect list"


@group("branch-protect")
def branch_protect() -> None:
    """Protect branches from direct changes."""


@client(
    "list",
    group=branch_protect,
    examples=("graveler branch-protect list lake", "graveler branch-protect list lake --json"),
)
@address_argument("repository")
def list_rules(invocation: Invocation, repository: str) -> int:
    """List the globs of protected branches."""
    known = invocation.repo(invocation.repository(repository))
    rules = [{"pattern": each} for each in known.protected()]
    if not invocation.output.items((field("pattern"),), rules):
        invocation.output.note("no branch is protected")
    return 0


@client(
    "add",
    group=branch_protect,
    examples=(
        "graveler branch-protect add lake main",
        "graveler branch-protect add lake 'release-*'",
    ),
)
@address_argument("repository")
@click.argument("glob")
def add_rule(invocation: Invocation, repository: str, glob: str) -> int:
    """Protect the branches whose names match GLOB.

    They change by merges alone: uploads, deletions and commits on them are refused.
    """
    name = invocation.repository(repository)
    invocation.repo(name).protect(glob)
    invocation.output.done(f"protected {glob} in {name}")
    return 0


@client(
    "delete",
    group=branch_protect,
    examples=("graveler branch-protect delete lake 'release-*'",),
)
@address_argument("repository")
@click.argument("glob")
def delete_rule(invocation: Invocation, repository: str, glob: str) -> int:
    """Delete the rule GLOB; the branches that it matched can be changed again."""
    name = invocation.repository(repository)
    invocation.about(glob, f"{_LISTED_BY} {name}")
    invocation.repo(name).unprotect(glob)
    invocation.output.done(f"deleted the rule {glob} of {name}")
    return 0
