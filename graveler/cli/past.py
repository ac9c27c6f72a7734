"""Refs as they were at a time: `--at '2 days ago'`, or `main@{2 days ago}` in an address.

A commit tells when it was made, and nothing tells when a branch moved.  So the commit of a ref at a
time is the newest one of its first parents that is not younger.  A branch that was reset or created
since then had other commits at that time: they are not seen.  For this folder.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from graveler.cli import moments
from graveler.cli.address import Address, UsageMistake
from graveler.cli.hints import on
from graveler.cli.invocation import Invocation, session_of
from graveler.cli.output import first_line, plain
from graveler.client import commits
from graveler.client.commits import Commit, LogFilter
from graveler.client.session import Session
from graveler.clock import SystemClock
from graveler.errors import NotFound, Unsupported

_FIRST_PAGE: Final = 32  # most questions are about the last days
_COMMITS_MAX: Final = 100_000


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
    moment = moments.parse(text, SystemClock().now_ns())
    where = replace(address, ref=name, path="")
    commit = _commit(invocation, where, moment)
    subject = first_line(commit["message"])
    date = invocation.output.time(commit["creation_date"])
    invocation.output.note(
        f"{where} at {moments.rfc3339(moment)}: {commit['id'][:12]} of {date}: {plain(subject)}\n"
        "by the dates of its history as it is now: what a reset or an undo took away is not seen"
    )
    invocation.output.past.append(
        {"ref": str(where), "time": int(moment.timestamp()), "commit_id": commit["id"]}
    )
    return replace(address, ref=commit["id"])


def since(invocation: Invocation, address: Address) -> tuple[Address, Address]:
    """Both ends of the span that `--at` begins: the address at that time, and the address now, or
    at the time that it has itself, as `lake/main@{2 days ago}`."""
    now = replace(address, ref=address.ref.partition("@{")[0])
    end = address if now == address else then(invocation, address)
    return then(invocation, now), end


def is_past(invocation: Invocation) -> bool:
    """Whether `--at` was given."""
    return bool(invocation.flags.get("at"))


def _commit(invocation: Invocation, where: Address, moment: datetime) -> Commit:
    limit, oldest = moment.timestamp(), None
    count = 0
    for commit in _first_parents(session_of(invocation, where), where):
        if commit["creation_date"] <= limit:
            return commit
        oldest = commit
        count += 1
    when = moments.rfc3339(moment)
    if count >= _COMMITS_MAX or oldest is None:
        raise Unsupported(f"more than {_COMMITS_MAX:,} commits of {where} are younger than {when}")
    born = moments.rfc3339(moments.of(oldest["creation_date"]))
    reason = f"no commit of {where} is that old: the first one, {oldest['id'][:12]}, is of {born}"
    remedy = on(invocation, where, f"graveler log {where.unprofiled} --first-parent")
    raise NotFound(reason, reason=reason, remedy=remedy)


def _first_parents(session: Session, where: Address) -> Iterator[Commit]:
    which, after = LogFilter(first_parent=True), ""
    for amount in (_FIRST_PAGE, _COMMITS_MAX - _FIRST_PAGE):
        commit = None
        for commit in commits.log(
            session, where.repository, where.ref, which, after=after, amount=amount
        ):
            yield commit
        if commit is None or not commit["parents"]:
            return
        after = commit["id"]
