"""Rules by which a repository takes in what arrives in buckets, through the API of a server.

    rule = create(session, "lake", NewRule("main", "landing", prefix="sales/", path="raw/{rest}"))

Each call is one request, and raises what `Session.ask` does.  For whoever uses the package.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any

from graveler.client.session import Session, below
from graveler.errors import Internal


@dataclass(frozen=True, slots=True)
class NewRule:
    """Which objects of which bucket are staged where.

    `path` is made of `{key}`, `{rest}` (the key behind the prefix) and `{bucket}`.  A batch is
    committed when it has `objects` objects (0: any number), after `seconds`, or when an object
    whose name is `marker` has arrived.
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
    """A rule that is there; `creation_date` in seconds since 1970."""

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


def list_all(session: Session, repository: str) -> tuple[EventRule, ...]:
    """The rules of a repository, by id.  `NotFound`: no such repository."""
    found = session.ask("GET", _rules(repository))
    if not isinstance(found, dict) or not isinstance(found.get("results"), list):
        raise Internal("the server answers with no rules: it is no Graveler, or another version")
    return tuple(_rule(each) for each in found["results"])


def create(session: Session, repository: str, new: NewRule) -> EventRule:
    """Watch a bucket from now on.

    `Invalid` says which part of the rule cannot be; `NotFound`: no such repository or branch;
    `Conflict`: there is such a rule already, and its id is in the message.  `OutcomeUnknown`: ask
    again, and a conflict means that it was made.
    """
    return _rule(session.ask("POST", _rules(repository), asdict(new)))


def get(session: Session, repository: str, rule: str) -> EventRule:
    """One rule by its id.  `NotFound`: no such repository or rule."""
    return _rule(session.ask("GET", _rules(repository, rule)))


def delete(session: Session, repository: str, rule: str) -> None:
    """End a rule; what it took in stays.  `NotFound`: no such repository or rule."""
    session.ask("DELETE", _rules(repository, rule))


def _rules(repository: str, *rule: str) -> str:
    return below("repositories", repository, "events", "rules", *rule)


def _rule(said: Any) -> EventRule:
    names = [each.name for each in fields(EventRule)]
    if not isinstance(said, dict) or not said.keys() >= set(names):
        raise Internal("the server answers with no rule: it is no Graveler, or another version")
    return EventRule(**{name: said[name] for name in names})
