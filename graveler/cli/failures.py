"""How a command fails: exit code, message and remedy.

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

For this folder.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import click
from click.exceptions import MissingParameter, NoArgsIsHelpError, NoSuchCommand

from graveler import errors
from graveler.cli import words
from graveler.cli.absence import precise, unwritable
from graveler.cli.address import Address, UsageMistake
from graveler.cli.command import Group
from graveler.cli.hints import of_server, on
from graveler.cli.invocation import Invocation
from graveler.cli.mistakes import recognized
from graveler.cli.output import dumped, plain_lines
from graveler.errors import Conflict, Contended, GravelerError, PreconditionFailed

_NOT_UNIQUE: Final = "not unique"  # ends what servers say of a taken name
DONE, FAILED, USAGE, NOT_FOUND, NOT_ALLOWED, CONFLICT, NOT_NOW, UNKNOWN, PARTLY = range(9)
INTERRUPTED: Final = 130


class PartlyDone(GravelerError):
    """Some items of several failed; each has been reported.  `done`: how many did not."""


@contextmanager
def naming_taken(kind: str, name: object, remedy: str) -> Iterator[None]:
    """For a creation: the error of a name that is taken names it, and has this remedy, if the
    server says only that it is not unique.  If a thing of another kind has it, the server says
    which."""
    try:
        yield
    except Conflict as error:
        is_unnamed = error.fields.get("reason", "").endswith(_NOT_UNIQUE)
        if is_unnamed and not isinstance(error, Contended | PreconditionFailed):
            reason = f"{kind} exists already: {name}"
            error.fields = {**error.fields, "reason": reason, "remedy": remedy}
        raise


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


def report(error: GravelerError, invocation: Invocation) -> int:
    """Print an error on stderr, and return its exit code."""
    sys.stdout.flush()
    if isinstance(error, PartlyDone) and error.fields.get("done") == "0":
        error = unwritable(error, invocation)
    error = recognized(precise(error, invocation), invocation)
    message = _message(error, invocation)
    hint = of_server(invocation, _hint(error, invocation))
    fields = {
        "status": int(error.fields.get("status", 0)),
        "request_id": error.fields.get("request_id", ""),
    }
    if isinstance(error, errors.MergeConflict):
        fields["paths"] = [*error.paths]
    _print(invocation, str(error.code), message, hint, fields)
    return exit_code(error)


def report_usage(error: click.ClickException, invocation: Invocation) -> int:
    """As `report`, for arguments that cannot be parsed."""
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return USAGE
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "graveler"
    led = words.lead(error)
    message, hint = led or (error.format_message(), "")
    hint = hint or f"{command} --help"
    message = " ".join(message.split()).rstrip(".")  # Click lists choices in lines of their own
    message = message[:1].lower() + message[1:]
    message += "" if led else _example(error)
    _print(invocation, "usage", message, hint, {"status": 0, "request_id": ""})
    return USAGE if isinstance(error, click.UsageError) else FAILED


def _example(error: click.ClickException) -> str:
    """How the command line could be, if an argument or a command of a group is wrong."""
    context = getattr(error, "ctx", None)
    if isinstance(error, MissingParameter) and isinstance(error.param, click.Argument):
        examples = getattr(context and context.command, "examples", ())
        mark = ";" if isinstance(error.param.type, click.Choice) else ","  # ends the choices
        return f"{mark} as in: {examples[0].partition('  #')[0].rstrip()}" if examples else ""
    if isinstance(error, NoSuchCommand) and context is not None and not error.possibilities:
        group = context.command
        return (
            f": it is one of {', '.join(group.visible(context))}"
            if isinstance(group, Group)
            else ""
        )
    return ""


def report_system(error: OSError | UnicodeError | EOFError, invocation: Invocation) -> int:
    """As `report`, for what the system refuses: a file that cannot be read or is cut short, a full
    disk."""
    with suppress(OSError):  # perhaps it is what failed
        sys.stdout.flush()
    if isinstance(error, OSError) and error.strerror:
        places = (error.filename, error.filename2)
        named = [os.fsdecode(each) for each in places if isinstance(each, str | bytes)]
        message = ": ".join([*named, error.strerror])
    else:
        message = str(error) or type(error).__name__
    _print(invocation, "system", message, "", {"status": 0, "request_id": ""})
    return FAILED


def report_interrupt(state: str, invocation: Invocation) -> int:
    """As `report`, for Ctrl-C.  `state`: what was done until then, if that is known."""
    with suppress(OSError):
        sys.stdout.flush()
    if sys.stderr.isatty():
        print(file=sys.stderr)  # the terminal has printed ^C
    message = f"interrupted: {state}" if state else "interrupted"
    _print(invocation, "interrupted", message, "", {"status": 0, "request_id": ""})
    return INTERRUPTED


def report_declined(invocation: Invocation) -> int:
    """As `report`, for a question whose answer was no."""
    sys.stdout.flush()
    _print(invocation, "declined", "nothing was changed", "", {"status": 0, "request_id": ""})
    return FAILED


def _print(
    invocation: Invocation, code: str, message: str, hint: str, fields: Mapping[str, Any]
) -> None:
    if invocation.flags.get("json") or invocation.flags.get("jsonl"):
        shown = {"code": code, "message": message, "hint": hint, **fields}
        print(dumped({"error": shown}), file=sys.stderr)
        return
    print(f"graveler: {plain_lines(message)}", file=sys.stderr)
    if hint:
        print(f"try: {plain_lines(hint)}", file=sys.stderr)


def _message(error: GravelerError, invocation: Invocation) -> str:
    reason = error.fields.get("reason", "") or str(error)
    if "remedy" in error.fields:  # it says itself what it is about
        return reason
    if isinstance(error, errors.NotFound) and invocation.item:
        return (
            f"{reason}: {' '.join(map(str, filter(None, (invocation.subject, invocation.item))))}"
        )
    if isinstance(error, errors.NotFound) and invocation.subject is not None:
        return f"{reason}: {invocation.subject}"
    if isinstance(error, errors.DirtyBranch) and invocation.target is not None:
        return f"{invocation.target} has uncommitted changes; nothing was done"
    if isinstance(error, errors.Unauthenticated):
        server = error.fields.get("server")
        if error.fields.get("status") == "401" and not server:
            return invocation.profile.not_accepted()["reason"]
        return f"{reason}: {server or invocation.profile.server}"
    return reason


def _list_of_same(place: Address) -> str:
    """A command that lists what is beside an object, a ref or a repository."""
    if place.path:
        return f"graveler ls {place.at(place.path.rpartition('/')[0]).unprofiled}"
    return f"graveler branch list {place.repository}" if place.ref else "graveler repo list"


def _hint(error: GravelerError, invocation: Invocation) -> str:
    """A command that leads on, or nothing."""
    if "remedy" in error.fields:
        return error.fields["remedy"]
    subject = invocation.subject
    if isinstance(error, errors.NotFound) and invocation.item:
        return invocation.listed_by
    if isinstance(error, errors.NotFound) and subject is not None:
        return on(invocation, subject, _list_of_same(subject))
    if isinstance(error, errors.DirtyBranch) and invocation.target is not None:
        return f"graveler commit {invocation.target}, or graveler reset {invocation.target}"
    if isinstance(error, errors.Unauthenticated):
        from graveler.cli.profiles import OF_VARIABLES

        server = error.fields.get("server") or invocation.profile.server
        if invocation.profile.source == OF_VARIABLES:
            return "unset the variables LAKECTL_…, which go before profiles, or correct them"
        return f"graveler login {server}"
    if isinstance(error, errors.OutcomeUnknown):
        return "look whether it happened before you repeat it: graveler log, graveler status"
    if isinstance(error, errors.Unavailable) and "status" not in error.fields:
        return "graveler config show says which server is used, graveler doctor why it fails"
    return ""
