"""Encodes branches, tags and commits in the format in which lakeFS dumps and restores refs.

    key: id of the branch, tag or commit        identity: the commit's id, in ASCII
    body: one message of wire.proto             framed like every value of a range

The properties of each table name and describe the message of its records.  The properties are
hashed into the table's id, so they equal those of the format, byte for byte.  Pure; layers 1 to 3
may import this.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from graveler import wire_pb2 as pb
from graveler.framing import frame
from graveler.ids import BranchId, CommitId, TagId
from graveler.records import Commit, Record

_SECOND_NS = 1_000_000_000
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
