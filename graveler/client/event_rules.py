"""Event rules over the API: which objects that arrive in a bucket a repository stages.

    rule = create(session, "lake", NewRule("main", "landing", prefix="sales/", path="raw/{rest}"))

Each call is one request and raises the errors of `Session.call`.
"""

from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from graveler.client.session import Session, below, having, results_of


@dataclass(frozen=True, slots=True)
class NewRule:
    """A rule to create: which objects of a bucket are staged, and at which path of a branch.

    `path` is a template with `{key}`, `{rest}` (the key after the prefix) and `{bucket}`.  A batch
    is committed when it has `objects` objects (0: any number), after `seconds`, or when an object
    with the name `marker` has arrived.
    """

    branch: str
    bucket: str
    prefix: str = ""
    suffix: str = ""
    path: str = "{key}"
    objects: int = 0
    seconds: int = 300
    marker: str = ""


@dataclass(frozen=True, slots=True)
class EventRule:
    """An existing rule.  `creation_date` is in seconds since 1970; `committer` created the rule,
    and is empty if the server does not say."""

    id: str
    creation_date: int
    branch: str
    bucket: str
    prefix: str
    suffix: str
    path: str
    objects: int
    seconds: int
    marker: str
    committer: str = ""


def list_all(session: Session, repository: str) -> tuple[EventRule, ...]:
    """The rules of a repository, sorted by id.  `NotFound`: the repository does not exist."""
    return tuple(map(_rule, results_of(session.call("GET", _rules(repository)))))


def create(session: Session, repository: str, new: NewRule) -> EventRule:
    """Create a rule; from now on the bucket is watched.

    Errors: `Invalid` names the part of the rule that is not possible.  `NotFound`: the repository
    or branch does not exist.  `Conflict`: an equal rule exists; the message has its id.  After
    `OutcomeUnknown`, call again; a conflict then means that the rule was created.
    """
    return _rule(session.call("POST", _rules(repository), asdict(new)))


def get(session: Session, repository: str, rule: str) -> EventRule:
    """One rule by its id.  `NotFound`: the repository or rule does not exist."""
    return _rule(session.call("GET", _rules(repository, rule)))


def delete(session: Session, repository: str, rule: str) -> None:
    """Delete a rule; the objects that it staged stay.  `NotFound`: the repository or rule does not
    exist."""
    session.call("DELETE", _rules(repository, rule))


def _rules(repository: str, *rule: str) -> str:
    return below("repositories", repository, "events", "rules", *rule)


def _rule(answer: Any) -> EventRule:
    having(answer, *(known.name for known in fields(EventRule) if known.default is MISSING))
    names = [known.name for known in fields(EventRule) if known.name in answer]
    return EventRule(**{name: answer[name] for name in names})
