"""Branches, tags and commits in the format in which lakeFS dumps and restores refs.

    key: id of the branch, tag or commit        identity: the commit's id, in ASCII
    body: one message of wire.proto             framed like every value of a range

The properties of each table name and describe the message of its records.  The properties are
hashed into the table's id, so they equal those of the format, byte for byte.  Pure; layers 1 to 3
may import this.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from graveler.core import wire
from graveler.core import wire_pb2 as pb
from graveler.core.errors import Corrupt
from graveler.core.identity import frame, unframe
from graveler.core.ids import BranchId, CommitId, MetarangeId, TagId, is_hex64
from graveler.core.records import Commit, CommitEntry, Record

_SECOND_NS = 1_000_000_000
_TIME_NS_MAX = (1 << 63) - 1
_PACKAGE: Final = "io.treeverse.lakefs.graveler"
_ENTRY: Final = f".{_PACKAGE}.CommitData.MetadataEntry"


def branch_record(id: BranchId, commit: CommitId, *, hidden: bool) -> Record:
    """The record of a branch, without its staged rows."""
    return _record(id, commit, pb.BranchData(id=id, commit_id=commit, hidden=hidden))


def tag_record(id: TagId, commit: CommitId) -> Record:
    """The record of a tag."""
    return _record(id, commit, pb.TagData(id=id, commit_id=commit))


def commit_record(id: CommitId, commit: Commit) -> Record:
    """The record of a commit."""
    seconds, nanos = divmod(commit.created_ns, _SECOND_NS)
    message = pb.CommitData(
        id=id,
        committer=commit.committer,
        message=commit.message,
        creation_date=pb.Timestamp(seconds=seconds, nanos=nanos),
        meta_range_id=commit.metarange,
        metadata=commit.metadata,
        parents=commit.parents,
        version=commit.version,
        generation=commit.generation,
    )
    return _record(id, id, message)


def _record(key: str, commit: CommitId, message: Any) -> Record:
    body: bytes = message.SerializeToString(deterministic=True)
    return key.encode(), frame(commit.encode("ascii"), body)


# ---- what a dump holds ---------------------------------------------------------------------------


class DumpedRef(NamedTuple):
    """A branch or a tag of a dump.  Its name is not checked."""

    id: str
    commit: CommitId
    hidden: bool = False


def branch_of(record: Record) -> DumpedRef:
    """The branch that a record of a dump holds; its staging tokens are ignored.  Raises
    `Corrupt`."""
    body = wire.parse(pb.BranchData, unframe(record[1])[1], "dumped branch")
    return DumpedRef(body.id, _checked(record, body.id, body.commit_id), body.hidden)


def tag_of(record: Record) -> DumpedRef:
    """The tag that a record of a dump holds.  Raises `Corrupt`."""
    body = wire.parse(pb.TagData, unframe(record[1])[1], "dumped tag")
    return DumpedRef(body.id, _checked(record, body.id, body.commit_id))


def commit_of(record: Record) -> CommitEntry:
    """The commit that a record of a dump holds, without its place in the graph except the
    generation.  Its id is not compared with its hash.  Raises `Corrupt`."""
    body = wire.parse(pb.CommitData, unframe(record[1])[1], "dumped commit")
    id = _checked(record, body.id, body.id)
    created_ns = body.creation_date.seconds * _SECOND_NS + body.creation_date.nanos
    names = [*body.parents, *([body.meta_range_id] if body.meta_range_id else [])]
    if not 0 <= created_ns <= _TIME_NS_MAX or not all(map(is_hex64, names)):
        raise Corrupt(f"commit of a dump is invalid: commit={id}")
    commit = Commit(
        committer=body.committer,
        message=body.message,
        created_ns=created_ns,
        metarange=MetarangeId(body.meta_range_id),
        metadata=dict(body.metadata),
        parents=tuple(map(CommitId, body.parents)),
        generation=body.generation,
        version=body.version,
    )
    return CommitEntry(id, commit)


def _checked(record: Record, name: str, commit: str) -> CommitId:
    """The commit of a record whose key, identity and body agree.  Raises `Corrupt`."""
    key, value = record
    same = (key, unframe(value)[0]) == (name.encode(), commit.encode())
    if not same or not is_hex64(commit):
        raise Corrupt(f"record of a dump contradicts itself: key={key[:80]!r}")
    return CommitId(commit)


# ---- properties ----------------------------------------------------------------------------------


def _described(name: str, fields: Sequence[dict[str, Any]], **more: Any) -> Mapping[str, str]:
    """The properties of a table whose records are messages of type `<name>Data`."""
    described = {"name": f"{name}Data", "field": fields, **more}
    return {
        "entity": name.lower(),
        "schema_name": f"{_PACKAGE}.{name}Data",
        "schema_definition": json.dumps(described, separators=(", ", ":")),
    }


def _fields(*described: str) -> list[dict[str, Any]]:
    """Field descriptions, numbered from 1.  Each text is `name TYPE` or `name TYPE .type`; a `*`
    before TYPE means repeated."""
    return [_field(number, *text.split()) for number, text in enumerate(described, start=1)]


def _field(number: int, name: str, kind: str, of: str = "") -> dict[str, Any]:
    first, *rest = name.split("_")
    return {
        "name": name,
        "number": number,
        "label": "LABEL_REPEATED" if kind.startswith("*") else "LABEL_OPTIONAL",
        "type": f"TYPE_{kind.lstrip('*')}",
        **({"typeName": of} if of else {}),
        "jsonName": first + "".join(word.capitalize() for word in rest),
    }


BRANCHES: Final = _described(
    "Branch",
    _fields(
        "id STRING",
        "commit_id STRING",
        "staging_token STRING",
        "sealed_tokens *STRING",
        "hidden BOOL",
    ),
)
TAGS: Final = _described("Tag", _fields("id STRING", "commit_id STRING"))
COMMITS: Final = _described(
    "Commit",
    _fields(
        "id STRING",
        "committer STRING",
        "message STRING",
        "creation_date MESSAGE .google.protobuf.Timestamp",
        "meta_range_id STRING",
        f"metadata *MESSAGE {_ENTRY}",
        "parents *STRING",
        "version INT32",
        "generation INT32",
    ),
    nestedType=[
        {
            "name": "MetadataEntry",
            "field": _fields("key STRING", "value STRING"),
            "options": {"mapEntry": True},
        }
    ],
)
