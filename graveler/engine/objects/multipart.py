"""Multipart uploads: a client sends the parts directly to the object store, by signed URLs.

    begin     hands out an address for branch and path (addresses.py), starts an upload there,
              signs URLs
    part_url  signs another URL of the same upload
    copy_part copies bytes of another object into a part
    finish    the object store joins the parts, then the path is staged
    give_up   the object store discards the upload

The address is signed for branch and path, and the object store identifies an upload by address and
id.  So an upload id works for one path only.  A crash between joining and staging leaves an object
that nothing references, for garbage collection; a repeated `finish` finds this object and stages
it.  The object store has its own rule that discards uploads that are never finished.  Used by the
API.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from graveler import limits
from graveler.block import address
from graveler.block.adapter import OVERWRITE, ObjectHead, Part, PartOf
from graveler.engine.objects import addresses, read, write
from graveler.engine.objects.addresses import Link
from graveler.engine.objects.stage import Condition
from graveler.engine.ports import OpenRepository, Ports, check_writable
from graveler.errors import GravelerError, Invalid, NotFound, OutcomeUnknown
from graveler.ids import parse_branch_id, parse_path
from graveler.records import ABSENT, Absent, Entry, Repository


@dataclass(frozen=True, slots=True)
class PartsUpload:
    """An upload: the full address, and the upload id of the object store."""

    address: str
    id: str


@dataclass(frozen=True, slots=True)
class NewUpload:
    """A new upload, and the URLs of its parts 1 … n."""

    upload: PartsUpload
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The parts to join, and the description of the object.

    `content_type`: empty means `application/octet-stream`.  `mode`: the condition of the write.
    """

    upload: PartsUpload
    parts: tuple[Part, ...]
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    mode: Condition = OVERWRITE


def begin(repo: OpenRepository, branch: str, path: str, count: int) -> NewUpload:
    """Start an upload for `path`, with URLs for `count` parts.

    Errors: `Invalid`, `NotFound` (branch), `Refused`, `Unsupported` (the store cannot sign URLs of
    parts).  After an error the upload is aborted, if the store answers.
    Cost: 1 KV request, and 1 if the branch is not cached; 1 block request.
    """
    check_writable(repo.record, False)
    count_max = limits.multipart_parts_count_max
    if not 0 <= count <= count_max:
        raise Invalid(f"parts can be between 0 and {count_max}")
    full = addresses.hand_out(repo, branch, path)
    upload = PartsUpload(full, repo.blocks.create_upload(full))
    try:
        urls = [_url(repo, full, upload.id, number) for number in range(1, max(count, 1) + 1)]
    except BaseException:
        with suppress(GravelerError):
            repo.blocks.abort_upload(full, upload.id)
        raise
    return NewUpload(upload, tuple(urls[:count]))


def part_url(repo: OpenRepository, branch: str, path: str, upload: PartsUpload, number: int) -> str:
    """A signed URL to send part `number` to.  Errors: `Invalid`.  Cost: 1 KV request."""
    full = _address(repo.record, addresses.checked(repo, branch, path, upload.address))
    return _url(repo, full, upload.id, number)


@dataclass(frozen=True, slots=True)
class PartSource:
    """The bytes `start` to `end` (excluded) of an entry, and the repository that has the entry."""

    repo: OpenRepository
    entry: Entry
    start: int
    end: int


def copy_part(
    repo: OpenRepository,
    branch: str,
    path: str,
    upload: PartsUpload,
    number: int,
    source: PartSource,
) -> Part:
    """Copy bytes of an object into part `number`.  The call may be repeated.

    Errors: `Invalid`, also for more than `part_copy_bytes_max` bytes; `NotFound` for an
    unknown upload; `Refused`; those of `read.open_body`.
    Cost: 1 KV request, and 2 block requests.
    """
    check_writable(repo.record, False)
    full = _address(repo.record, addresses.checked(repo, branch, path, upload.address))
    size_max = repo.settings.part_copy_bytes_max
    if source.end - source.start > size_max:
        raise Invalid(f"part too long to copy: at most {size_max} bytes; name a range")
    body = read.open_body(source.repo, source.entry, source.start, source.end)
    return repo.blocks.put_part(full, upload.id, number, body.chunks)


def finish(
    repo: OpenRepository, branch: str, path: str, order: Finish, *, force: bool = False
) -> Entry:
    """Join the parts and stage `path` with the object.  The call may be repeated.

    Errors: `Invalid` for an address that was not handed out for this path or has expired, and for
    parts that differ from the uploaded ones (the upload remains, to be finished or given up);
    `NotFound` for an unknown upload; and those of `write.stage`.
    Cost: 1 KV request, those of a write, and 2 block requests.
    """
    name = parse_branch_id(branch)
    parse_path(path)
    check_writable(repo.record, force)
    relative = addresses.checked(repo, name, path, order.upload.address)
    write.check_branch(repo, branch)
    head = _joined(repo, _address(repo.record, relative), order)
    now_ns = max(repo.clock.now_ns(), head.modified_ns)
    link = Link(
        order.upload.address, head.etag, head.size, order.content_type, order.metadata, now_ns
    )
    entry = addresses.described(repo, link, relative)
    return write.stage(repo, branch, path, entry, order.mode, force=force)


def give_up(repo: OpenRepository, branch: str, path: str, upload: PartsUpload) -> None:
    """Discard the upload and its parts, even if the address has expired.  The call may be repeated.

    Errors: `Invalid`; `NotFound` for an upload that was finished.
    Cost: 1 block request, 2 if the upload is not known.
    """
    full = _address(repo.record, addresses.signed(repo, branch, path, upload.address))
    try:
        repo.blocks.abort_upload(full, upload.id)
    except NotFound as error:
        if joined(repo, full) is not ABSENT:
            raise NotFound(f"upload was finished: upload_id={upload.id[:200]}") from error


def _joined(ports: Ports, full: str, order: Finish) -> ObjectHead:
    """Join the parts; return the head of the object.

    An object that already exists was joined by an earlier attempt whose answer was lost, because no
    other path has this address.  So the request to join may be sent twice.
    """
    upload_id, parts = order.upload.id, order.parts
    try:
        return ports.blocks.complete_upload(full, upload_id, parts)
    except (NotFound, OutcomeUnknown) as error:
        head = joined(ports, full)
        if head is not ABSENT:
            return head
        if isinstance(error, OutcomeUnknown):
            return _joined_again(ports, full, order)
        raise NotFound(f"upload not found: upload_id={upload_id[:200]}") from error


def _joined_again(ports: Ports, full: str, order: Finish) -> ObjectHead:
    try:
        return ports.blocks.complete_upload(full, order.upload.id, order.parts)
    except NotFound as error:  # the first attempt landed late, or the upload was given up
        head = joined(ports, full)
        if head is ABSENT:
            raise NotFound(f"upload not found: upload_id={order.upload.id[:200]}") from error
        return head


def joined(ports: Ports, full: str) -> ObjectHead | Literal[Absent.ABSENT]:
    """The object that an earlier attempt has joined at the address of an upload.  1 block
    request."""
    try:
        return ports.blocks.head(full)
    except NotFound:
        return ABSENT


def _address(repo: Repository, relative: str) -> str:
    return address.join(repo.namespace, relative)


def _url(ports: Ports, full: str, upload_id: str, number: int) -> str:
    seconds = limits.presign_seconds_max
    return ports.blocks.presign(full, "PUT", seconds, "", PartOf(upload_id, number)).url
