"""Uploads whole, in batches, by links, and in parts, which others may complete too, or abort.

An upload in parts says by its content type which value it carries.  A request without an answer is
sent again, as clients do.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import md5
from typing import Any, NamedTuple, TypeVar

from graveler.block import address
from graveler.block.adapter import CREATE, OVERWRITE, Part, PutMode
from graveler.core.errors import (
    Conflict,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from graveler.core.records import MultipartUpload
from graveler.engine.objects import addresses, multipart, read, write
from graveler.engine.objects.copies import CopySource
from graveler.engine.objects.multipart import UploadId, UploadQuery, list_uploads
from graveler.engine.objects.write import Description
from graveler.refs import uploads
from simulator.schedule import Call
from simulator.stage import Stage

SOURCE_KEY = "m1"  # the path whose bytes are copied into parts
_REPLACED = "replaced"  # the second part at first
_REFUSALS = (Conflict, Invalid, NotFound)
T = TypeVar("T")
LATE = "the second link was refused"
DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"  # of one of many uploads


class Finished(NamedTuple):
    """What a client completed for others: the checksum that each upload's path got, by the value
    that the upload carries.  `unknown`: the uploads of which it got no answer."""

    checksums: dict[str, str]
    unknown: tuple[str, ...]


def upload(client: Any, call: Call) -> None:
    """Upload bytes through the service; the value of the path is then their checksum."""
    key, value = call.arguments
    body = write.Upload([value.encode()])
    write.upload(client.opened, call.branch, key, body)


def upload_many(client: Any, call: Call) -> tuple[str, ...]:
    """Upload several objects together; the value of a path is then the checksum of its body.

    The arguments are paths and values in turn.  Returns how each upload ended.
    """
    sent = [
        write.NewUpload(client.opened, call.branch, key, write.Upload([value.encode()]))
        for key, value in pairs(call)
    ]
    return tuple(map(_end, write.upload_many(sent)))


def pairs(call: Call) -> Iterator[tuple[str, str]]:
    """The paths and values of `upload_many`."""
    return zip(call.arguments[::2], call.arguments[1::2], strict=True)


def _end(result: object) -> str:
    if isinstance(result, OutcomeUnknown):
        return UNKNOWN
    return REFUSED if isinstance(result, GravelerError) else DONE


def link(client: Any, call: Call) -> str:
    """Ask for an address, link it, and link it again, like a client that lost the first answer."""
    return _link(client, call, OVERWRITE)


def link_only(client: Any, call: Call) -> str:
    """The same, only while the path is absent; the second link may come too late."""
    return _link(client, call, CREATE)


def _link(client: Any, call: Call, mode: PutMode) -> str:
    repo, (key, value) = client.opened, call.arguments
    address = addresses.hand_out(repo, call.branch, key)
    repo.blocks.put(address, [value.encode()])
    asked = addresses.Link(address, value, len(value), mode=mode)
    addresses.link(repo, call.branch, key, asked)
    try:
        addresses.link(repo, call.branch, key, asked)
    except PreconditionFailed:
        return LATE
    return "twice"


# ---- in parts ------------------------------------------------------------------------------------


def parts_of(value: str, stage: Stage) -> tuple[Part, ...]:
    """The parts that carry a value: those of every other value begin with copied bytes."""
    first = str(stage.start[SOURCE_KEY]) if is_copied(value) else f"{value} begins"
    return Part(1, _etag(first)), Part(2, _etag(f"{value} ends"))


def possible_checksums(value: str, stage: Stage) -> frozenset[str]:
    """The checksums of all objects that may be made of an upload that carries a value: others may
    complete it before all its parts are there."""
    first, last = parts_of(value, stage)
    replaced = Part(2, _etag(_REPLACED))
    made = ((first,), (first, replaced), (first, last))
    return frozenset(multipart.joined_checksum([part.etag for part in parts]) for parts in made)


def whole_checksum(value: str, stage: Stage) -> str:
    """The checksum of the object that is made of all parts of an upload."""
    return multipart.joined_checksum([part.etag for part in parts_of(value, stage)])


def is_copied(value: str) -> bool:
    """Whether the first part of an upload is a copy."""
    return int(value.rpartition("-")[2]) % 2 == 0


def _etag(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def upload_parts(client: Any, call: Call) -> str:
    """Upload a value in two parts.  The second one is replaced once."""
    repo, (key, value) = client.opened, call.arguments
    about = Description(value)
    id = _again(lambda: multipart.begin(repo, call.branch, key, about))
    upload = UploadId(call.branch, key, id)
    _again(lambda: _put_first(client, upload, value))
    _again(lambda: multipart.put_part(repo, upload, 2, [_REPLACED.encode()]))
    _again(lambda: multipart.put_part(repo, upload, 2, [f"{value} ends".encode()]))
    return _complete(client, upload, parts_of(value, client.stage))


def _put_first(client: Any, upload: UploadId, value: str) -> Part:
    repo = client.opened
    if not is_copied(value):
        return multipart.put_part(repo, upload, 1, [f"{value} begins".encode()])
    entry = read.stat(repo, client.stage.base, SOURCE_KEY)
    source = CopySource(repo, SOURCE_KEY, entry)
    return multipart.copy_part(repo, upload, 1, source, 0, entry.size)


def _again(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except Unavailable:
        return ask()


def _complete(client: Any, upload: UploadId, parts: tuple[Part, ...]) -> str:
    """Complete an upload, and once more if there is no answer.  A refusal of the second request
    says nothing about the first."""
    try:
        return _completed(client, upload, parts)
    except Unavailable:
        try:
            return _completed(client, upload, parts)
        except _REFUSALS as error:
            raise OutcomeUnknown("completion of an upload") from error


def _completed(client: Any, upload: UploadId, parts: tuple[Part, ...]) -> str:
    """Complete an upload, and look whether the object is the one that the entry describes."""
    repo = client.opened
    entry = multipart.complete(repo, upload, parts)
    etag = repo.blocks.head(address.join(repo.namespace, entry.address)).etag
    assert etag == entry.checksum, f"the object has other parts: {etag} {entry.checksum}"
    return entry.checksum


def finish(client: Any, call: Call) -> Finished:
    """Complete every upload of a path, completed ones again: with the parts that a list shows, or
    else with those that its value has."""
    done, unknown = dict[str, str](), list[str]()
    name = f"{call.branch}/{call.arguments[0]}\0"
    for seen in list(uploads.list_all(client.ports.kv, client.repo, name)):
        upload = seen.upload
        where = UploadId(upload.branch, upload.path, upload.id)
        try:
            done[upload.content_type] = _complete(client, where, _listed(client, where, upload))
        except Unavailable:
            unknown.append(upload.content_type)
        except _REFUSALS:
            continue
    return Finished(done, tuple(unknown))


def _listed(client: Any, where: UploadId, upload: MultipartUpload) -> tuple[Part, ...]:
    try:
        _, (lines, _) = multipart.list_parts(client.opened, where, 0, 10)
    except NotFound:
        lines = ()
    listed = tuple(Part(line.number, line.etag) for line in lines)
    return listed or parts_of(upload.content_type, client.stage)


def abort_uploads(client: Any, call: Call) -> tuple[str, ...]:
    """Abort every upload of a path; return the values that they carried."""
    gone = []
    query = UploadQuery(prefix=f"{call.branch}/{call.arguments[0]}")
    for line in list_uploads(client.opened, query).lines:
        assert isinstance(line, MultipartUpload)
        with suppress(NotFound):
            multipart.abort(client.opened, UploadId(line.branch, line.path, line.id))
            gone.append(line.content_type)
    return tuple(gone)


UPLOAD_VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "upload": upload,
    "upload_many": upload_many,
    "link": link,
    "link_only": link_only,
    "upload_parts": upload_parts,
    "finish": finish,
    "abort_uploads": abort_uploads,
}
