"""Uploads in parts, which go to the object store of a server by signed URLs.

    begin ──► put, once for each part ──► complete: the object is on the branch
                 ▲                   └──► abort: the store deletes the parts
    part_url ────┘  when a URL has expired, or another process goes on with the upload

Only servers that say so sign URLs of parts (`Storage.presigns_parts`).  Calls raise the errors of
`Session.ask`.  Part of the public Python client.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

from graveler.client.exchange import Request, Response
from graveler.client.objects import Stats, Upload
from graveler.client.refs import checked
from graveler.client.session import Session, below, error_of, failure, with_query
from graveler.errors import GravelerError, Internal, Invalid, NotFound, PreconditionFailed

PARTS_MAX: Final = 10_000  # of one upload
_URLS_MAX: Final = 256  # of one request; they expire before a slow upload needs more
_ANSWER_BYTES_MAX: Final = 1 << 20


class Target(NamedTuple):
    """Where the object of an upload will be."""

    session: Session
    repository: str
    branch: str
    path: str


class PartsUpload(NamedTuple):
    """An upload that was begun."""

    id: str
    physical_address: str


class NewUpload(NamedTuple):
    """A new upload, and the URLs of its first parts: item 0 is that of part 1."""

    upload: PartsUpload
    urls: tuple[str, ...]


class Part(NamedTuple):
    """The bytes of a part.  `md5`: in base64; the store refuses other bytes."""

    pieces: Iterable[bytes]
    length: int
    md5: str


def begin(target: Target, count: int) -> NewUpload:
    """Begin an upload of `count` parts.  The branch does not change.  One request.

    Raises `Unsupported` if the server signs no URLs of parts."""
    where = with_query(_uploads(target), path=target.path, parts=min(count, _URLS_MAX))
    answer = checked(target.session.ask("POST", where), "upload_id", "physical_address")
    urls = answer.get("presigned_urls") or []
    if not isinstance(urls, list):
        raise Internal("the server's answer has another form: its URLs are no list")
    upload = PartsUpload(str(answer["upload_id"]), str(answer["physical_address"]))
    return NewUpload(upload, tuple(map(str, urls)))


def part_url(target: Target, upload: PartsUpload, number: int) -> str:
    """A fresh URL of part `number`, from 1 on.  One request."""
    where = with_query(_uploads(target) + below(upload.id, "parts", str(number)), path=target.path)
    answer = target.session.ask("PUT", where, {"physical_address": upload.physical_address})
    return str(checked(answer, "presigned_url")["presigned_url"])


def put(session: Session, url: str, part: Part) -> str:
    """Send a part to its URL, without the credentials of the session, and return its ETag.  The
    call may be repeated: the last one counts.

    Raises `Refused` if the URL has expired, `NotFound` if the store does not know the upload."""
    headers = {"Content-MD5": part.md5}
    request = Request("PUT", url, headers, part.pieces, part.length)
    with session.connections.send(request) as answer:
        if answer.status >= 300:
            raise _refusal(answer)
        answer.read_all(_ANSWER_BYTES_MAX)
        tag = answer.headers.get("ETag", "").strip('"')
    if not tag:
        raise Internal("the object store gave no ETag for a part")
    return tag


def complete(target: Target, upload: PartsUpload, tags: Mapping[int, str], how: Upload) -> Stats:
    """Join the parts and link the object.  One request; it may be repeated.

    `tags`: the ETag of each part.  Raises `PreconditionFailed` if the path exists and may not,
    `NotFound` if the store does not know the upload, and `Invalid` if the store has other parts."""
    where = with_query(_uploads(target) + below(upload.id), path=target.path)
    body: dict[str, Any] = {
        "physical_address": upload.physical_address,
        "parts": [{"part_number": number, "etag": tags[number]} for number in sorted(tags)],
        "user_metadata": dict(how.metadata),
        "content_type": how.content_type or "application/octet-stream",
    }
    condition = {"If-None-Match": "*"} if how.create_only else {}
    return cast(Stats, checked(target.session.ask("PUT", where, body, condition), "path"))


def abort(target: Target, upload: PartsUpload) -> None:
    """Let the store delete the parts.  An upload that the store does not know is no error.  One
    request."""
    where = with_query(_uploads(target) + below(upload.id), path=target.path)
    with suppress(NotFound):
        target.session.ask("DELETE", where, {"physical_address": upload.physical_address})


def ends(error: GravelerError) -> bool:
    """Whether an upload cannot go on after this error of `part_url`, `put` or `complete`."""
    return isinstance(error, NotFound | Invalid | PreconditionFailed)


def _refusal(answer: Response) -> GravelerError:
    if "json" in answer.headers.get("Content-Type", ""):
        return error_of(answer)
    answer.read_all(_ANSWER_BYTES_MAX)
    return failure(answer.status, "the object store refused a part")


def _uploads(target: Target) -> str:
    return below("repositories", target.repository, "branches", target.branch, "staging", "pmpu")
