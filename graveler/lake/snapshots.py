"""Published snapshots: tables of commits as tables of Delta Lake, for engines without Graveler."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from graveler.core.errors import Conflict, Corrupt, NotFound, Unavailable
from graveler.lake.answers import Record, moment, told
from graveler.lake.connections import Request
from graveler.lake.errors import needing
from graveler.lake.session import Session, having, with_query

if TYPE_CHECKING:
    from graveler.lake.delta import Footer, Kind
    from graveler.lake.folders import File, Layout
    from graveler.lake.ref import Commit, Ref
    from graveler.lake.repository import Repository

_READERS: Final = 16
_SCHEMA: Final = "_schema.json"  # of graveler/spark/table_schema.py
_SCHEMA_BYTES_MAX: Final = 8 << 20
_ANSWER_BYTES_MAX: Final = 1 << 20
_TAKEN: Final = (409, 412)
_FIELDS: Final = ("name", "commit", "path", "version", "address")


@dataclass(frozen=True)
class Snapshot(Record):
    """A version of a published snapshot.  `address`: under which an engine reads it as a table of
    Delta Lake.  `commit`, `path`: the table that it shows."""

    name: str
    commit: str
    path: str
    version: int
    address: str
    created: datetime | None = None


def snapshot(answer: Any) -> Snapshot:
    """A snapshot from the answer of the API."""
    fields = having(answer, *_FIELDS, "creation_date")
    named = {name: fields[name] for name in _FIELDS}
    return told(Snapshot(**named, created=moment(fields["creation_date"])), fields)


def publish(ref: "Ref", prefix: str, name: str) -> Snapshot:
    """See `Ref.publish`."""
    with needing("arrow"):
        from graveler.lake import delta

    commit, repository = ref.pin(), ref.repository
    folder = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
    name = name or f"{commit.id}/{folder}".rstrip("/")
    before = _published(repository, name)
    if before is not None and (before.commit, before.path) == (commit.id, folder):
        return before
    now, stored = _table(commit, folder)
    then = None if before is None else _table(repository.commit(before.commit), before.path)[0]
    footers = _footers(commit, now)
    version = 0 if before is None else before.version + 1
    body = {"name": name, "ref": commit.id, "path": folder, "version": version}
    answer = repository._call("POST", "snapshots", body=body)
    made = snapshot(answer)
    if "url" in answer:
        metadata = {"engineInfo": "Graveler", "commit": commit.id, "path": folder}
        clock = repository.lake.session.clock
        about = delta.Version(made.address, clock.now_ns() // 1_000_000, metadata)
        lines = b"".join(delta.log(about, now, footers, then, stored))
        _put(repository.lake.session, str(answer["url"]), lines, made)
    return made


def _published(repository: "Repository", name: str) -> Snapshot | None:
    try:
        path = with_query(repository._path("snapshots", "published"), name=name)
        return snapshot(repository.lake.session.call("GET", path))
    except NotFound:
        repository._call("GET")  # it may be the repository that is not there
        return None


def _table(commit: "Commit", folder: str) -> "tuple[Layout, dict[str, Kind]]":
    """The files, and the columns of the schema that is stored with them."""
    from graveler.lake.delta import with_kinds
    from graveler.lake.folders import File, layout

    entries = (each for each in commit.list(folder) if each.size)
    files = [
        File(each.path, each.address, each.size, _milliseconds(each.modified)) for each in entries
    ]
    table = layout(files, folder)
    if not table.files:
        raise NotFound(f"no data files below {commit.address}/{folder}")
    has_schema = any(file.path == folder + _SCHEMA for file in files)
    stored = _stored(commit, folder + _SCHEMA) if has_schema else {}
    return with_kinds(table, stored), stored


def _stored(commit: "Commit", path: str) -> "dict[str, Kind]":
    """The columns in the schema that a table of Spark has in its folder; Delta spells types alike.
    Raises `Corrupt`."""
    try:
        fields = json.loads(commit.read_bytes(path, start=0, end=_SCHEMA_BYTES_MAX))["schema"]
        return {str(field["name"]): field["type"] for field in fields["fields"]}
    except (ValueError, LookupError, TypeError) as error:
        raise Corrupt(f"not a schema of a table: {path=} commit={commit.id}") from error


def _milliseconds(modified: datetime | None) -> int:
    return 0 if modified is None else int(modified.timestamp() * 1_000)


def _footers(commit: "Commit", table: "Layout") -> "dict[str, Footer]":
    from graveler.lake import delta

    def one(file: "File") -> "Footer":
        with commit.open(file.path, "rb") as opened:
            return delta.footer(file.path, opened)  # type: ignore[arg-type]

    with ThreadPoolExecutor(_READERS, "footers") as pool:
        read = pool.map(one, table.files)
        return {file.address: each for file, each in zip(table.files, read, strict=True)}


def _put(session: Session, url: str, lines: bytes, made: Snapshot) -> None:
    """Put the file of a version, which makes it visible, and never twice."""
    headers = {"If-None-Match": "*"}
    with session.connections.send(Request("PUT", url, headers, lines)) as answer:
        answer.read_all(_ANSWER_BYTES_MAX)
        if answer.status in _TAKEN:
            raise Conflict(
                "another writer has published this version; publish again, or withdraw the "
                f"snapshot first: name={made.name} version={made.version}"
            )
        if answer.status >= 300:
            raise Unavailable(f"the object store refused the log: status={answer.status}")
