"""Times on the command line, and refs as they were then: `--at '2 days ago'`, `main@{2 days ago}`.

A commit tells when it was made, and nothing tells when a branch moved.  So the commit of a ref at a
time is the newest one of its first parents that is not younger.  A branch that was reset or created
since then had other commits at that time: they are not seen.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from graveler.cli.support.address import Address
from graveler.cli.support.failures import on
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.output import first_line, plain
from graveler.core.clock import SystemClock
from graveler.core.errors import NotFound, Unsupported, UsageMistake
from graveler.lake.answers import moment

if TYPE_CHECKING:
    from graveler.lake.ref import Commit

_AGO: Final = re.compile(r"(\d{1,6}) ?(s|second|m|minute|h|hour|d|day|w|week)s?( ago)?", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_FIRST_PAGE: Final = 32  # most questions are about the last days
_COMMITS_MAX: Final = 100_000


def parse(text: str, now_ns: int | None = None) -> datetime:
    """The time that `text` means, in UTC; without an offset it is local.  Raises `UsageMistake`."""
    now_ns = SystemClock().now_ns() if now_ns is None else now_ns
    now = datetime.fromtimestamp(now_ns // 10**9, UTC)
    word = " ".join(text.lower().split())
    if word in ("now", "yesterday"):
        return now if word == "now" else now - timedelta(days=1)
    ago = _AGO.fullmatch(word)
    try:
        if ago:
            return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2][0]])
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageMistake(
            f"time invalid: {text!r}: write '2 days ago', 2026-11-23 or 2026-11-23T10:00:00Z"
        ) from None


def of_seconds(seconds: int | None) -> datetime | None:
    """Seconds since 1970 of an option as a time in UTC.  Raises `UsageMistake`."""
    time = moment(seconds)
    if time is None and seconds is not None:
        raise UsageMistake(f"time invalid: no calendar has {seconds} seconds since 1970")
    return time


def rfc3339(time: datetime) -> str:
    """The time as the API takes it."""
    return time.isoformat().replace("+00:00", "Z")


def then(invocation: Invocation, address: Address) -> Address:
    """The address at its time: the ref becomes the id of a commit, which is named on stderr, and
    in JSON below `graveler`.

    Without a time, the address as it is, without a request.  Otherwise one request for the first 32
    commits, and one for each 1,000 more.  Raises `NotFound` if no commit is that old, and
    `Unsupported` if more than 100,000 are younger."""
    name, mark, inner = address.ref.partition("@{")
    text = str(invocation.flags.get("at", ""))
    if mark:
        if not inner.endswith("}") or not name:
            raise UsageMistake(f"ref invalid: {address.ref!r}: write REF@{{2 days ago}}")
        text = inner[:-1]
    if not text:
        return address
    moment = parse(text)
    where = replace(address, ref=name, path="")
    commit = _commit(invocation, where, moment)
    subject = first_line(commit.message)
    date = invocation.output.time(int(commit.created.timestamp()))
    invocation.output.note(
        f"{where} at {rfc3339(moment)}: {commit.id[:12]} of {date}: {plain(subject)}\n"
        "by the dates of its history as it is now: what a reset or an undo took away is not seen"
    )
    invocation.output.past.append(
        {"ref": str(where), "time": int(moment.timestamp()), "commit_id": commit.id}
    )
    return replace(address, ref=commit.id)


def since(invocation: Invocation, address: Address) -> tuple[Address, Address]:
    """Both ends of the span that `--at` begins: the address at that time, and the address now, or
    at the time that it has itself, as `lake/main@{2 days ago}`."""
    now = replace(address, ref=address.ref.partition("@{")[0])
    end = address if now == address else then(invocation, address)
    return then(invocation, now), end


def is_past(invocation: Invocation) -> bool:
    """Whether `--at` was given."""
    return bool(invocation.flags.get("at"))


def _commit(invocation: Invocation, where: Address, moment: datetime) -> "Commit":
    oldest, count = None, 0
    for commit in _first_parents(invocation, where):
        if commit.created <= moment:
            return commit
        oldest = commit
        count += 1
    if count >= _COMMITS_MAX or oldest is None:
        when = rfc3339(moment)
        raise Unsupported(f"more than {_COMMITS_MAX:,} commits of {where} are younger than {when}")
    born = rfc3339(oldest.created)
    reason = f"no commit of {where} is that old: the first one, {oldest.id[:12]}, is of {born}"
    remedy = on(invocation, where, f"graveler log {where.unprofiled} --first-parent")
    raise NotFound(reason, reason=reason, remedy=remedy)


def _first_parents(invocation: Invocation, where: Address) -> "Iterator[Commit]":
    ref, after = invocation.at(where), ""
    for amount in (_FIRST_PAGE, _COMMITS_MAX - _FIRST_PAGE):
        commit = None
        for commit in ref.log(amount, first_parent=True, after=after):
            yield commit
        if commit is None or not commit.parents:
            return
        after = commit.id
