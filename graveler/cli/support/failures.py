"""How a command fails: exit code, message and hint; and the commands that messages name.

0    done
1    failed, or the answer is no (`diff --exit-code`, damage found)
2    the command line is wrong
3    a repository, ref, object or other thing does not exist
4    not signed in, or not allowed
5    conflict: with another change, a name that is taken, a rule or a hook
6    not possible now; nothing was done, so the same command may be repeated
7    the outcome of a write is unknown
8    some items of several failed
130  interrupted
"""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.exceptions import NoArgsIsHelpError

from graveler.cli.commands import COMMANDS
from graveler.cli.support.address import Address
from graveler.cli.support.invocation import Invocation, base_uri
from graveler.cli.support.output import dumped, plain_lines
from graveler.core import errors
from graveler.core.errors import (
    AlreadyExists,
    GravelerError,
    Invalid,
    NotFound,
    UsageMistake,
)
from graveler.core.ids import parse_branch_id, parse_repository_id

if TYPE_CHECKING:
    from graveler.lake.transfers.paths import Filter

DONE, FAILED, USAGE, NOT_FOUND, NOT_ALLOWED, CONFLICT, NOT_NOW, UNKNOWN, PARTLY = range(9)
INTERRUPTED: Final = 130
NOT_REACHED: Final = "is the server running, is the URL right, does a firewall or a proxy block it?"
_Item = TypeVar("_Item")


class PartlyDone(GravelerError):
    """Some items of several failed; each has been reported.  `done`: how many did not."""


# The first kind that fits decides.
_CODES: Final[tuple[tuple[type[GravelerError], int], ...]] = (
    (UsageMistake, USAGE),
    (PartlyDone, PARTLY),
    (errors.NotFound, NOT_FOUND),
    (errors.Unauthenticated, NOT_ALLOWED),
    (errors.Refused, NOT_ALLOWED),
    (errors.Contended, NOT_NOW),
    (errors.Conflict, CONFLICT),
    (errors.HookFailed, CONFLICT),
    (errors.OutcomeUnknown, UNKNOWN),
    (errors.Unavailable, NOT_NOW),
    (errors.Throttled, NOT_NOW),
)


def exit_code(error: GravelerError) -> int:
    """The exit code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


# ---- reports -------------------------------------------------------------------------------------


def report(error: GravelerError, invocation: Invocation) -> int:
    """Print an error on stderr, and return its exit code."""
    sys.stdout.flush()
    error = _named(error, invocation)
    fields = {
        "status": int(error.fields.get("status", 0)),
        "request_id": error.fields.get("request_id", ""),
    }
    if isinstance(error, errors.MergeConflict):
        fields["paths"] = [*error.paths]
    hint = of_server(invocation, _hint(error, invocation))
    _print(invocation, str(error.code), _message(error, invocation), hint, fields)
    return exit_code(error)


def report_usage(error: click.ClickException, invocation: Invocation) -> int:
    """As `report`, for arguments that cannot be parsed."""
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return USAGE
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "graveler"
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message[:1].lower() + message[1:]
    _print(invocation, "usage", message, f"{command} --help")
    return USAGE if isinstance(error, click.UsageError) else FAILED


def report_system(error: OSError | UnicodeError | EOFError, invocation: Invocation) -> int:
    """As `report`, for what the system refuses: a file that cannot be read, a full disk."""
    message = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        places = (error.filename, error.filename2)
        named = [os.fsdecode(place) for place in places if isinstance(place, str | bytes)]
        message = ": ".join([*named, error.strerror])
    return report_plain("system", message, invocation)


def report_interrupt(state: str, invocation: Invocation) -> int:
    """As `report`, for Ctrl-C.  `state`: what was done until then, if that is known."""
    if sys.stderr.isatty():
        print(file=sys.stderr)  # the terminal has printed ^C
    message = f"interrupted: {state}" if state else "interrupted"
    report_plain("interrupted", message, invocation)
    return INTERRUPTED


def report_plain(code: str, message: str, invocation: Invocation) -> int:
    """As `report`, for a message without a hint."""
    with suppress(OSError):  # perhaps it is what failed
        sys.stdout.flush()
    _print(invocation, code, message)
    return FAILED


def _print(
    invocation: Invocation,
    code: str,
    message: str,
    hint: str = "",
    fields: Mapping[str, Any] = {"status": 0, "request_id": ""},
) -> None:
    if invocation.flags.get("json") or invocation.flags.get("jsonl"):
        shown = {"code": code, "message": message, "hint": hint, **fields}
        print(dumped({"error": shown}), file=sys.stderr)
        return
    print(f"graveler: {plain_lines(message)}", file=sys.stderr)
    if hint:
        print(f"try: {plain_lines(hint)}", file=sys.stderr)


def _named(error: GravelerError, invocation: Invocation) -> GravelerError:
    """The error, or one that says which name of the command no server can have: a server says of it
    only that it is invalid.  A server with other rules decides, so this follows a refusal."""
    if not isinstance(error, Invalid) or error.fields.get("status") != "400":
        return error
    if "remedy" in error.fields:
        return error
    for place in invocation.addresses:
        if rule := _broken_rule(parse_repository_id, place.repository):
            return UsageMistake(rule, remedy=on(invocation, place, "graveler repo list"))
    target = invocation.target
    if target is not None and target.ref and _broken_rule(parse_branch_id, target.ref):
        reason = f"{target.ref!r} is no name of a branch: write {target.repository}/BRANCH/PATH"
        remedy = on(invocation, target, f"graveler branch list {target.repository}")
        return UsageMistake(reason, remedy=remedy)
    return error


def _message(error: GravelerError, invocation: Invocation) -> str:
    reason = error.fields.get("reason", "") or str(error)
    if isinstance(error, errors.DirtyBranch) and invocation.target is not None:
        return f"{invocation.target} has uncommitted changes; nothing was done"
    if "remedy" in error.fields:  # it says itself what it is about
        return reason
    if isinstance(error, NotFound) and (invocation.item or invocation.addresses):
        item = [invocation.item] if invocation.item else []
        places = [invocation.subject] if item else invocation.addresses
        named = dict.fromkeys(str(place) for place in places if place is not None)
        return f"{reason}: {' '.join([', '.join(named), *item]).strip()}"
    if isinstance(error, errors.Unauthenticated):
        server = error.fields.get("server")
        if error.fields.get("status") == "401" and not server:
            return invocation.profile.not_accepted()["reason"]
        return f"{reason}: {server or invocation.profile.server}"
    return reason


def _hint(error: GravelerError, invocation: Invocation) -> str:
    """A command that leads on, or nothing."""
    place, target = invocation.subject, invocation.target
    if isinstance(error, errors.DirtyBranch) and target is not None:
        return f"graveler commit {target}, or graveler reset {target}"
    if "remedy" in error.fields:
        return error.fields["remedy"]
    if isinstance(error, NotFound) and invocation.item:
        return invocation.listed_by
    if isinstance(error, NotFound) and place is not None:
        return on(invocation, place, _list_beside(place, error.fields.get("reason", "")))
    if isinstance(error, errors.Unauthenticated):
        from graveler.lake.profiles import OF_VARIABLES

        if invocation.profile.source == OF_VARIABLES:
            return "unset the variables LAKECTL_…, which go before profiles, or correct them"
        return f"graveler login {error.fields.get('server') or invocation.profile.server}"
    if isinstance(error, errors.OutcomeUnknown):
        return "look whether it happened before you repeat it: graveler log, graveler status"
    if isinstance(error, errors.Unavailable) and "status" not in error.fields:
        return "graveler config show says which server is used, graveler doctor why it fails"
    return ""


def _list_beside(place: Address, reason: str) -> str:
    """A command that lists what is beside an object, a ref or a repository."""
    if not place.ref or reason.startswith("repository"):
        return "graveler repo list"
    if not place.path or reason.startswith("branch"):
        return f"graveler branch list {place.repository}"
    return f"graveler ls {place.at(place.path.rpartition('/')[0]).unprofiled}"


def _broken_rule(parse: Callable[[str], Any], name: str) -> str:
    """The rule for names that a name breaks; empty if it breaks none."""
    try:
        parse(name)
    except Invalid as error:
        return str(error)
    return ""


# ---- for commands: errors that name what they are about ------------------------------------------


@contextmanager
def creating(kind: str, parse: Callable[[str], Any], id: str, remedy: str) -> Iterator[None]:
    """For a creation: the error of a name that is taken has this remedy; a name that no server can
    have becomes a `UsageMistake` with the rule that it breaks."""
    try:
        yield
    except AlreadyExists as error:
        if error.fields["reason"].startswith(f"{kind} exists already"):
            error.fields = {**error.fields, "remedy": remedy}
        raise
    except Invalid as error:
        rule = _broken_rule(parse, id) if error.fields.get("status") == "400" else ""
        if not rule or "remedy" in error.fields:
            raise
        raise UsageMistake(rule) from error


def nothing_below(choice: "Filter") -> NotFound:
    """The error of a command about a prefix that has nothing to do."""
    if choice:
        return NotFound("no object below this prefix matches --include/--exclude")
    return NotFound("no objects below this prefix")


def some(items: Iterable[_Item], choice: "Filter") -> Iterator[_Item]:
    """The items of a command about a prefix.  Takes the first one at once, and raises `NotFound` if
    there is none."""
    rest = iter(items)
    first = list(islice(rest, 1))
    if not first:
        raise nothing_below(choice)
    return chain(first, rest)


@contextmanager
def naming_folder(
    invocation: Invocation, place: Address, *, takes_folders: bool = True
) -> Iterator[None]:
    """For a read of one object: the error of one that does not exist names it, and says what a
    folder needs.  `takes_folders`: the command has `-r`."""
    try:
        yield
    except NotFound as error:
        named = error.fields.get("reason", "") or str(error)
        reason = f"{named.removesuffix(f': {place.unprofiled}')}: {place}"
        remedy = f"graveler ls {place.at(place.path.rpartition('/')[0]).unprofiled}"
        remedy += "; a folder needs -r" if takes_folders else ""
        fields = {"reason": reason, "remedy": on(invocation, place, remedy)}
        error.fields = {**error.fields, **fields}
        raise


# ---- the commands that messages name -------------------------------------------------------------

# They reach no server, or a message names them with the place that they work on.
_WITHOUT: Final = frozenset(
    (
        *("completion", "config", "login", "logout"),
        *("credentials", "demo", "gateway", "gc", "retention", "serve", "verify"),
    )
)
_COMMAND: Final = re.compile(r"(?<![\w./-])graveler (?P<name>[a-z][a-z-]*)")


def of_server(invocation: Invocation, text: str) -> str:
    """The text, whose commands get the options that chose the server and the credentials of this
    call: without them they would reach the server of the default profile."""
    return _with_options(server_options(invocation), text)


def on(invocation: Invocation, place: Address, text: str) -> str:
    """The text, whose commands lead to the server of the profile that an address names."""
    if not place.profile:  # `of_server` does the rest
        return text
    return _with_options(["--profile", place.profile, *_without_base(invocation)], text)


def until_commit(invocation: Invocation, place: Address) -> str:
    """Words for a change of the branch of `place`, which is in no commit yet."""
    text = f"uncommitted until `graveler commit {place.at('').unprofiled}`"
    return of_server(invocation, on(invocation, place, text))


def server_options(invocation: Invocation) -> list[str]:
    """The options that chose the server and the credentials of this call, as they were given, and
    one that ends a base URI, because addresses in messages are whole."""
    flags = invocation.flags
    words = []
    for name in ("server", "profile", "config", "access_key_id"):
        if flags.get(name):
            words += [f"--{name.replace('_', '-')}", str(flags[name])]
    words += ["--secret-stdin"] if flags.get("secret_stdin") else []
    return [*words, *_without_base(invocation)]


def _without_base(invocation: Invocation) -> list[str]:
    return ["--base-uri", ""] if base_uri(invocation) else []


def _with_options(words: list[str], text: str) -> str:
    if not words:
        return text
    options = shlex.join(words)

    def command(named: re.Match[str]) -> str:
        is_ours = named["name"] in COMMANDS and named["name"] not in _WITHOUT
        return f"graveler {options} {named['name']}" if is_ours else named[0]

    return _COMMAND.sub(command, text)
