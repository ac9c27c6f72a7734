"""Operations that write one object: from the body of the request, or from another object."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from hashlib import md5
from typing import Final

from graveler.api.answers import Answer, Headers, text_header
from graveler.api.object_writes import hooks_off
from graveler.api.operation import Runs
from graveler.block.adapter import OVERWRITE, Update
from graveler.engine.objects import copies, write
from graveler.engine.objects.copies import CopySource
from graveler.engine.objects.rows import Condition, check_mode
from graveler.engine.objects.write import NewUpload, Upload
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.errors import Invalid, NotFound
from graveler.gateway.address import Level
from graveler.gateway.content import length_of, stored
from graveler.gateway.errors import S3Error
from graveler.gateway.long_answers import long_answer
from graveler.gateway.metadata import description_of
from graveler.gateway.operation import (
    COPY_SOURCE,
    READ_SOURCE,
    WRITE_CONDITIONS,
    WRITE_OBJECT,
    S3Call,
    operation,
)
from graveler.gateway.reads import READ_CONDITIONS, entry_at
from graveler.gateway.times import timestamp
from graveler.gateway.xml import NAMESPACE, Markup, Template
from graveler.http import conditions
from graveler.http.conditions import Outcome
from graveler.records import ABSENT, Entry
from graveler.wire import encode_entry

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
    path, length = call.address.path, length_of(call)
    if not path:
        if length or not call.address.has_slash:
            raise S3Error("NoSuchKey")
        return Answer(200, (etag_header(_OF_NOTHING),))
    described, mode = description_of(call.headers), condition_of(call)
    storage_class = storage_class_of(call.headers)

    batches = call.service.pools.uploads

    def upload_of(content: Iterable[bytes]) -> Upload:
        return Upload(content, described.content_type, described.metadata, mode, storage_class)

    def check() -> None:
        write.check_upload(call.repo, call.address.ref, path, upload_of(()))

    def store(content: Iterable[bytes]) -> Entry:
        return write.upload(call.repo, call.address.ref, path, upload_of(content))

    def store_small(content: Sequence[bytes]) -> Awaitable[Entry]:
        assert batches is not ABSENT
        return batches.start(NewUpload(call.repo, call.address.ref, path, upload_of(content)))

    is_batched = mode is OVERWRITE and batches is not ABSENT
    entry = await stored(call, check, store, store_small if is_batched else ABSENT)
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
