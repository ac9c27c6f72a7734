"""One call of a client command: the shared options, and what follows from them.

The profile is read, and the server contacted, only when a command asks for them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graveler.cli.support.address import Address, base_before, parse
from graveler.cli.support.output import Output, plain, plain_lines, wants_color
from graveler.core.errors import GravelerError, Unauthenticated, UsageMistake
from graveler.core.settings import environment

if TYPE_CHECKING:
    from graveler.lake.branch import Branch
    from graveler.lake.connections import Connections, Exchange
    from graveler.lake.lake import Lake
    from graveler.lake.profiles import Profile
    from graveler.lake.ref import Commit, Ref
    from graveler.lake.repository import Repository
    from graveler.lake.session import Session


@dataclass
class Invocation:
    """The shared options, by name, as far as they were given."""

    flags: dict[str, Any] = field(default_factory=dict)
    subject: Address | None = None  # the first address of the command
    addresses: list[Address] = field(default_factory=list)  # all of them, as far as they were read
    target: Address | None = None  # what the command changes, which must be a branch
    item: str = ""  # what the command is about beside it: a user, a pull request
    listed_by: str = ""  # the command that lists such items
    lakes: dict[str, "Lake"] = field(default_factory=dict)  # of other profiles
    pools: list["Connections"] = field(default_factory=list)  # of all sessions

    @cached_property
    def output(self) -> Output:
        """How to print."""
        flags = self.flags
        color = wants_color(flags.get("color", "auto"), sys.stdout)
        form = "json" if flags.get("json") else "jsonl" if flags.get("jsonl") else "human"
        return Output(
            form,  # type: ignore[arg-type]
            terminal=sys.stdout.isatty(),
            color=color and form == "human",
            quiet=bool(flags.get("quiet")),
            utc=bool(flags.get("utc")),
        )

    @cached_property
    def profile(self) -> "Profile":
        """The server and the credentials: as options and variables say, else the profile of the
        server that the current folder is linked on, else the default.  Raises `Invalid`."""
        from graveler.lake import profiles
        from graveler.lake.transfers.link import linked_above

        variables = environment()
        profile = profiles.resolve(self.flags, variables, sys.stdin)
        root = linked_above(Path.cwd()) if not profiles.is_chosen(self.flags, variables) else None
        if root is None:
            return profile
        from graveler.lake import state
        from graveler.lake.transfers.records import notes, records_file

        known = notes(records_file(state.folder(variables), root))
        return profiles.of_server(known.get("server", ""), profile, variables)

    @cached_property
    def here(self) -> Address | None:
        """The prefix with which the current folder, or one above it, is linked."""
        from graveler.lake.transfers.link import linked_above, read_link

        root = linked_above(Path.cwd())
        link = read_link(root) if root is not None else None
        return Address(*link.source) if link is not None else None

    @cached_property
    def session(self) -> "Session":
        """A session with the server of the profile.  Raises `Invalid`, `Unauthenticated`."""
        return connected(self, self.profile)

    @cached_property
    def lake(self) -> "Lake":
        """The server of the profile.  Raises `Invalid`, `Unauthenticated`."""
        from graveler.lake.lake import Lake

        return Lake(self.session)

    def repo(self, name: str) -> "Repository":
        """A repository on the server."""
        return self.lake.repository(name)

    def lake_of(self, address: Address) -> "Lake":
        """The server that an address is on; that of one profile is the same object."""
        name = address.profile
        if not name:
            return self.lake
        if name not in self.lakes:
            from graveler.lake import profiles
            from graveler.lake.lake import Lake

            profile = profiles.resolve({"profile": name}, environment(), sys.stdin)
            self.lakes[name] = Lake(connected(self, profile))
        return self.lakes[name]

    def at(self, address: Address) -> "Ref":
        """The ref of an address, on its server."""
        return self.lake_of(address).repository(address.repository).ref(address.ref)

    def branch(self, address: Address) -> "Branch":
        """The branch of an address, on its server."""
        return self.lake_of(address).repository(address.repository).branch(address.ref)

    def commit(self, address: Address) -> "Commit":
        """The commit that an address means.  One request.  Raises `NotFound`."""
        return self.at(address).pin()

    def default_ref(self, name: str) -> Address:
        """The address of the default branch of a repository.  One request."""
        return Address(name, self.repo(name).default_branch.name)

    # ---- addresses -------------------------------------------------------------------------------

    def repository(self, text: str) -> str:
        """The name of a repository, whose address has no ref.  Raises `UsageMistake`."""
        address = self.address(text)
        if address.ref:
            raise UsageMistake(f"repository expected, without a ref: {text!r}")
        return address.repository

    def ref(self, text: str, *, optional: bool = False) -> Address:
        """The address of a ref, or with `optional` also of a repository.  A second address of a
        command may be the ref alone: it is in the repository of the first.  Raises
        `UsageMistake`."""
        if self.subject is not None and "/" not in text and not text.startswith(":"):
            address = Address(self.subject.repository, text)
            self.addresses.append(address)
            return address
        address = self.address(text)
        if address.path:
            raise UsageMistake(
                f"ref expected, without a path: {text!r}: no branch has a '/', and a tag with one "
                "cannot be addressed here"
            )
        if not address.ref and not optional:
            raise UsageMistake(
                f"ref missing: {address.repository!r} alone is a repository.  Which branch? "
                f"For example {address.repository}/main, or {self._home_of(text)}"
            )
        return address

    def path(
        self, text: str, *, optional: bool = False, profiles: bool = False, fills: bool = False
    ) -> Address:
        """The address of an object, or with `optional` also of a ref.  `profiles`: it may be on the
        server of another profile.  `fills`: the command adds objects there.  Raises
        `UsageMistake`."""
        address = self.address(text, profiles=profiles)
        if not address.ref:
            path = "" if optional else "/PATH"
            raise UsageMistake(
                f"ref missing.  Which branch? For example {address.repository}/main{path}"
            )
        if not address.path and not optional:
            raise UsageMistake(f"path missing: write {address}/PATH")
        if fills:
            self.target = address
        return address

    def about(self, item: str, listed_by: str) -> str:
        """Note what the command is about, for messages, and return it."""
        self.item, self.listed_by = item, listed_by
        return item

    def item_of(self, text: str, item: str, listed_by: str) -> str:
        """Note which item of a repository the command is about; the name of the repository."""
        name = self.repository(text)
        self.about(item, f"{listed_by} {name}")
        return name

    def address(self, text: str, *, profiles: bool = False) -> Address:
        """Any address.  Raises `UsageMistake`."""
        if self.subject is not None:
            current = self.subject.repository
        else:
            current = current_repository(self) if text.startswith(":") else ""
        address = parse(text, base_uri=base_uri(self), current=current)
        if address.profile and not profiles:
            raise UsageMistake(
                f"only cp takes a profile in an address: give --profile {address.profile}"
            )
        self.subject = self.subject or address
        self.addresses.append(address)
        return address

    def _home_of(self, name: str) -> str:
        """How to write a ref whose repository was left out."""
        current = ""
        with suppress(GravelerError):  # it is only for a message about another mistake
            current = current_repository(self)
        return f":{name} for {current}/{name}" if current else f"REPOSITORY/{name}"

    def warn_of_no_hooks(self) -> None:
        """Say that no action file has an effect on this service."""
        self.output.note(
            "warning: hooks are off on this service: no action file has an effect until it "
            "allows hosts (graveler serve --hooks-allow HOST)"
        )

    # ---- questions -------------------------------------------------------------------------------

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is lost.  Raises `UsageMistake` if nobody can answer, and `Declined`
        if the answer is no."""
        if not yes:
            self._check_input("--yes", question)
            import click

            if not click.confirm(plain_lines(question), err=True):
                raise Declined

    def confirm_name(
        self, question: str, name: str, typed: str | None, *, or_yes: bool = False
    ) -> None:
        """As `confirm`, for what cannot be undone: the name must be typed, or given.  `or_yes`: the
        command takes `--yes` instead, as in lakectl."""
        if typed is None:
            self._check_input(f"--confirm {name}{' or --yes' if or_yes else ''}", question)
            import click

            typed = click.prompt(plain_lines(f"{question}\nType {name} to go on"), err=True)
        if typed != name:
            raise UsageMistake(f"not confirmed: {typed!r} is not {name!r}; nothing was changed")

    def may_ask(self) -> bool:
        """Whether somebody can answer."""
        return not self.flags.get("no_input") and sys.stdin.isatty() and sys.stderr.isatty()

    def _check_input(self, flag: str, question: str) -> None:
        if not self.may_ask():
            raise UsageMistake(
                f"this needs a confirmation, and nobody can be asked: give {flag}\n{question}"
            )


def base_uri(invocation: Invocation) -> str:
    """What stands before addresses without a scheme; empty if nothing does.  An option, also an
    empty one, goes before the variable."""
    option = invocation.flags.get("base_uri")
    return str(environment().get("LAKECTL_BASE_URI", "") if option is None else option)


def whole(invocation: Invocation, text: str) -> str:
    """An address as it was typed, with the base URI before it if that applies to it."""
    return base_before(text, base_uri(invocation)) + text


def current_repository(invocation: Invocation) -> str:
    """The repository of `:REF`: that of the linked folder, else that of the profile."""
    here = invocation.here
    return here.repository if here is not None else invocation.profile.repository


def connected(invocation: Invocation, profile: "Profile") -> "Session":
    """A session with the server of a profile; with `-v` it shows its requests."""
    from graveler.lake import profiles
    from graveler.lake.connections import Connections

    observer: Callable[[Exchange], None] | None = None
    if invocation.flags.get("verbose"):
        from graveler.lake.session import api_url

        profile.check_whole()
        observer = partial(_show_exchange, f"{api_url(profile.server)}/")
    connections = Connections(observer=observer)
    invocation.pools.append(connections)
    return profiles.session(profile, connections)


def close(invocation: Invocation) -> None:
    """Close the connections that no thread uses."""
    for pool in invocation.pools:
        pool.close()


def _show_exchange(api: str, exchange: "Exchange") -> None:
    """Print a request.  The query of a signed URL is a secret; one to the API is none."""
    url = exchange.url if exchange.url.startswith(api) else exchange.url.partition("?")[0]
    id = f" {exchange.request_id}" if exchange.request_id else ""
    milliseconds = f"{exchange.seconds * 1000:.0f} ms"
    line = f"> {exchange.method} {url} {exchange.status} {milliseconds}{id}"
    print(plain(line), file=sys.stderr)


@contextmanager
def choose_profile(invocation: Invocation, profile: "Profile") -> Iterator[None]:
    """Use another profile in this block.  The flags stay as the user gave them, and afterwards the
    profile and the session are those from before.  `Unauthenticated` names the server of the block
    in its field `server`."""
    cache, names = invocation.__dict__, ("profile", "session", "lake")
    before = {name: cache.pop(name) for name in names if name in cache}
    cache["profile"] = profile
    try:
        yield
    except Unauthenticated as error:
        error.fields = {**error.fields, "server": profile.server}
        raise
    finally:
        for name in names:
            cache.pop(name, None)
        cache.update(before)


class Declined(Exception):
    """The answer to a question was no."""


def metadata_pairs(pairs: tuple[str, ...]) -> Mapping[str, str]:
    """The pairs of `--meta KEY=VALUE`.  Raises `UsageMistake`."""
    metadata = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageMistake(f"metadata invalid: it must be KEY=VALUE: {pair!r}")
        metadata[key] = value
    return metadata
