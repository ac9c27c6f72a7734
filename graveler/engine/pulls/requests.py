"""Pull requests: create, get, list, update, and close those of a deleted branch.

A request may be open only while both branches exist.  A creation writes the index rows and the
record first, and then looks at the branches again; a deletion of a branch swaps the branch record
first, and then looks into the index.  So one of the two sees the other, and closes the request.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from graveler import limits
from graveler.engine.ports import OpenRepository, UnconfirmedWrite, check_writable
from graveler.engine.pulls import attempts
from graveler.errors import Code, Contended, Invalid, NotFound, OutcomeUnknown
from graveler.ids import NO_COMMIT, BranchId, PullId, parse_branch_id, parse_pull_id
from graveler.records import ABSENT, Absent, PullRequest, PullState
from graveler.refs.names import branches, pulls
from graveler.refs.names.pulls import Changed, PullPage, PullQuery


@dataclass(frozen=True, slots=True)
class NewPull:
    """A request to merge the branch `source` into the branch `destination`."""

    title: str
    source: str
    destination: str
    author: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class PullChanges:
    """What an update replaces; ABSENT stays as it is."""

    title: str | Literal[Absent.ABSENT] = ABSENT
    description: str | Literal[Absent.ABSENT] = ABSENT
    state: PullState | Literal[Absent.ABSENT] = ABSENT


def create(repo: OpenRepository, new: NewPull) -> PullRequest:
    """Open a request.

    Errors: `Invalid` (one branch for both, a text that is too long), `NotFound` (a branch; the
    request is closed then, if it was made), `Refused`, `OutcomeUnknown`.  Cost: 4 KV requests.
    """
    check_writable(repo.record, False)
    source = parse_branch_id(new.source, "source_branch")
    destination = parse_branch_id(new.destination, "destination_branch")
    _check_texts(new.title, new.description)
    if source == destination:
        raise Invalid(
            f"source and destination are the same branch: {source=}", Code.PULL_SAME_BRANCH
        )
    now_ns = repo.clock.now_ns()
    pull = PullRequest(
        pulls.new_id(now_ns, repo.ids),
        new.title,
        new.description,
        new.author,
        source,
        destination,
        PullState.OPEN,
        now_ns,
    )
    _check_live(repo, pull)
    pulls.note_open(repo.kv, repo.record, pull, repo.ids.stamp())
    pulls.create(repo.kv, repo.record, pull, repo.ids)
    _confirm_live(repo, pull)
    return pull


def get(repo: OpenRepository, pull: str) -> PullRequest:
    """One request, read from the store now.  `NotFound`, `Invalid`.  Cost: 1 KV request."""
    return pulls.get(repo.kv, repo.record, parse_pull_id(pull))


def list_page(repo: OpenRepository, query: PullQuery) -> PullPage:
    """A page of requests, the newest first.

    Cost: 1 KV request; for states that are rare 1 for each 1,000 requests, at most 10.
    """
    return pulls.list_page(repo.kv, repo.record, query)


def update(repo: OpenRepository, pull: str, changes: PullChanges) -> None:
    """Replace title, description or state.  Atomic; the call may be repeated.

    A closed request may be opened again.  So may a merged one: it can be merged once more then.
    So can one of which nobody can tell whether a merge landed (`attempts.is_in_doubt`).
    Closing a request does not stop a merge of it that has begun.
    Errors: `Invalid` (also for a state that only a merge sets, and for closing a merged request),
    `NotFound` (the request; to open it, a branch), `Refused`, `Contended`, `OutcomeUnknown`.
    Cost: 2 KV requests; to open it 4 more, and those of `attempts.is_in_doubt`.
    """
    check_writable(repo.record, False)
    name = parse_pull_id(pull)
    _check_texts(
        "" if changes.title is ABSENT else changes.title,
        "" if changes.description is ABSENT else changes.description,
    )
    opens = changes.state is PullState.OPEN
    if opens:
        seen = pulls.get(repo.kv, repo.record, name)
        _check_live(repo, seen)
        pulls.note_open(repo.kv, repo.record, seen, repo.ids.stamp())
        is_in_doubt = seen.state is PullState.CLOSED and attempts.is_in_doubt(repo, seen)

    def change(record: PullRequest, lost: bool) -> Changed:
        is_next = record.state is PullState.MERGED or (
            opens and is_in_doubt and attempts.has_same_note(record, seen)
        )
        try:
            new = _changed(repo, record, changes, is_next=is_next)
        except Invalid as error:
            if lost:
                raise _unconfirmed(name) from error
            raise
        if new == record:
            return ABSENT
        if lost:
            raise _unconfirmed(name)
        return new

    pulls.change(repo.kv, repo.record, name, repo.ids, change)
    if opens:
        _confirm_live(repo, seen)


def _unconfirmed(pull: PullId) -> OutcomeUnknown:
    """Our write may have been applied, and another client may have replaced it."""
    return OutcomeUnknown(f"update not confirmed: {pull=}")


def _changed(
    repo: OpenRepository, record: PullRequest, changes: PullChanges, *, is_next: bool
) -> PullRequest:
    """`is_next`: if the request is opened, it is for one more merge."""
    new = record
    if changes.title is not ABSENT:
        new = new._replace(title=changes.title)
    if changes.description is not ABSENT:
        new = new._replace(description=changes.description)
    if changes.state is ABSENT or changes.state is record.state:
        return new
    if changes.state is PullState.CLOSED and record.state is PullState.OPEN:
        return _closed(repo, new)
    if changes.state is not PullState.OPEN:
        raise Invalid(
            f"bad pull request status: pull={record.id} status={record.state.name}",
            Code.PULL_STATE_INVALID,
        )
    if is_next:
        new = attempts.without_note(new)._replace(opening=record.opening + 1, merged=NO_COMMIT)
    return new._replace(state=PullState.OPEN, closed_ns=0)


def close_all(repo: OpenRepository, branch: BranchId) -> None:
    """Close the open requests from and into a branch that does not exist any more.

    A request stays open if the branch exists when the request was read: it may be one of the next
    branch of this name, whose creation has closed those of the branch before.

    Errors: `OutcomeUnknown`: some may be open still; the call may be repeated.
    Cost: 1 KV request for each 1,000 requests that the branch ever had, 1 for each of them, and 2
    more for each that is open.
    """

    def change(record: PullRequest, _: bool) -> Changed:
        if record.state is not PullState.OPEN or branches.is_live(repo.kv, repo.record, branch):
            return ABSENT
        return _closed(repo, record)

    with UnconfirmedWrite("closing pull requests") as unconfirmed:
        unconfirmed.mark_unconfirmed()
        for pull in pulls.maybe_open(repo.kv, repo.record, branch):
            with suppress(NotFound):  # its creation did not get that far, and closes it itself
                _change(repo, pull, change)


def _close(repo: OpenRepository, pull: PullId) -> None:
    def change(record: PullRequest, _: bool) -> Changed:
        return ABSENT if record.state is not PullState.OPEN else _closed(repo, record)

    _change(repo, pull, change)


def _closed(repo: OpenRepository, record: PullRequest) -> PullRequest:
    return record._replace(state=PullState.CLOSED, closed_ns=repo.clock.now_ns())


def _change(
    repo: OpenRepository, pull: PullId, change: Callable[[PullRequest, bool], Changed]
) -> None:
    try:
        pulls.change(repo.kv, repo.record, pull, repo.ids, change)
    except Contended as error:
        raise OutcomeUnknown(f"pull request not closed: {pull=}") from error


def _check_texts(title: str, description: str) -> None:
    if len(title) > limits.pull_title_length_max:
        raise Invalid(f"title is too long: at most {limits.pull_title_length_max} characters")
    try:
        length = len((title + description).encode())
    except UnicodeEncodeError as error:
        raise Invalid("title or description is not valid Unicode") from error
    if length > limits.pull_description_length_bytes_max:
        most = limits.pull_description_length_bytes_max
        raise Invalid(f"title and description are too long: at most {most} bytes")


def _check_live(repo: OpenRepository, pull: PullRequest) -> None:
    """Raises `NotFound` unless both branches exist.  1 KV request."""
    names = (pull.source, pull.destination)
    places = [branches.place(repo.record, name) for name in names]
    stored = repo.kv.get_many(places)
    for name, place in zip(names, places, strict=True):
        row = stored.get(place)
        if row is None or not branches.decode(row).branch.live:
            raise NotFound(f"branch '{name}' not found", Code.BRANCH_NOT_FOUND, branch=name)


def _confirm_live(repo: OpenRepository, pull: PullRequest) -> None:
    """Close the request that was just opened, if a branch was deleted meanwhile: `NotFound`."""
    with UnconfirmedWrite("opening a pull request") as unconfirmed:
        unconfirmed.mark_unconfirmed()
        try:
            _check_live(repo, pull)
        except NotFound:
            _close(repo, pull.id)  # also if the branch was created again by now
            raise
