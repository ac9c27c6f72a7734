"""Operations that change objects on a branch: upload, delete, copy, user metadata."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal

from msgspec import field

from graveler import limits
from graveler.api import answers, errors, forms, permits, shapes
from graveler.api.answers import NO_CONTENT, Answer, Content, Headers, Shape
from graveler.api.client_texts import text_for
from graveler.api.feed import Feed, Piece, next_piece, spooled
from graveler.api.field_types import Integer, Pairs
from graveler.api.operation import (
    BRANCH,
    OBJECT_ARN,
    REPO_ARN,
    Body,
    Conditional,
    Query,
    Runs,
    operation,
)
from graveler.api.queries import Force, PathQuery, WriteConditions
from graveler.api.requests import TooLarge
from graveler.api.service import Call
from graveler.api.shapes import ObjectStats
from graveler.auth.permissions import Permission
from graveler.block.adapter import OVERWRITE
from graveler.block.bodies import Spool
from graveler.crc32c import IS_FAST, extended
from graveler.engine.hooks import ACTIONS_FOLDER, NO_HOOKS
from graveler.engine.objects import copies, write
from graveler.engine.objects.copies import Source
from graveler.engine.objects.write import NewUpload, Upload
from graveler.errors import Contended, Invalid, PreconditionFailed, Refused, Unsupported
from graveler.http import conditions
from graveler.jobs import copy
from graveler.jobs.orders import CopyOrder
from graveler.records import ABSENT, Absent, Entry

_LOG: Final = logging.getLogger("graveler.api")
_OBJECTS: Final = BRANCH + "/objects"
_WRITE: Final = Permission("fs:WriteObject", OBJECT_ARN)
_DEFAULT_TYPE: Final = "application/octet-stream"
_DELETE: Final = "fs:DeleteObject"
_META: Final = b"x-lakefs-meta-"
_TOO_LARGE: Final = (
    "request body has an error: it must have at most {} bytes here; ask for a presigned URL "
    "(GET .../staging/backing with presign=true), put the object there and link it"
)
_INTERNAL: Final = b"x-lakefs-internal-"


class UploadQuery(PathQuery, frozen=True):
    """Where an object goes."""

    storage_class: str = field(default="", name="storageClass")
    force: Force = False


@operation(
    "uploadObject",
    "POST",
    _OBJECTS,
    tag="objects",
    permissions=(_WRITE,),
    answers={201: ObjectStats},
    errors=(Refused, PreconditionFailed, TooLarge, Unsupported),
    runs=Runs.STREAM,
    reads_body=True,
)
async def upload_object(call: Call, query: UploadQuery, headers: WriteConditions) -> Answer:
    """Upload an object: the raw body, or multipart/form-data with one part `content`.

    A body of one piece is stored from memory; a small one, unless the write is conditional,
    together with those of other requests.  A longer one goes to a spool while it arrives.  Unless
    it went together with others, the answer has a header with the CRC32C of the bytes that arrived.
    """
    mode = conditions.of_write(call.headers)
    content_type = call.header(b"content-type")
    boundary = forms.boundary_of(content_type)
    branch = call.arguments["branch"]
    await call.service.pools.point(write.check_branch, call.repo, branch)
    upload = Upload(
        (),
        content_type or _DEFAULT_TYPE,
        _user_metadata(call),
        mode,
        query.storage_class,
    )
    first, is_whole = await next_piece(call.receive)
    bytes_max = call.service.settings.inline_bytes_max
    if 0 < bytes_max < len(first):
        raise TooLarge(_TOO_LARGE.format(bytes_max))
    if is_whole:
        chunks = (first,) if first else ()
        if mode is OVERWRITE and len(first) < limits.upload_batched_bytes_max:
            batches = call.service.pools.uploads
            if batches is not ABSENT:
                new = _opened(upload, chunks, boundary)
                entry = await batches.start(
                    NewUpload(call.repo, branch, query.path, new, query.force)
                )
                return _stats(call, query, new, entry)
        return await call.service.pools.writers.start(
            lambda: _store(call, query, _opened(upload, chunks, boundary))
        )
    part = forms.Part(boundary, "content")

    def open_spool() -> Spool:
        write.check_upload(call.repo, branch, query.path, upload, force=query.force)
        return call.repo.blocks.spool(call.repo.namespace)

    def content(feed: Feed) -> Iterable[bytes]:
        return part.of(feed) if boundary else feed

    def store(spool: Spool) -> Answer:
        content_type = part.content_type if boundary else upload.content_type
        return _store(call, query, replace(upload, body=spool, content_type=content_type))

    piece = Piece(first, is_whole)
    return await spooled(call.service.pools.bodies, call.receive, piece, open_spool, content, store)


def _store(call: Call, query: UploadQuery, new: Upload) -> Answer:
    branch = call.arguments["branch"]
    entry = write.upload(call.repo, branch, query.path, new, force=query.force)
    crc32c: int | Literal[Absent.ABSENT] = ABSENT
    if isinstance(new.body, Spool):
        crc32c = new.body.crc32c
    elif IS_FAST:
        crc32c = extended(0, b"".join(new.body))
    return _stats(call, query, new, entry, answers.crc32c_headers(crc32c))


def _opened(upload: Upload, chunks: Sequence[bytes], boundary: bytes) -> Upload:
    """The upload with its whole body, which may be a part of a form."""
    if not boundary:
        return replace(upload, body=chunks)
    part = forms.Part(boundary, "content")
    body = tuple(chunk for chunk in part.of(chunks) if chunk)
    return replace(upload, body=body, content_type=part.content_type)


def _stats(
    call: Call, query: UploadQuery, new: Upload, entry: Entry, headers: Headers = ()
) -> Answer:
    # The content type as the client gave it: the entry has a default.
    shape = shapes.full_stats(call.repo.record, query.path, entry, content_type=new.content_type)
    return answers.json(shape, 201, (*headers, *hooks_off(call, query.path)))


def hooks_off(call: Call, path: str) -> Headers:
    """The header that says that no hook runs, of an answer to a write of an action file; the log
    has a line then."""
    if not path.startswith(ACTIONS_FOLDER) or call.ports.hooks is not NO_HOOKS:
        return ()
    _LOG.warning(
        "an action file has no effect: hooks are off",
        extra={"repository": call.repo.id, "remedy": "allow hosts: --hooks-allow, HooksAllow"},
    )
    return answers.HOOKS_OFF


def _user_metadata(call: Call) -> dict[str, str]:
    """User metadata from the headers.

    Names are lower case.  Names of internal headers get the prefix `::lakefs::`.
    """
    metadata: dict[str, str] = {}
    for name, value in call.headers.items():
        if name.startswith(_META):
            key = name[len(_META) :].decode("latin-1")
        elif name.startswith(_INTERNAL):
            key = "::lakefs::" + name[len(_INTERNAL) :].decode("latin-1")
        else:
            continue
        metadata[key] = _header_text(value)
    return metadata


def _header_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


class DeletionQuery(PathQuery, frozen=True):
    """Which object to delete."""

    force: Force = False
    no_tombstone: bool = False


class DeletionsQuery(Query, frozen=True):
    """How to delete objects."""

    force: Force = False
    no_tombstone: bool = False


class PathList(Body, frozen=True):
    """Paths of objects."""

    paths: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.paths) > limits.bulk_delete_count_max:
            count_max = limits.bulk_delete_count_max
            raise Invalid(f"request size exceeded, max paths is set to {count_max}")


class ObjectError(Shape, frozen=True):
    """Why an object was not deleted."""

    status_code: Integer
    message: str
    path: str


class ObjectErrorList(Shape, frozen=True):
    """The objects that were not deleted."""

    errors: list[ObjectError]


class CopyQuery(Query, frozen=True):
    """Where a copy goes."""

    dest_path: str


class ObjectCopyCreation(Body, frozen=True):
    """What to copy.  `src_ref`: by default the branch itself."""

    src_path: str
    src_ref: str = ""
    force: bool = False
    shallow: bool = False


class UpdateObjectUserMetadata(Body, frozen=True):
    """The new metadata of an object."""

    set: Pairs


@operation(
    "deleteObject",
    "DELETE",
    _OBJECTS,
    tag="objects",
    permissions=(Permission("fs:DeleteObject", OBJECT_ARN),),
    answers={204: Content.NOTHING},
    errors=(Contended, PreconditionFailed, Refused),
    runs=Runs.POOL,
)
def delete_object(call: Call, query: DeletionQuery, headers: WriteConditions) -> Answer:
    """Delete a path."""
    mode = conditions.of_write(call.headers)
    write.delete(call.repo, call.arguments["branch"], query.path, mode, force=query.force)
    return NO_CONTENT


@operation(
    "deleteObjects",
    "POST",
    _OBJECTS + "/delete",
    tag="objects",
    permissions=(Permission("fs:DeleteObject", REPO_ARN + "/object/{paths[]}"),),
    conditional=(
        Conditional("some paths may not be deleted", Permission("fs:ReadRepository", REPO_ARN)),
    ),
    answers={200: ObjectErrorList},
    errors=(Refused,),
    runs=Runs.POOL,
)
def delete_objects(call: Call, query: DeletionsQuery, body: PathList) -> Answer:
    """Delete up to 1,000 paths."""
    denied = [path for path in body.paths if permits.lacks(call, _DELETE, f"object/{path}")]
    if denied or not body.paths:  # the answer tells that the repository exists
        permits.require(call, "fs:ReadRepository")
    refused = frozenset(denied)
    failed = write.delete_many(
        call.repo,
        call.arguments["branch"],
        [path for path in body.paths if path not in refused],
        force=query.force,
    )
    shown = [ObjectError(403, f"permission missing: {_DELETE}", path) for path in denied]
    shown += [
        ObjectError(errors.status_of(failure.error), text_for(failure.error), failure.path)
        for failure in failed
    ]
    return answers.json(ObjectErrorList(shown))


@operation(
    "copyObject",
    "POST",
    _OBJECTS + "/copy",
    tag="objects",
    permissions=(
        Permission("fs:ReadObject", REPO_ARN + "/object/{src_path}"),
        Permission("fs:WriteObject", REPO_ARN + "/object/{dest_path}"),
    ),
    answers={201: ObjectStats},
    errors=(Contended, PreconditionFailed, Refused, Unsupported),
    runs=Runs.COPY,
)
def copy_object(
    call: Call, query: CopyQuery, headers: WriteConditions, body: ObjectCopyCreation
) -> Answer:
    """Copy an object.  A condition is one of the destination."""
    mode = conditions.of_write(call.headers)
    if body.shallow:
        raise Unsupported("Not Implemented")
    branch, path, force = call.arguments["branch"], query.dest_path, body.force
    source = Source(body.src_ref or branch, body.src_path)
    source_entry = copies.to_be_copied(call.repo, branch, path, source, force=force)
    if copy.is_too_long(source_entry, call.due):
        if mode is not OVERWRITE:
            raise Unsupported("not implemented: a condition on a copy that a job makes")
        order = CopyOrder(source_entry, source, path, force)
        entry = copy.attend(call.desk, branch, order, call.due)
    else:
        entry = copies.copy(call.repo, branch, path, source, source_entry, mode, force=force)
    return answers.json(shapes.full_stats(call.repo.record, path, entry), 201)


@operation(
    "updateObjectUserMetadata",
    "PUT",
    _OBJECTS + "/stat/user_metadata",
    tag="objects",
    permissions=(_WRITE,),
    answers={204: Content.NOTHING},
    errors=(Contended, PreconditionFailed, Refused),
    runs=Runs.POOL,
)
def update_object_user_metadata(
    call: Call, query: PathQuery, headers: WriteConditions, body: UpdateObjectUserMetadata
) -> Answer:
    """Replace the metadata of an object."""
    mode = conditions.of_write(call.headers)
    copies.set_user_metadata(call.repo, call.arguments["branch"], query.path, body.set, mode)
    return NO_CONTENT


@operation(
    "uploadObjectPreflight",
    "GET",
    _OBJECTS + "/stage_allowed",
    tag="objects",
    permissions=(_WRITE,),
    answers={204: Content.NOTHING},
    runs=Runs.POINT,
)
def upload_object_preflight(call: Call, query: PathQuery) -> Answer:
    """Whether an upload would be allowed."""
    write.check_branch(call.repo, call.arguments["branch"])
    return NO_CONTENT
