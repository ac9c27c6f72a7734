"""The declaration of an operation of S3.

    @operation("GetObject", "GET", Level.KEY, permissions=(READ_OBJECT,), runs=Runs.STREAM)
    async def get_object(call: S3Call) -> Answer: ...

What a request asks for follows from its method, its level and its marks: the sub-resources in the
query, and the header of a copy.  They must be exactly those of a declaration.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from graveler.auth.permissions import Permission
from graveler.core.records import ABSENT, Absent
from graveler.gateway.errors import CODES, S3Error
from graveler.gateway.payload import SignedPayload
from graveler.gateway.request import NOWHERE, Address, Level, Node, S3Request, XmlBounds, parse_xml
from graveler.http import dispatch
from graveler.http.dispatch import Runs, require, summary_of
from graveler.http.errors import TooLarge
from graveler.http.intake import whole_body
from graveler.http.permissions import OBJECT_ARN, REPO_ARN, template
from graveler.http.service import Call


class Ending:
    """An end that is told once."""

    def __init__(self) -> None:
        self._tell: Callable[[Exception | None], None] | None = None
        self._outcome: tuple[Exception | None] | tuple[()] = ()

    def on_end(self, tell: Callable[[Exception | None], None]) -> None:
        """Call `tell` with the error of the work, or None, once it has ended."""
        self._tell = tell
        self._do()

    def end(self, error: Exception | None) -> None:
        """The work has ended."""
        if not self._outcome:
            self._outcome = (error,)
            self._do()

    def give_up(self) -> bool:
        """The service stops.  Returns whether nobody was told of the end; nobody will be."""
        untold, self._tell = self._tell is not None, None
        return untold

    def _do(self) -> None:
        if self._tell is not None and self._outcome:
            tell, self._tell = self._tell, None
            tell(*self._outcome)


_FRAMES_BYTES_MAX: Final = 256 * 1024  # of the framing around the longest document
LABEL: Final = "s3:"  # before the names of operations in metrics and the audit trail
COPY_SOURCE: Final = "x-amz-copy-source"
_COPY_HEADER: Final = COPY_SOURCE.encode()
BELOW_REF: Final = "prefix/"  # the mark of a listing below a ref: its prefix has a slash

READ_REPOSITORY: Final = Permission("fs:ReadRepository", REPO_ARN)
READ_OBJECT: Final = Permission("fs:ReadObject", OBJECT_ARN)
WRITE_OBJECT: Final = Permission("fs:WriteObject", OBJECT_ARN)
DELETE_OBJECT: Final = Permission("fs:DeleteObject", OBJECT_ARN)
LIST_OBJECTS: Final = Permission("fs:ListObjects", REPO_ARN)
LIST_BRANCHES: Final = Permission("fs:ListBranches", REPO_ARN)
READ_SOURCE: Final = Permission(
    "fs:ReadObject", "arn:lakefs:fs:::repository/{source_repository}/object/{source_path}"
)
WRITE_CONDITIONS: Final = ("if-match", "if-none-match", "if-unmodified-since")
_ARGUMENTS: Final = (
    *("repository", "ref", "path"),
    *("source_repository", "source_ref", "source_path"),
)

# The sub-resources of S3.  An operation of the table says which it serves.
SUB_RESOURCES: Final = frozenset(
    {
        *("abac", "accelerate", "acl", "analytics", "append", "attributes", "cors", "delete"),
        *("encryption", "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "list-type"),
        *("location", "logging", "metadataConfiguration", "metadataInventoryTable"),
        *("metadataJournalTable", "metadataTable", "metrics", "notification", "object-lock"),
        *("ownershipControls", "partNumber", "policy", "policyStatus", "publicAccessBlock"),
        *("renameObject", "replication", "requestPayment", "restore", "retention", "select"),
        *("select-type", "session", "tagging", "torrent", "uploadId", "uploads", "versioning"),
        *("versions", "website"),
    }
)
# What s3cmd asks for before it copies an object, and to describe one or a bucket.  It goes on after
# a 501, and fails after the 405 of the others.
_NOT_IMPLEMENTED: Final = frozenset(
    {
        (Level.KEY, frozenset(("acl",))),
        *((Level.BUCKET, frozenset((name,))) for name in ("acl", "cors", "lifecycle")),
    }
)
# What to use instead of a sub-resource that is not served.
_INSTEAD: Final = {
    "policy": "rights are given by policies of users and groups, through the API",
    "tagging": "an object has user metadata instead of tags",
    "versioning": "versions are commits, which the API makes",
    "versions": "versions are commits: list a ref such as main~1/",
}
# Parameters that say how, not what.  Another one without a value counts as a sub-resource: those
# that S3 adds later look so.
_PARAMETERS: Final = frozenset(
    {
        *("bucket-region", "continuation-token", "delimiter", "encoding-type", "fetch-owner"),
        *("key-marker", "marker", "max-buckets", "max-keys", "max-parts", "max-uploads"),
        *("part-number-marker", "prefix", "start-after", "upload-id-marker", "versionId", "x-id"),
        *("AWSAccessKeyId", "Expires", "Signature"),
    }
)
_PARAMETER_PREFIXES: Final = ("x-amz-", "response-")
_READS: Final = frozenset(("GET", "HEAD"))

_AMZ: Final = b"x-amz-"
_NO_MARKS: Final = frozenset[str]()
# Headers that change what a request means, and that nothing here serves.
_REFUSED_HEADERS: Final = (
    b"x-amz-server-side-encryption-customer-",
    b"x-amz-copy-source-server-side-encryption-customer-",
    b"x-amz-server-side-encryption-aws-kms-",
    b"x-amz-write-offset-bytes",
    b"x-amz-rename-source",
)
_ENCRYPTION: Final = b"x-amz-server-side-encryption"
_LOCK: Final = b"x-amz-object-lock-"
_CONDITIONS: Final = (
    *(b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since"),
    *(
        b"x-amz-if-match-initiated-time",
        b"x-amz-if-match-last-modified-time",
        b"x-amz-if-match-size",
    ),
    *(b"x-amz-copy-source-if-match", b"x-amz-copy-source-if-none-match"),
    *(b"x-amz-copy-source-if-modified-since", b"x-amz-copy-source-if-unmodified-since"),
)


@dataclass(slots=True)
class S3Call(Call):
    """One request of an operation.  Its `arguments` are `repository`, `ref` and `path`, and for a
    copy `source_repository`, `source_ref` and `source_path`.  Its `headers` are the instructions of
    `request`."""

    request: S3Request = field(kw_only=True)
    address: Address = field(kw_only=True)
    payload: SignedPayload = field(kw_only=True)
    source: Address = field(kw_only=True, default=NOWHERE)
    # Of work that goes on after the answer has begun.
    ending: Ending | Literal[Absent.ABSENT] = field(kw_only=True, default=ABSENT)

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of the query."""
        return self.request.query

    @property
    def walks(self) -> bool:
        """Whether a ref of the request is resolved by walking the history."""
        refs = self.address.ref + self.source.ref
        return "~" in refs or "^" in refs

    async def document(self, root: str, bounds: XmlBounds) -> Node:
        """The document in the body of the request, with `root` as its first element.  Raises
        `S3Error`, `Disconnected`."""
        try:
            most = bounds.bytes_max + _FRAMES_BYTES_MAX
            raw = await whole_body(self.receive, self.headers, most)
        except TooLarge as error:
            raise S3Error("MaxMessageLengthExceeded") from error

        def parsed() -> Node:
            return parse_xml(b"".join(self.payload.content((raw,))), root, bounds)

        return await self.service.pools.writers.start(parsed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(dispatch.Operation):
    """One operation of S3.

    `marks`: what distinguishes its requests, beside method and level.  `errors`: codes of the
    table.  `conditions`: the headers of conditions that the endpoint evaluates; a change with
    another one is refused.  `writes`: the ref must be a branch that may be written.
    """

    level: Level
    marks: frozenset[str]
    conditions: frozenset[str]
    writes: bool
    in_repository: bool

    @property
    def label(self) -> str:
        """Its name in metrics and in the audit trail."""
        return LABEL + self.name

    @property
    def audited(self) -> bool:
        """Whether it changes something, so that each answer is put on record."""
        return self.method not in _READS


def operation(
    name: str,
    method: str,
    level: Level,
    *marks: str,
    permissions: tuple[Permission, ...],
    errors: tuple[str, ...] = (),
    conditions: tuple[str, ...] = (),
    runs: Runs = Runs.WALK,
    writes: bool = False,
    by_item: bool = False,
    in_repository: bool = True,
) -> Callable[[Callable[..., Any]], Operation]:
    """Declare the decorated function as the endpoint of an operation.  Raises `TypeError`."""

    def declare(function: Callable[..., Any]) -> Operation:
        require(name, bool(permissions), "permissions are needed")
        require(name, CODES.keys() >= frozenset(errors), "its errors have codes of the table")
        require(name, frozenset(marks) <= _KNOWN_MARKS, "its marks are known")
        return Operation(
            name=name,
            method=method,
            level=level,
            marks=frozenset(marks),
            summary=summary_of(name, function),
            permissions=permissions,
            actions=frozenset(each.action for each in permissions),
            templates=tuple(template(each, _ARGUMENTS, ABSENT, ABSENT) for each in permissions),
            errors=errors,
            conditions=frozenset(conditions),
            runs=runs,
            writes=writes,
            by_item=by_item,
            in_repository=in_repository and level is not Level.SERVICE,
            endpoint=function,
        )

    return declare


_KNOWN_MARKS: Final = SUB_RESOURCES | {COPY_SOURCE, BELOW_REF}


class OperationIndex:
    """All operations, by what distinguishes them."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._operations: dict[tuple[str, Level, frozenset[str]], Operation] = {}
        for each in operations:
            key = each.method, each.level, each.marks
            assert key not in self._operations, f"two operations for {key}"
            self._operations[key] = each

    def find(self, request: S3Request, address: Address) -> Operation:
        """The operation that a request asks for.

        Raises `S3Error`: MethodNotAllowed if there is none, NotImplemented for the ACL of an
        object, for the CORS and the lifecycle rules of a bucket, and for a header that nothing
        here serves, NoSuchVersion for a version.
        """
        marks = marks_of(request, address.level)
        operation = self._operations.get((request.method, address.level, marks))
        if operation is None:
            if (address.level, marks) in _NOT_IMPLEMENTED:
                raise S3Error("NotImplemented", f"not implemented: {', '.join(marks)}")
            raise S3Error("MethodNotAllowed", _not_served(request.method, address.level, marks))
        _check_headers(request, operation)
        if address.key and request.query.get("versionId", "null") != "null":
            raise S3Error("NoSuchVersion")
        return operation


def _not_served(method: str, level: Level, marks: frozenset[str]) -> str:
    """The text for a request that no operation serves."""
    name = f"{method} of a {level.value}" + (f" with {', '.join(sorted(marks))}" if marks else "")
    instead = next((text for mark, text in _INSTEAD.items() if mark in marks), "")
    if not marks and (method, level) == ("DELETE", Level.BUCKET):
        instead = "delete a repository through the API, or with `graveler repo delete`"
    return f"This operation is not supported: {name}" + (f": {instead}." if instead else ".")


def marks_of(request: S3Request, level: Level) -> frozenset[str]:
    """What distinguishes a request, beside its method and its level.  Pure."""
    query, is_read = request.query, request.method in _READS
    if not query and (request.method != "PUT" or _COPY_HEADER not in request.headers):
        return _NO_MARKS
    marks = {name for name, value in query.items() if _is_mark(name, value)}
    if is_read and level is Level.KEY and "uploadId" not in marks:
        marks.discard("partNumber")  # a part of an object: a parameter, not a part of an upload
    lists = request.method == "GET" and level is Level.BUCKET and marks <= {"list-type"}
    if lists and "/" in query.get("prefix", ""):
        marks.add(BELOW_REF)
    if level is Level.KEY and request.method == "PUT" and _COPY_HEADER in request.headers:
        marks.add(COPY_SOURCE)
    return frozenset(marks)


def _is_mark(name: str, value: str) -> bool:
    if name in SUB_RESOURCES:
        return True
    known = name in _PARAMETERS or name.lower().startswith(_PARAMETER_PREFIXES)
    return not value and not known


def _check_headers(request: S3Request, operation: Operation) -> None:
    """Raises `S3Error` for a header that asks for something else than the operation does."""
    headers = request.instructions
    for name, value in headers.items():
        if not name.startswith(_AMZ):
            continue
        if name.startswith(_REFUSED_HEADERS) or (name == _ENCRYPTION and value != b"AES256"):
            raise S3Error("NotImplemented", f"not implemented: {name.decode('latin-1')}")
        if name.startswith(_LOCK) and operation.audited:
            raise S3Error("InvalidRequest", "Bucket is missing Object Lock Configuration")
    if not operation.audited or headers.keys().isdisjoint(_CONDITIONS):
        return
    for header in _CONDITIONS:
        condition = header.decode()
        if header in headers and condition not in operation.conditions:
            raise S3Error("NotImplemented", f"not implemented: the condition {condition}")
