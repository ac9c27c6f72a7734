"""Uploads in parts that a client sends to the storage itself, by URLs that are signed for it.

    begin     an address handed out for branch and path (uploads.py), an upload at it, URLs
    part_url  another URL of the same upload
    finish    the storage joins the parts, then the path is staged
    give_up   the storage forgets the upload

The address is signed for branch and path, and the storage knows an upload by its address: so an id
is good for one path alone.  A crash between the joining and the row leaves an object that nothing
names, for garbage collection; finishing again finds it joined and stages it.  An upload that nobody
finishes is dropped by the storage's own rule.  For the API.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from graveler import limits
from graveler.block import address
from graveler.block.adapter import ObjectHead, Part, PartOf
from graveler.engine.objects import addresses, objects
from graveler.engine.objects.addresses import Link
from graveler.engine.ports import Ports, check_writable
from graveler.errors import GravelerError, Invalid, NotFound, OutcomeUnknown
from graveler.ids import parse_branch_id, parse_path
from graveler.records import ABSENT, Absent, Entry, Repository


@dataclass(frozen=True, slots=True)
class PartsUpload:
    """An upload, as its beginning answered."""

    address: str
    id: str


@dataclass(frozen=True, slots=True)
class Begun:
    """An upload, and the URLs of its parts 1 … n."""

    upload: PartsUpload
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """What to make of an upload."""

    upload: PartsUpload
    parts: tuple[Part, ...]
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    only_if_absent: bool = False


def begin(ports: Ports, repo: Repository, branch: str, path: str, count: int) -> Begun:
    """A new upload for `path`, with URLs for `count` parts.

    Errors: `Invalid`, `NotFound` (branch), `Refused`, `Unsupported` (a store whose parts have no
    URL); then no upload is left.  Cost: 1 KV request, and the branch; 1 block request.
    """
    check_writable(repo, False)
    count_max = limits.multipart_parts_count_max
    if not 0 <= count <= count_max:
        raise Invalid(f"parts can be between 0 and {count_max}")
    full = addresses.hand_out(ports, repo, branch, path)
    upload = PartsUpload(full, ports.blocks.create_upload(full))
    try:
        urls = [_url(ports, full, upload.id, number) for number in range(1, max(count, 1) + 1)]
    except BaseException:
        with suppress(GravelerError):
            ports.blocks.abort_upload(full, upload.id)
        raise
    return Begun(upload, tuple(urls[:count]))


def part_url(
    ports: Ports, repo: Repository, branch: str, path: str, upload: PartsUpload, number: int
) -> str:
    """A URL that stores part `number`.  `Invalid`.  Cost: 1 KV request."""
    full = _address(repo, addresses.checked(ports, repo, branch, path, upload.address))
    return _url(ports, full, upload.id, number)


def finish(
    ports: Ports, repo: Repository, branch: str, path: str, wanted: Finish, *, force: bool = False
) -> Entry:
    """Join the parts and stage `path` with them; again is a retry.

    Errors: `Invalid` for an address that was not handed out for this path or has expired, and for
    parts that were not uploaded so (the upload is still there, to be finished or given up),
    `NotFound` for an upload that is not known, and those of `objects.stage`.
    Cost: 1 KV request, those of a write, and 2 block requests.
    """
    name = parse_branch_id(branch)
    parse_path(path)
    check_writable(repo, force)
    relative = addresses.checked(ports, repo, name, path, wanted.upload.address)
    objects.check_branch(ports, repo, branch)
    head = _joined(ports, _address(repo, relative), wanted)
    link = Link(wanted.upload.address, head.etag, head.size, wanted.content_type, wanted.metadata)
    entry = addresses.described(ports, link, relative)
    put = objects.stage_if_absent if wanted.only_if_absent else objects.stage
    return put(ports, repo, branch, path, entry, force=force)


def give_up(ports: Ports, repo: Repository, branch: str, path: str, upload: PartsUpload) -> None:
    """Forget the upload and its parts, even of an address that has expired; again is no error.

    `Invalid`; `NotFound` for an upload that was finished.  Cost: 1 block request, 2 if the upload
    is not known.
    """
    full = _address(repo, addresses.signed(ports, repo, branch, path, upload.address))
    try:
        ports.blocks.abort_upload(full, upload.id)
    except NotFound as error:
        if _found(ports, full) is not ABSENT:
            raise NotFound(f"upload was finished: upload_id={upload.id[:200]}") from error


def _joined(ports: Ports, full: str, wanted: Finish) -> ObjectHead:
    """The object of the parts.  One that is there already was joined by an attempt whose answer
    was lost: nobody else has the address.  So joining may be sent twice."""
    upload_id, parts = wanted.upload.id, wanted.parts
    try:
        return ports.blocks.complete_upload(full, upload_id, parts)
    except (NotFound, OutcomeUnknown) as error:
        there = _found(ports, full)
        if there is not ABSENT:
            return there
        if isinstance(error, OutcomeUnknown):
            return _joined_again(ports, full, wanted)
        raise NotFound(f"upload not found: upload_id={upload_id[:200]}") from error


def _joined_again(ports: Ports, full: str, wanted: Finish) -> ObjectHead:
    try:
        return ports.blocks.complete_upload(full, wanted.upload.id, wanted.parts)
    except NotFound as error:  # the first attempt landed late, or the upload was given up
        there = _found(ports, full)
        if there is ABSENT:
            raise NotFound(f"upload not found: upload_id={wanted.upload.id[:200]}") from error
        return there


def _found(ports: Ports, full: str) -> ObjectHead | Literal[Absent.ABSENT]:
    try:
        return ports.blocks.head(full)
    except NotFound:
        return ABSENT


def _address(repo: Repository, relative: str) -> str:
    return address.join(repo.namespace, relative)


def _url(ports: Ports, full: str, upload_id: str, number: int) -> str:
    seconds = limits.presign_seconds_max
    return ports.blocks.presign(full, "PUT", seconds, "", PartOf(upload_id, number)).url
