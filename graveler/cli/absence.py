"""What a server means by "not found": which of the addresses of a command, or a folder.

The server names one thing, and a command may have several: the client asks for each, last one
first, because the first one may be what the command makes.  For this folder.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from graveler.cli.address import Address
from graveler.cli.hints import on
from graveler.cli.invocation import Invocation, session_of
from graveler.errors import GravelerError, Invalid, NotFound
from graveler.ids import parse_branch_id

if TYPE_CHECKING:
    from graveler.transfers.paths import Filter

_T = TypeVar("_T")
_COMMIT: Final = re.compile(r"[0-9a-f]{6,64}")  # what somebody means as a commit


def nothing_below(choice: "Filter") -> NotFound:
    """The error of a command about a prefix that has nothing to do."""
    if choice:
        return NotFound("no object below this prefix matches --include/--exclude")
    return NotFound("no objects below this prefix")


def some(items: Iterable[_T], choice: "Filter") -> Iterator[_T]:
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
    """For a read of one object: if it does not exist, and objects exist below its path, the error
    says so.  `takes_folders`: the command has `-r`.  Cost: one request if there is no such
    object."""
    from graveler.client import objects

    try:
        yield
    except NotFound as error:
        below: list[Any] = []
        with suppress(GravelerError):
            where = (place.repository, place.ref, place.folder)
            below = list(objects.list_objects(session_of(invocation, place), *where, amount=1))
        if not below:
            raise
        folder = place.at(place.folder)
        reason = f"{folder} is a folder: give -r" if takes_folders else f"{folder} is a folder"
        remedy = "" if takes_folders else on(invocation, place, f"graveler ls {folder.unprofiled}")
        fields = {**error.fields, "reason": reason, "remedy": remedy}
        raise NotFound(reason, "", **fields) from error


def precise(error: GravelerError, invocation: Invocation) -> GravelerError:
    """The error, or one that names the repository, ref or branch that is missing.

    Cost: nothing unless a server answered 404 to a command with an address of a ref; else one
    request for each ref, and at most one more.  If they fail, the error stays as it is."""
    if not isinstance(error, NotFound) or invocation.item or error.fields.get("status") != "404":
        return error
    if "remedy" in error.fields:
        return error
    return _explained(error, invocation, error.fields)


def _missing(invocation: Invocation) -> tuple[str, str] | None:
    """What is missing, and a command that lists what is there."""
    from graveler.client import commits, refs

    places = [*_refs(invocation)]
    target = invocation.target
    for place in reversed(places):
        names = f"graveler branch list {place.repository}"
        if _exists(commits.get, invocation, place):
            continue
        if not _exists(refs.get_repository, invocation, replace(place, ref="")):
            remedy = on(invocation, place, "graveler repo list")
            return f"repository not found: {place.repository}", remedy
        if target is not None and target.at("") == place and _can_be_made(invocation, place):
            remedy = f"graveler branch create {place.unprofiled}, or {names}"
            return f"branch not found: {place}", on(invocation, place, remedy)
        if places == [place] and place == invocation.subject:
            return None  # the server's own words fit
        if _COMMIT.fullmatch(place.ref):
            names = f"graveler log {place.repository}/BRANCH, or {names}"
        return f"ref not found: {place}", on(invocation, place, names)
    return _no_branch(invocation)


def _can_be_made(invocation: Invocation, place: Address) -> bool:
    """Whether a branch of this name would help: the command fills it, and reads nothing of it."""
    reads = sum(address.at("") == place for address in invocation.addresses) > 1
    try:
        parse_branch_id(place.ref)
    except Invalid:
        return False
    return invocation.fills_target and not reads


def unwritable(error: GravelerError, invocation: Invocation) -> GravelerError:
    """The error of a command that has changed nothing, or one that says what is missing, or that
    its target is no branch.  Cost: a few requests for each ref; if they fail, the error stays as
    it is."""
    return _explained(error, invocation, {"status": "404"})


def _explained(
    error: GravelerError, invocation: Invocation, fields: Mapping[str, str]
) -> GravelerError:
    """An error with `fields` that says what is missing, or the error as it is."""
    try:
        answer = _missing(invocation)
    except GravelerError:
        return error
    if answer is None:
        return error
    reason, remedy = answer
    return NotFound(reason, "", **{**fields, "reason": reason, "remedy": remedy})


def _no_branch(invocation: Invocation) -> tuple[str, str] | None:
    """What the target of the command is, if it is no branch, and what to do instead."""
    from graveler.client import refs

    place = invocation.target
    if place is None or not place.ref or _exists(refs.get_branch, invocation, place):
        return None
    kind = "tag" if _exists(refs.get_tag, invocation, place) else "commit"
    text = f"{place.at('')} is a {kind}, and only a branch can be changed"
    remedy = f"graveler branch create {place.repository}/NAME {place.ref}, and change that"
    return text, on(invocation, place, remedy)


def _refs(invocation: Invocation) -> Iterator[Address]:
    """The refs of the addresses, each once, first one first.  Those of a time are left out:
    `past.then` has looked them up."""
    known = set()
    for address in invocation.addresses:
        place = replace(address, ref=address.ref.removesuffix("$"), path="")
        if place.ref and "@{" not in place.ref and place not in known:
            known.add(place)
            yield place


def _exists(look: Callable[..., Any], invocation: Invocation, place: Address) -> bool:
    names = (place.repository, place.ref) if place.ref else (place.repository,)
    try:
        look(session_of(invocation, place), *names)
    except NotFound:
        return False
    return True
