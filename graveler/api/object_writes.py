"""Operations that change objects on a branch: upload, delete, copy, user metadata."""

import logging
from collections.abc import Iterable
from typing import Final

from msgspec import field

from graveler.api import answers, shapes
from graveler.api.answers import Integer, Pairs, Shape
from graveler.api.errors import text_for
from graveler.api.operation import BRANCH, NOTHING, Body, Conditional, Query, Resource
from graveler.api.shapes import Force, ObjectStats, PathQuery, WriteConditions
from graveler.auth.permissions import Permission
from graveler.block.adapter import OVERWRITE
from graveler.block.bodies import Spool
from graveler.core import limits
from graveler.core.errors import Contended, Invalid, PreconditionFailed, Refused, Unsupported
from graveler.core.identity import IS_FAST, extended
from graveler.core.records import ABSENT
from graveler.engine.hooks import ACTIONS_FOLDER, NO_HOOKS
from graveler.engine.objects import copies, write
from graveler.engine.objects.copies import Source
from graveler.engine.objects.write import Upload
from graveler.http import conditions, errors, intake, permissions, reads
from graveler.http.answers import NO_CONTENT, Answer, Headers, crc32c_headers
from graveler.http.dispatch import Runs
from graveler.http.errors import TooLarge
from graveler.http.intake import PLAIN, FormPart
from graveler.http.permissions import OBJECT_ARN, REPO_ARN
from graveler.http.service import Call
from graveler.jobs import copy
from graveler.jobs.orders import CopyOrder

_objects: Final = Resource("objects")

_LOG: Final = logging.getLogger("graveler.api")
_OBJECTS: Final = BRANCH + "/objects"
_WRITE: Final = Permission("fs:WriteObject", OBJECT_ARN)
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


@_objects.post(
    "uploadObject",
    _OBJECTS,
    {201: ObjectStats},
    _WRITE,
    errors=(Refused, PreconditionFailed, TooLarge, Unsupported),
    reads_body=True,
    runs=Runs.STREAM,
)
async def upload_object(call: Call, query: UploadQuery, headers: WriteConditions) -> Answer:
    """Upload an object: the raw body, or multipart/form-data with one part `content`.

    Unless it went together with others, the answer has a header with the CRC32C of its bytes.
    """
    mode = conditions.of_write(call.headers)
    sent_type = call.header(b"content-type")
    boundary = intake.boundary_of(sent_type)
    form = FormPart(boundary, "content") if boundary else ABSENT
    branch = call.arguments["branch"]
    await call.service.pools.point(write.check_branch, call.repo, branch)
    metadata = _user_metadata(call)

    def upload_of(content: Iterable[bytes]) -> Upload:
        content_type = sent_type or reads.DEFAULT_TYPE
        if form is not ABSENT:
            content_type = form.content_type
        return Upload(content, content_type, metadata, mode, query.storage_class)

    framing = PLAIN if form is ABSENT else form
    most = call.service.settings.inline_bytes_max
    try:
        new, entry, is_batched = await intake.upload(
            call, branch, query.path, framing, upload_of, force=query.force, most=most
        )
    except TooLarge as error:
        raise TooLarge(_TOO_LARGE.format(most)) from error
    # The content type as the client gave it: the entry has a default.
    shape = shapes.full_stats(call.repo.record, query.path, entry, content_type=new.content_type)
    checksum = () if is_batched else _crc32c(new.body)
    return answers.json(shape, 201, (*checksum, *hooks_off(call, query.path)))


def _crc32c(body: Iterable[bytes]) -> Headers:
    if isinstance(body, Spool):
        return crc32c_headers(body.crc32c)
    return crc32c_headers(extended(0, b"".join(body))) if IS_FAST else ()


def hooks_off(call: Call, path: str) -> Headers:
    """The header that says that no hook runs, of an answer to a write of an action file."""
    is_told = path.startswith(ACTIONS_FOLDER) and call.ports.hooks is NO_HOOKS
    return no_hook_runs(call) if is_told else ()


def no_hook_runs(call: Call) -> Headers:
    """The header that says that no hook runs; the log has a line, too."""
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


@_objects.delete(
    "deleteObject",
    _OBJECTS,
    NOTHING,
    ("fs:DeleteObject", OBJECT_ARN),
    errors=(Contended, PreconditionFailed, Refused),
)
def delete_object(call: Call, query: DeletionQuery, headers: WriteConditions) -> Answer:
    """Delete a path."""
    mode = conditions.of_write(call.headers)
    write.delete(call.repo, call.arguments["branch"], query.path, mode, force=query.force)
    return NO_CONTENT


@_objects.post(
    "deleteObjects",
    _OBJECTS + "/delete",
    ObjectErrorList,
    ("fs:DeleteObject", REPO_ARN + "/object/{paths[]}"),
    conditional=(
        Conditional("some paths may not be deleted", Permission("fs:ReadRepository", REPO_ARN)),
    ),
    errors=(Refused,),
)
def delete_objects(call: Call, query: DeletionsQuery, body: PathList) -> Answer:
    """Delete up to 1,000 paths."""
    denied = [path for path in body.paths if permissions.lacks(call, _DELETE, f"object/{path}")]
    if denied or not body.paths:  # the answer tells that the repository exists
        permissions.require(call, "fs:ReadRepository")
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


@_objects.post(
    "copyObject",
    _OBJECTS + "/copy",
    {201: ObjectStats},
    ("fs:ReadObject", REPO_ARN + "/object/{src_path}"),
    ("fs:WriteObject", REPO_ARN + "/object/{dest_path}"),
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
        entry = copy.run_or_enqueue(call.scheduler, branch, order, call.due)
    else:
        entry = copies.copy(call.repo, branch, path, source, source_entry, mode, force=force)
    return answers.json(shapes.full_stats(call.repo.record, path, entry), 201)


@_objects.put(
    "updateObjectUserMetadata",
    _OBJECTS + "/stat/user_metadata",
    NOTHING,
    _WRITE,
    errors=(Contended, PreconditionFailed, Refused),
)
def update_object_user_metadata(
    call: Call, query: PathQuery, headers: WriteConditions, body: UpdateObjectUserMetadata
) -> Answer:
    """Replace the metadata of an object."""
    mode = conditions.of_write(call.headers)
    copies.set_user_metadata(call.repo, call.arguments["branch"], query.path, body.set, mode)
    return NO_CONTENT


@_objects.get(
    "uploadObjectPreflight", _OBJECTS + "/stage_allowed", NOTHING, _WRITE, runs=Runs.POINT
)
def upload_object_preflight(call: Call, query: PathQuery) -> Answer:
    """Whether an upload would be allowed."""
    write.check_branch(call.repo, call.arguments["branch"])
    return NO_CONTENT
