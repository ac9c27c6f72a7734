"""Event rules: which objects that arrive in a bucket a repository stages and commits."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from graveler.lake.answers import Record, moment, told
from graveler.lake.errors import Raising
from graveler.lake.ref import Ref, name_of
from graveler.lake.session import having, results_of
from graveler.lake.show import Listing

if TYPE_CHECKING:
    from graveler.lake.repository import Repository


@dataclass(frozen=True)
class EventRule(Record):
    """A rule; its fields are those of `events.create`.  `committer` created it, and is empty if the
    server does not say."""

    id: str
    branch: str
    bucket: str
    prefix: str
    suffix: str
    path: str
    objects: int
    seconds: int
    marker: str
    created: datetime | None = None
    committer: str = ""


class EventRules(Raising):
    """Which objects that arrive in a bucket the repository stages and commits."""

    def __init__(self, repository: "Repository") -> None:
        self._repository = repository

    def _call(self, method: str, *id: str, body: Any = None) -> Any:
        return self._repository._call(method, "events", "rules", *id, body=body)

    def __repr__(self) -> str:
        return repr(self._shown())

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()

    def _shown(self) -> Listing[EventRule]:
        names = ("id", "branch", "bucket", "prefix", "path")
        title = f"event rules of {self._repository.name}"
        return Listing(
            lambda: iter(self.list()), title, names, lambda each: [getattr(each, n) for n in names]
        )

    def list(self) -> tuple[EventRule, ...]:
        """The rules, sorted by id.  One request."""
        return tuple(map(_rule, results_of(self._call("GET"))))

    def get(self, id: str) -> EventRule:
        """One rule.  One request."""
        return _rule(self._call("GET", id))

    def create(
        self,
        branch: Ref | str,
        bucket: str,
        *,
        prefix: str = "",
        suffix: str = "",
        path: str = "{key}",
        objects: int = 0,
        seconds: int = 300,
        marker: str = "",
    ) -> EventRule:
        """Stage what arrives in a bucket from now on, and commit it.  One request.

        `prefix`, `suffix`: of the keys.  `path`: where an object is staged, from `{key}`, `{rest}`
        (the key after the prefix) and `{bucket}`.  A batch is committed when it has `objects`
        objects (0: any number), after `seconds`, or when an object with the name `marker` has
        arrived.  Raises `Invalid`, which names the part that is not possible, and `Conflict` with
        the id of an equal rule; after `OutcomeUnknown`, call again."""
        body = {
            "branch": name_of(branch),
            "bucket": bucket,
            "prefix": prefix,
            "suffix": suffix,
            "path": path,
            "objects": objects,
            "seconds": seconds,
            "marker": marker,
        }
        return _rule(self._call("POST", body=body))

    def delete(self, rule: EventRule | str) -> None:
        """End a rule; the objects that it staged stay.  One request."""
        self._call("DELETE", rule.id if isinstance(rule, EventRule) else rule)


def _rule(answer: Any) -> EventRule:
    names = ("id", "branch", "bucket", "prefix", "suffix", "path", "objects", "seconds", "marker")
    fields = having(answer, "creation_date", *names)
    rule = EventRule(
        **{name: fields[name] for name in names},
        created=moment(fields["creation_date"]),
        committer=fields.get("committer", ""),
    )
    return told(rule, answer)
