"""Published snapshots: tables of commits that other engines read without this service."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from graveler.api import answers, shapes
from graveler.api.answers import Integer, Page, Shape
from graveler.api.operation import NOTHING, REPO, Body, Query, Resource
from graveler.api.shapes import Paging
from graveler.core.errors import Conflict, PreconditionFailed, Refused, Unsupported
from graveler.engine import snapshots
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import REPO_ARN
from graveler.http.service import Call
from graveler.refs.snapshots import Snapshot as Stored

_graveler: Final = Resource("graveler")

_SNAPSHOTS: Final = REPO + "/snapshots"
_VERSION_MAX: Final = 10**18

Name = Annotated[str, Meta(description="letters, digits and _ . = - with slashes between them")]


class SnapshotCreation(Body, frozen=True):
    """What to publish: the table below `path` at a commit, as the next version of a snapshot."""

    name: Name
    ref: str
    path: str
    version: Annotated[
        int,
        Meta(ge=0, le=_VERSION_MAX, description="the one after the published version, or 0"),
    ] = 0


class NameQuery(Query, frozen=True):
    """Which snapshot."""

    name: Name


class Snapshot(Shape, frozen=True):
    """A version of a snapshot.  `address`: under which engines read it.  `url`: where its file of
    the log is put, with `If-None-Match: *`; absent: it was put before."""

    name: str
    commit: str
    path: str
    version: Integer
    address: str
    creation_date: Integer
    url: str | UnsetType = UNSET


class SnapshotList(Page, frozen=True):
    """A page of snapshots."""

    results: list[Snapshot]


@_graveler.get("listSnapshots", _SNAPSHOTS, SnapshotList, ("fs:ListTags", REPO_ARN), runs=Runs.POOL)
def list_snapshots(call: Call, query: Paging) -> Answer:
    """List the snapshots, with the versions whose publication began last."""
    found, more = snapshots.list_page(call.repo, query.prefix, query.after, query.count)
    return answers.page(
        [_shape(call, each) for each in found], more, found[-1].name if more else ""
    )


@_graveler.get(
    "getSnapshot",
    _SNAPSHOTS + "/published",
    Snapshot,
    ("fs:ReadTag", REPO_ARN + "/tag/{name}"),
    runs=Runs.POOL,
)
def get_snapshot(call: Call, query: NameQuery) -> Answer:
    """Get the version of a snapshot that readers see."""
    return answers.json(_shape(call, snapshots.get(call.repo, query.name)))


@_graveler.post(
    "publishSnapshot",
    _SNAPSHOTS,
    {201: Snapshot},
    ("fs:CreateTag", REPO_ARN + "/tag/{name}"),
    errors=(Conflict, PreconditionFailed, Refused, Unsupported),
)
def publish(call: Call, body: SnapshotCreation) -> Answer:
    """Begin to publish a version of a snapshot; its commit is kept from now on."""
    begun = snapshots.begin(call.repo, body.name, body.ref, body.path, body.version)
    url = call.absolute(begun.url) if begun.url else UNSET
    return answers.json(_shape(call, begun.snapshot, url), 201)


@_graveler.delete(
    "withdrawSnapshot",
    _SNAPSHOTS,
    NOTHING,
    ("fs:DeleteTag", REPO_ARN + "/tag/{name}"),
    errors=(Conflict, Refused, Unsupported),
)
def withdraw(call: Call, query: NameQuery) -> Answer:
    """Withdraw a snapshot: its commits are kept no longer for it, and its log is deleted."""
    snapshots.withdraw(call.repo, query.name)
    return NO_CONTENT


def _shape(call: Call, stored: Stored, url: str | UnsetType = UNSET) -> Snapshot:
    return Snapshot(
        stored.name,
        stored.commit,
        stored.path,
        stored.version,
        snapshots.table_address(call.repo, stored.name),
        shapes.seconds(stored.began_ns),
        url,
    )
