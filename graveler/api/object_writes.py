"""Endpoints that change objects on a branch: upload, delete, copy, user metadata."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from graveler import limits
from graveler.api import answers, conditions, errors, multipart, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.client_texts import text_for
from graveler.api.feed import Disconnected, Feed
from graveler.api.requests import TooLarge
from graveler.api.service import Call
from graveler.engine.objects import write
from graveler.engine.objects.write import Source, Upload
from graveler.errors import Invalid, Unsupported
from graveler.jobs import copy
from graveler.jobs.orders import CopyOrder

_DEFAULT_TYPE: Final = "application/octet-stream"
_META: Final = b"x-lakefs-meta-"
_TOO_LARGE: Final = (
    "request body has an error: it must have at most {} bytes here; ask for a presigned URL "
    "(GET .../staging/backing with presign=true), put the object there and link it"
)
_INTERNAL: Final = b"x-lakefs-internal-"


async def upload_object(call: Call) -> Answer:
    """Upload an object.

    If the whole body arrived in the first message, one thread stores it.  Otherwise a thread stores
    the body while it arrives, through a `Feed`.
    """
    only_if_absent = conditions.only_if_absent(call.headers)
    content_type = call.header(b"content-type")
    boundary = multipart.boundary_of(content_type)
    branch = call.arguments["branch"]
    await call.service.pools.point(write.check_branch, call.repo, branch)
    upload = Upload(
        (),
        content_type or _DEFAULT_TYPE,
        _user_metadata(call),
        only_if_absent,
        call.query["storageClass"],
    )
    message = await call.receive()
    if message["type"] == "http.disconnect":
        raise Disconnected("client disconnected before its request was complete")
    first = message.get("body", b"")
    bytes_max = call.service.settings.inline_bytes_max
    if 0 < bytes_max < len(first):
        raise TooLarge(_TOO_LARGE.format(bytes_max))
    if not message.get("more_body", False):
        chunks = (first,) if first else ()
        return await call.service.pools.writers.start(_store, call, upload, chunks, boundary)
    feed = Feed()
    stored = call.service.pools.streams.start(_store_fed, call, upload, feed, boundary)
    try:
        await feed.pump(call.receive, first)
    finally:
        feed.abandon()
    return await stored


def _store_fed(call: Call, upload: Upload, feed: Feed, boundary: bytes) -> Answer:
    try:
        return _store(call, upload, feed, boundary)
    finally:
        feed.close()


def _store(call: Call, upload: Upload, chunks: Iterable[bytes], boundary: bytes) -> Answer:
    content_type = upload.content_type
    if boundary:
        content_type, part = multipart.open_part(chunks, boundary, "content")
        # A complete body stays a tuple, so that the engine can send it again after a refusal.
        chunks = tuple(part) if isinstance(chunks, Sequence) else part
    new = replace(upload, body=chunks, content_type=content_type)
    path, force = call.query["path"], call.query["force"]
    entry = write.upload(call.repo, call.arguments["branch"], path, new, force=force)
    shape = shapes.full_stats(call.repo.record, path, entry)
    shape["content_type"] = content_type  # as the client gave it; the entry has a default
    return answers.json(shape, 201)


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


def delete_object(call: Call) -> Answer:
    path, force = call.query["path"], call.query["force"]
    write.delete(call.repo, call.arguments["branch"], path, force=force)
    return NO_CONTENT


def delete_objects(call: Call) -> Answer:
    paths: list[str] = call.body["paths"]
    if len(paths) > limits.bulk_delete_count_max:
        count_max = limits.bulk_delete_count_max
        raise Invalid(f"request size exceeded, max paths is set to {count_max}")
    failed = write.delete_many(
        call.repo, call.arguments["branch"], paths, force=call.query["force"]
    )
    shown = [
        {
            "path": failure.path,
            "status_code": errors.status_of(failure.error),
            "message": text_for(failure.error),
        }
        for failure in failed
    ]
    return answers.json({"errors": shown})


def copy_object(call: Call) -> Answer:
    if call.body.get("shallow", False):
        raise Unsupported("Not Implemented")
    branch, path = call.arguments["branch"], call.query["dest_path"]
    source = Source(call.body.get("src_ref") or branch, call.body["src_path"])
    force = call.body.get("force", False)
    source_entry = write.to_be_copied(call.repo, branch, path, source, force=force)
    if copy.is_too_long(source_entry, call.due):
        order = CopyOrder(source_entry, source, path, force)
        entry = copy.attend(call.desk, branch, order, call.due)
    else:
        entry = write.copy(call.repo, branch, path, source, source_entry, force=force)
    return answers.json(shapes.full_stats(call.repo.record, path, entry), 201)


def update_object_user_metadata(call: Call) -> Answer:
    write.set_user_metadata(
        call.repo, call.arguments["branch"], call.query["path"], call.body["set"]
    )
    return NO_CONTENT
