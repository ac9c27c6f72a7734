"""Operations that write, copy or delete objects."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import md5
from typing import Final, NamedTuple, NoReturn

from graveler.api.object_writes import hooks_off
from graveler.auth.access import refusal, seeing
from graveler.block.adapter import OVERWRITE, Update
from graveler.core import limits
from graveler.core.errors import Code, GravelerError, Invalid, NotFound
from graveler.core.records import ABSENT, Entry
from graveler.core.wire import encode_entry
from graveler.engine.commits.heads import resolved
from graveler.engine.objects import copies, write
from graveler.engine.objects.copies import CopySource
from graveler.engine.objects.rows import Condition, check_mode
from graveler.engine.objects.write import Upload, check_branch
from graveler.engine.ports import OpenRepository, check_writable, open_repository
from graveler.engine.repositories import repository
from graveler.gateway.errors import S3Error, report_of
from graveler.gateway.long_answers import long_answer
from graveler.gateway.metadata import description_of
from graveler.gateway.operation import (
    COPY_SOURCE,
    DELETE_OBJECT,
    READ_SOURCE,
    WRITE_CONDITIONS,
    WRITE_OBJECT,
    S3Call,
    operation,
)
from graveler.gateway.reads import READ_CONDITIONS, entry_at
from graveler.gateway.request import (
    NO_VERSION,
    NOWHERE,
    Address,
    Level,
    Node,
    XmlBounds,
    address_in,
)
from graveler.gateway.xml import NAMESPACE, Markup, Template, document, joined, timestamp
from graveler.http import conditions, intake, permissions
from graveler.http.answers import NO_CONTENT, Answer, Headers, text_header
from graveler.http.conditions import Outcome
from graveler.http.dispatch import Runs
from graveler.refs.resolve import parse

# ---- the ref of a write --------------------------------------------------------------------------

_ONLY_BRANCHES: Final = "Only a branch can be written, not a tag, a commit or another expression."


def check_target(repo: OpenRepository, ref: str) -> None:
    """Raises `S3Error`: MethodNotAllowed for a ref that is no branch, NoSuchBucket for an unknown
    one; and `Refused` for a protected branch and for a read-only repository.

    No KV request if the branch is cached, else 1; for what is no branch, the cost of its
    resolution.
    """
    try:
        check_branch(repo, ref)
    except (NotFound, Invalid) as error:
        if error.code not in (Code.BRANCH_NOT_FOUND, Code.BRANCH_NAME_INVALID):
            raise
        _explain(repo, ref)
    check_writable(repo.record, force=False)


def _explain(repo: OpenRepository, ref: str) -> NoReturn:
    """Why a ref that is no branch can not be written."""
    with suppress(Invalid):
        if parse(ref).modifiers:
            raise S3Error("MethodNotAllowed", _ONLY_BRANCHES)
    with suppress(NotFound, Invalid):
        resolved(repo, ref)
        raise S3Error("MethodNotAllowed", _ONLY_BRANCHES)
    raise S3Error("NoSuchBucket")


# ---- writes --------------------------------------------------------------------------------------

BODY_ERRORS: Final = (
    *("BadDigest", "EntityTooLarge", "IncompleteBody", "InvalidArgument", "InvalidDigest"),
    *("InvalidRequest", "MissingContentLength", "StorageFull", "XAmzContentSHA256Mismatch"),
)
_WRITE_ERRORS: Final = (
    *("ErrReadOnlyRepository", "ErrWriteToProtectedBranch", "InvalidStorageClass"),
    *("MetadataTooLarge", "MethodNotAllowed", "NoSuchBucket", "NoSuchKey", "NotImplemented"),
    "PreconditionFailed",
)
_COPIED: Final = Template(
    f'<CopyObjectResult xmlns="{NAMESPACE}"><LastModified>{{}}</LastModified>'
    "<ETag>&#34;{}&#34;</ETag></CopyObjectResult>"
)
_OF_SOURCE: Final = "x-amz-copy-source-"
SOURCE_CONDITIONS: Final = tuple(_OF_SOURCE + name for name in READ_CONDITIONS)
_DIRECTIVE: Final = b"x-amz-metadata-directive"
_STORAGE_CLASS: Final = b"x-amz-storage-class"
USUAL_CLASS: Final = "STANDARD"
_OF_NOTHING: Final = md5(b"", usedforsecurity=False).hexdigest()


def condition_of(call: S3Call) -> Condition:
    """The condition of a write or a deletion.  Raises `Invalid` for an empty one."""
    return conditions.of_write(call.headers, finds=True)


def source_of(call: S3Call) -> CopySource:
    """What a copy reads, if the source satisfies the conditions of the request.

    Raises `S3Error`: NoSuchBucket, NoSuchKey, PreconditionFailed; `Invalid` for an empty condition;
    and as `read.stat`.
    """
    source = call.source
    repo = call.repo
    if source.bucket != call.address.bucket:
        try:
            repo = open_repository(call.ports, repository.get(call.ports, source.bucket))
        except (NotFound, Invalid) as error:
            raise S3Error("NoSuchBucket") from error
    entry = entry_at(repo, source)
    named = _source_conditions(call.headers)
    conditions.check_tags(named)
    if conditions.of_read(named, conditions.validators_of(entry)) is not Outcome.PROCEED:
        raise S3Error("PreconditionFailed")
    return CopySource(repo, source.path, entry)


def _source_conditions(headers: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The conditions of the source of a copy, by the names that conditions of a read have."""
    return {
        name.encode(): headers[header]
        for name in READ_CONDITIONS
        if (header := (_OF_SOURCE + name).encode()) in headers
    }


def etag_header(checksum: str) -> tuple[bytes, bytes]:
    """The header ETag of an object or a part."""
    return text_header(b"etag", f'"{checksum}"')


def storage_class_of(headers: Mapping[bytes, bytes]) -> str:
    """The storage class that a request asks for; empty is the usual one.  Raises `S3Error`."""
    if _STORAGE_CLASS not in headers:
        return ""
    text = headers[_STORAGE_CLASS].decode("latin-1")
    try:
        write.check_storage_class(text)
    except Invalid as error:
        raise S3Error("InvalidStorageClass") from error
    return "" if text == USUAL_CLASS else text


@operation(
    "PutObject",
    "PUT",
    Level.KEY,
    permissions=(WRITE_OBJECT,),
    errors=(*_WRITE_ERRORS, *BODY_ERRORS),
    conditions=WRITE_CONDITIONS,
    runs=Runs.STREAM,
    writes=True,
)
async def put_object(call: S3Call) -> Answer:
    """Store the body of the request as an object; a small one together with those of others.

    `main/` is the top of a branch and no object: an empty body there changes nothing.
    """
    path, length = call.address.path, call.payload.length
    if not path:
        if length or not call.address.has_slash:
            raise S3Error("NoSuchKey")
        return Answer(200, (etag_header(_OF_NOTHING),))
    described, mode = description_of(call.headers), condition_of(call)
    storage_class = storage_class_of(call.headers)

    def upload_of(content: Iterable[bytes]) -> Upload:
        return Upload(content, described.content_type, described.metadata, mode, storage_class)

    _, entry, _ = await intake.upload(call, call.address.ref, path, call.payload, upload_of)
    echo: Headers = call.payload.echo()
    return Answer(200, (etag_header(entry.checksum), *echo, *hooks_off(call, path)))


@operation(
    "CopyObject",
    "PUT",
    Level.KEY,
    COPY_SOURCE,
    permissions=(WRITE_OBJECT, READ_SOURCE),
    errors=(*_WRITE_ERRORS, "InvalidArgument", "InvalidRequest", "NoSuchVersion", "StorageFull"),
    conditions=(*WRITE_CONDITIONS, *SOURCE_CONDITIONS),
    runs=Runs.STREAM,
    writes=True,
)
async def copy_object(call: S3Call) -> Answer:
    """Copy an object of any ref of any repository.

    A copy onto itself replaces only the description.  The etag is that of the source.  The storage
    class is the usual one: `BlockStore.copy` takes no other.
    """
    if not call.address.path:
        raise S3Error("NoSuchKey")
    mode, replaces = condition_of(call), _replaces(call.headers)
    # A copy onto itself that replaces the description writes no bytes, so it keeps its class.
    if storage_class_of(call.headers) and not (_names_itself(call) and replaces):
        raise S3Error("NotImplemented", "not implemented: a storage class of a copy")

    def work() -> Markup:
        entry = _copied(call, source_of(call), mode, replaces=replaces)
        return _COPIED(timestamp(entry.modified_ns), entry.checksum)

    return await long_answer(call, work)


def _replaces(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the copy gets the description of the request, and not that of the source."""
    directive = headers.get(_DIRECTIVE, b"COPY")
    if directive not in (b"COPY", b"REPLACE"):
        raise S3Error("InvalidArgument", "Unknown metadata directive.")
    return directive == b"REPLACE"


def _copied(call: S3Call, source: CopySource, mode: Condition, *, replaces: bool) -> Entry:
    ref, path = call.address.ref, call.address.path
    headers = description_of(call.headers)
    description = write.Description(headers.content_type, headers.metadata)
    if not _names_itself(call):
        new = description if replaces else ABSENT
        return copies.copy_entry(call.repo, ref, path, source, new, mode)
    if replaces:
        if mode is OVERWRITE and _source_conditions(call.headers):
            mode = Update(source.entry.checksum)  # the entry that satisfied them
        return copies.describe(call.repo, ref, path, description, mode)
    if _STORAGE_CLASS not in call.headers:
        raise S3Error(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without "
            "changing the object's metadata, storage class, website redirect location or "
            "encryption attributes.",
        )
    check_mode(path, encode_entry(source.entry), mode)
    return source.entry


def _names_itself(call: S3Call) -> bool:
    source, target = call.source, call.address
    return (source.bucket, source.ref, source.path) == (target.bucket, target.ref, target.path)


# ---- deletions -----------------------------------------------------------------------------------

_RESULT: Final = Template(f'<DeleteResult xmlns="{NAMESPACE}">{{}}</DeleteResult>')
_DELETED: Final = Template("<Deleted><Key>{}</Key></Deleted>")
_ERROR: Final = Template("<Error><Key>{}</Key><Code>{}</Code><Message>{}</Message></Error>")
_BOUNDS: Final = XmlBounds(limits.xml_delete_bytes_max, limits.xml_delete_elements_max)
_TRUE: Final = ("true", "1")
_OTHER_CONDITIONS: Final = ("LastModifiedTime", "Size")


class _Item(NamedTuple):
    """A key of a batch: what it names and when to delete it, or why it names nothing."""

    key: str
    address: Address
    refused: GravelerError | None
    condition: Condition = OVERWRITE


@operation(
    "DeleteObject",
    "DELETE",
    Level.KEY,
    permissions=(DELETE_OBJECT,),
    errors=("InvalidArgument", "NoSuchBucket", "NoSuchKey", "PreconditionFailed"),
    conditions=WRITE_CONDITIONS,
    runs=Runs.POOL,
    writes=True,
)
def delete_object(call: S3Call) -> Answer:
    """Delete an object.  Without a condition, whether or not it exists.  `main/` and `main` name
    none."""
    condition = condition_of(call)
    if call.address.path:
        write.delete(call.repo, call.address.ref, call.address.path, condition)
    return NO_CONTENT


@operation(
    "DeleteObjects",
    "POST",
    Level.BUCKET,
    "delete",
    permissions=(DELETE_OBJECT,),
    errors=("MalformedXML",),
    runs=Runs.STREAM,
    by_item=True,
)
async def delete_objects(call: S3Call) -> Answer:
    """Delete up to 1,000 objects of any branches.  Each key is authorized and answered alone."""
    order = await call.document("Delete", _BOUNDS)
    return await call.service.pools.writers.start(_delete_all, call, order)


def _delete_all(call: S3Call, order: Node) -> Answer:
    items = _items(call, order)
    errors: dict[str, GravelerError] = {
        item.key: item.refused for item in items if item.refused is not None
    }
    by_ref: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        if item.key not in errors and item.address.path:  # `main/` is no object: nothing to delete
            by_ref[item.address.ref].append(item)
    for ref, of_ref in by_ref.items():
        errors |= _delete(call, ref, of_ref)
    quiet = order.value("Quiet").strip().lower() in _TRUE
    lines = (_line(item.key, errors, quiet=quiet) for item in items)
    return document(_RESULT(joined(lines)))


def _line(key: str, errors: dict[str, GravelerError], *, quiet: bool) -> Markup:
    error = errors.get(key)
    if error is None:
        return Markup("") if quiet else _DELETED(key)
    report = report_of(error)
    return _ERROR(key, report.code, report.message)


def _items(call: S3Call, order: Node) -> Sequence[_Item]:
    """The keys of a batch, each with the reason why it is refused, if it is.

    Raises `S3Error` for a batch that is none, and `Refused` for a caller that may delete none of
    its keys and may not see the repository: no answer tells it that the repository exists.
    """
    nodes = list(order.every("Object"))
    if not 1 <= len(nodes) <= limits.bulk_delete_count_max:
        raise S3Error("MalformedXML")
    items = [_item(call, node) for node in nodes]
    caller, seen = call.account, (seeing(call.address.bucket),)
    assert caller is not ABSENT, "every request is signed"
    if all(item.refused is not None for item in items) and caller.lacks(seen):
        raise refusal(seen[0])
    return items


def _item(call: S3Call, node: Node) -> _Item:
    key = node.value("Key")
    address = NOWHERE
    try:
        if not key:
            raise S3Error("MalformedXML")
        address = address_in(call.address.bucket, key)
        if permissions.lacks(call, DELETE_OBJECT.action, f"object/{address.path}"):
            raise S3Error("AccessDenied")
        if node.value("VersionId") not in NO_VERSION:
            raise S3Error("NoSuchVersion")
        if any(node.value(condition) for condition in _OTHER_CONDITIONS):
            raise S3Error("NotImplemented", "not implemented: a condition of a deletion")
        etag = node.value("ETag").encode()
        is_conditional = any(node.every("ETag"))  # an empty etag is refused
        condition = conditions.of_write({b"if-match": etag} if is_conditional else {}, finds=True)
    except (S3Error, Invalid) as error:
        return _Item(key, address, error)
    return _Item(key, address, None, condition)


def _delete(call: S3Call, ref: str, items: Sequence[_Item]) -> dict[str, GravelerError]:
    """Delete keys of one ref.  The result is why some were not deleted, by key."""
    errors: dict[str, GravelerError] = {}
    paths = [item.address.path for item in items if item.condition is OVERWRITE]
    try:
        check_target(call.repo, ref)
        failures = write.delete_many(call.repo, ref, paths) if paths else ()
    except GravelerError as error:
        return dict.fromkeys((item.key for item in items), error)
    for failure in failures:
        errors[f"{ref}/{failure.path}"] = failure.error
    for item in items:
        if item.condition is not OVERWRITE:
            try:
                write.delete(call.repo, ref, item.address.path, item.condition)
            except GravelerError as error:
                errors[item.key] = error
    return errors
