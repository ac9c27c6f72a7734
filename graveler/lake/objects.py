"""Objects, over the API: list, read, write, copy and delete; large ones in parts.

Answers are the JSON objects of the API, as typed dictionaries.  Contents are streamed.  All calls
raise the errors of `Session.call`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from string import ascii_letters, digits
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict, cast

from graveler.core.errors import (
    GravelerError,
    Internal,
    Invalid,
    NotFound,
    PreconditionFailed,
    Refused,
    Unavailable,
    Unsupported,
)
from graveler.lake.checksums import (
    CRC32C_BYTES_MIN,
    UploadBody,
    compare_md5,
    crc32c_is_fast,
    crc32c_of,
    etag,
    md5_of,
)
from graveler.lake.connections import Request, Response
from graveler.lake.session import (
    Session,
    below,
    error_of,
    failure,
    having,
    with_query,
)
from graveler.lake.session import found as items

DELETIONS_MAX: Final = 1_000  # of one request
PARTS_MAX: Final = 10_000  # of one upload
_URLS_MAX: Final = 256  # of one request; they expire before a slow upload needs more
_INTERNAL: Final = "::lakefs::"  # begins the names of metadata that lakeFS itself gives a meaning
_HEADER_NAME: Final = frozenset(ascii_letters + digits + "!#$%&'*+-.^_`|~")
_REDIRECTS: Final = (302, 303, 307)
_ANSWER_BYTES_MAX: Final = 1 << 20
_USUAL_TYPE: Final = "application/octet-stream"
_AFTER_WRONG_BYTES: Final = "the branch has them now: upload it again, or reset the path"
_AFTER_WRONG_STORE: Final = (
    "the branch does not have them: upload it again, or through the server, without signed URLs"
)


class Stats(TypedDict):
    """An object, or a common prefix of several.  `mtime` is in seconds since 1970."""

    path: str
    checksum: NotRequired[str]
    mtime: NotRequired[int]
    path_type: NotRequired[Literal["object", "common_prefix"]]
    physical_address: NotRequired[str]
    size_bytes: NotRequired[int]
    content_type: NotRequired[str]
    metadata: NotRequired[dict[str, str]]
    physical_address_expiry: NotRequired[int]


@dataclass(frozen=True, slots=True)
class Upload:
    """What is written beside the bytes.  `create_only`: fail if the path exists."""

    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    create_only: bool = False

    def fields(self) -> dict[str, Any]:
        """As a request to link bytes has them."""
        type = self.content_type or _USUAL_TYPE
        return {"user_metadata": dict(self.metadata), "content_type": type}

    def condition(self) -> dict[str, str]:
        """As the headers of a request have it."""
        return {"If-None-Match": "*"} if self.create_only else {}


class Outside(NamedTuple):
    """An object outside the repository: its URL, the MD5 and the size of its bytes, and when it was
    changed, in seconds since 1970; None: now."""

    url: str
    checksum: str
    size: int
    mtime: int | None = None


class Content(NamedTuple):
    """The MD5 and the size of bytes that were stored."""

    checksum: str
    size: int


def _stats(answer: Any) -> Stats:
    stats: Any = having(answer, "path", "checksum")
    return cast(Stats, stats)


# ---- reading -------------------------------------------------------------------------------------


def list_objects(
    session: Session,
    repository: str,
    ref: str,
    prefix: str = "",
    *,
    delimiter: str = "",
    after: str = "",
    amount: int | None = None,
) -> Iterator[Stats]:
    """The objects at a ref, sorted by path; with a delimiter also common prefixes."""
    path = below("repositories", repository, "refs", ref, "objects", "ls")
    path = with_query(path, delimiter=delimiter)
    found: Any = items(session, path, "path", prefix=prefix, after=after, amount=amount)
    return cast(Iterator[Stats], found)


def stat(session: Session, repository: str, ref: str, path: str, *, presign: bool = False) -> Stats:
    """One object.  `presign`: its address is a signed URL.  Raises `NotFound`."""
    where = below("repositories", repository, "refs", ref, "objects", "stat")
    return _stats(session.call("GET", with_query(where, path=path, presign=presign)))


def open_object(
    session: Session,
    repository: str,
    ref: str,
    path: str,
    *,
    start: int = 0,
    end: int | None = None,
    presign: bool = False,
    redirects: bool = True,
) -> Response:
    """The content of an object from byte `start` on, to byte `end` if there is one; close it.

    `presign`: from the object store, without the credentials of the session.  A server may redirect
    any reader there; without `redirects` that is an error, and https never leads to http.  Raises
    `NotFound`.  A start that is not 0, and an end, may be ignored: the status is then 200 instead
    of 206."""
    where = below("repositories", repository, "refs", ref, "objects")
    last = "" if end is None else str(end)
    headers = {"Range": f"bytes={start}-{last}"} if start or last else {}
    answer = session.open("GET", with_query(where, path=path, presign=presign), b"", headers)
    if redirects and answer.status in _REDIRECTS and "Location" in answer.headers:
        answer.close()
        url = answer.headers["Location"]
        if _has_tls(session.url) and not _has_tls(url):
            raise Invalid("the server redirects from https to another scheme")
        answer = session.connections.send(Request("GET", url, headers))
    if answer.status not in (200, 206):
        with answer:
            raise error_of(answer)
    return answer


def _has_tls(url: str) -> bool:
    return url[:8].lower() == "https://"


# ---- the storage ---------------------------------------------------------------------------------


class Storage(NamedTuple):
    """What the object store of a server can do.

    `presigns`: it signs URLs.  `presigns_parts`: also for the parts of an upload.
    `tells_crc32c`: the server tells the CRC32C of an upload, and it is computed fast here."""

    presigns: bool
    presigns_parts: bool
    tells_crc32c: bool


NOTHING_KNOWN: Final = Storage(presigns=False, presigns_parts=False, tells_crc32c=False)


def storage(session: Session) -> Storage:
    """What the object store of the server can do.  A caller that may not ask for it gets
    `NOTHING_KNOWN`, and its bytes go through the server.  One request."""
    try:
        config, checksums = _storage_config(session)
    except Refused:
        return NOTHING_KNOWN
    presigns = bool(config.get("pre_sign_support"))
    presigns_parts = presigns and bool(config.get("pre_sign_multipart_upload"))
    tells_crc32c = "crc32c" in map(str.strip, checksums.split(",")) and crc32c_is_fast()
    return Storage(presigns, presigns_parts, tells_crc32c)


class Namespaces(NamedTuple):
    """Where new repositories can be.  `prefix`: of a namespace that the server proposes, or empty.
    `example`: how one begins."""

    prefix: str
    example: str


def namespaces(session: Session) -> Namespaces:
    """Where new repositories can be.  One request."""
    config, _ = _storage_config(session)
    names = ("default_namespace_prefix", "blockstore_namespace_example")
    prefix, example = (str(config.get(name) or "") for name in names)
    return Namespaces(prefix, example if example.endswith("/") else f"{example}/")


def _storage_config(session: Session) -> tuple[dict[str, Any], str]:
    """The configuration of the storage, and the checksums that the server tells of uploads."""
    answer = session.answer("GET", "/config")
    config = having(answer.decoded(session.url)).get("storage_config")
    checksums = answer.headers.get("X-Graveler-Checksums", "")
    return config if isinstance(config, dict) else {}, checksums


# ---- writing through the server ------------------------------------------------------------------


def upload(
    session: Session,
    repository: str,
    branch: str,
    path: str,
    pieces: Iterable[bytes],
    how: Upload = Upload(),
    *,
    length: int = -1,
    again: Callable[[], str] | None = None,
) -> Stats:
    """Write an object through the server.  `length`: the number of bytes, if it is known; fewer or
    more bytes write nothing and raise `Invalid`.  Raises `PreconditionFailed` if it exists and may
    not, and `Corrupt` if the server says that it stored other bytes.

    Bytes are compared by their MD5.  `again`: computes it once more; then many bytes are compared
    by the CRC32C that the server tells, and `again` is called if it tells none.  For a server that
    tells it (`Storage`)."""
    headers = {"Content-Type": how.content_type or _USUAL_TYPE, **how.condition()}
    headers |= _metadata_headers(how.metadata)
    where = with_query(below("repositories", repository, "branches", branch, "objects"), path=path)
    by_crc32c = again is not None and length >= CRC32C_BYTES_MIN
    with UploadBody(path, pieces, length, by_crc32c=by_crc32c) as body:
        with session.open("POST", where, body, headers, length=length) as answer:
            if answer.status != 201:
                raise error_of(answer)
            stored = _stats(json.loads(answer.read_all(_ANSWER_BYTES_MAX)))
            known = crc32c_of(answer.headers) if by_crc32c else stored["checksum"]
        body.check(known, _AFTER_WRONG_BYTES)
    if again is not None and by_crc32c and not known:
        compare_md5(path, again(), stored["checksum"], _AFTER_WRONG_BYTES)
    return stored


def stage(
    session: Session, repository: str, branch: str, path: str, outside: Outside, how: Upload
) -> Stats:
    """Make bytes outside the repository the object at a path; nothing is copied.  One request."""
    where = with_query(below("repositories", repository, "branches", branch, "objects"), path=path)
    body: dict[str, Any] = {
        "physical_address": outside.url,
        "checksum": outside.checksum,
        "size_bytes": outside.size,
        "metadata": dict(how.metadata),
    }
    body |= {} if outside.mtime is None else {"mtime": outside.mtime}
    body |= {"content_type": how.content_type} if how.content_type else {}
    return _stats(session.call("PUT", where, body))


def set_metadata(
    session: Session, repository: str, branch: str, path: str, metadata: Mapping[str, str]
) -> None:
    """Replace the metadata of an object.  One request."""
    parts = ("repositories", repository, "branches", branch, "objects", "stat", "user_metadata")
    session.call("PUT", with_query(below(*parts), path=path), {"set": dict(metadata)})


def copy(
    session: Session, repository: str, branch: str, path: str, source_ref: str, source_path: str
) -> Stats:
    """Copy an object within a repository, by the server."""
    where = below("repositories", repository, "branches", branch, "objects", "copy")
    body = {"src_ref": source_ref, "src_path": source_path}
    return _stats(session.call("POST", with_query(where, dest_path=path), body))


def delete(
    session: Session, repository: str, branch: str, paths: Sequence[str]
) -> list[dict[str, Any]]:
    """Delete objects, at most `DELETIONS_MAX`.  Returns what failed, with `path` and `message`.  A
    path that does not exist is no failure."""
    where = below("repositories", repository, "branches", branch, "objects", "delete")
    errors = having(session.call("POST", where, {"paths": list(paths)})).get("errors")
    return [having(error, "message") for error in errors] if isinstance(errors, list) else []


def _metadata_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """Metadata as headers.  A header is sent as Latin-1, and servers read UTF-8: so each character
    stands for a byte.  Raises `Invalid` for what no header can carry."""
    headers = {}
    for name, value in metadata.items():
        kind = "meta" if (key := name.removeprefix(_INTERNAL)) == name else "internal"
        if not key or not set(key) <= _HEADER_NAME:
            raise Invalid(f"metadata key invalid: it must be a word of plain ASCII: {name!r}")
        if any(character < " " or character == "\x7f" for character in value):
            raise Invalid(f"metadata invalid: it must not have control characters: {name!r}")
        try:
            text = value.encode().decode("latin-1")
        except UnicodeEncodeError as error:
            raise Invalid(f"metadata invalid: it is no UTF-8: {name!r}") from error
        headers[f"x-lakefs-{kind}-{key}"] = text
    return headers


# ---- writing to the object store -----------------------------------------------------------------


def upload_presigned(
    session: Session,
    repository: str,
    branch: str,
    path: str,
    pieces: Iterable[bytes],
    how: Upload,
    *,
    length: int,
) -> Stats:
    """Write an object to the object store of the server, then link it: three requests.  A call that
    ends early, or with fewer or more bytes than `length`, leaves nothing on the branch; nor does
    one whose bytes the store has changed, by its ETag: `Corrupt`."""
    with UploadBody(path, pieces, length) as body:
        place = _store(session, repository, branch, path, body, how, length=length)
        content = Content(body.checksum(), length)
    return link(session, repository, branch, path, place, content, how)


def store_presigned(
    session: Session,
    repository: str,
    branch: str,
    path: str,
    pieces: Iterable[bytes],
    how: Upload,
    *,
    length: int,
) -> dict[str, Any]:
    """Write bytes to the object store of the server, and return where they are, for `link`.  The
    branch does not change.  The URL is asked for this length alone, which servers of lakeFS do not
    heed.  Two requests.  Raises `Unsupported` if the server signs no URLs, `Invalid` for fewer or
    more bytes than `length`, and `Corrupt` if the store has other bytes, by its ETag."""
    with UploadBody(path, pieces, length) as body:
        return _store(session, repository, branch, path, body, how, length=length)


def _store(
    session: Session,
    repository: str,
    branch: str,
    path: str,
    body: UploadBody,
    how: Upload,
    *,
    length: int,
) -> dict[str, Any]:
    where = with_query(_backing(repository, branch), path=path, presign=True, size_bytes=length)
    place = having(session.call("GET", where), "physical_address")
    url = place.get("presigned_url")
    if not isinstance(url, str) or not url:
        raise Unsupported("the server signed no URL")
    headers = {"Content-Type": how.content_type} if how.content_type else {}
    with session.connections.send(Request("PUT", url, headers, body, length)) as answer:
        answer.read_all(_ANSWER_BYTES_MAX)
        if answer.status >= 300 or not body.ended:
            raise Unavailable(f"the object store refused an upload: status={answer.status}")
        body.check(md5_of(url, answer.headers), _AFTER_WRONG_STORE)
    return {"physical_address": place["physical_address"]}


def link(
    session: Session,
    repository: str,
    branch: str,
    path: str,
    place: Mapping[str, Any],
    content: Content,
    how: Upload,
) -> Stats:
    """Make bytes that were stored the object at a path.  One request.  Raises `PreconditionFailed`
    if it exists and may not."""
    where = with_query(_backing(repository, branch), path=path)
    body = {"staging": place, "checksum": content.checksum, "size_bytes": content.size}
    return _stats(session.call("PUT", where, {**body, **how.fields()}, how.condition()))


def _backing(repository: str, branch: str) -> str:
    return below("repositories", repository, "branches", branch, "staging", "backing")


# ---- large objects, in parts ---------------------------------------------------------------------
#
#     begin_parts ──► put_part, once for each part ──► complete_parts: the object is on the branch
#                        ▲                        └──► abort_parts: the store deletes the parts
#     part_url ──────────┘  when a URL has expired, or another process goes on with the upload
#
# Only servers that say so sign URLs of parts (`Storage.presigns_parts`).


class Target(NamedTuple):
    """Where the object of an upload will be."""

    session: Session
    repository: str
    branch: str
    path: str

    def url(self, *rest: str, **query: object) -> str:
        """Of the uploads to the path, or below."""
        where = ("repositories", self.repository, "branches", self.branch, "staging", "pmpu")
        return with_query(below(*where, *rest), path=self.path, **query)


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


def begin_parts(target: Target, count: int) -> NewUpload:
    """Begin an upload of `count` parts.  The branch does not change.  One request.

    Raises `Unsupported` if the server signs no URLs of parts."""
    answer = target.session.call("POST", target.url(parts=min(count, _URLS_MAX)))
    having(answer, "upload_id", "physical_address")
    urls = answer.get("presigned_urls") or []
    if not isinstance(urls, list):
        raise Internal("the server's answer has another form: its URLs are no list")
    upload = PartsUpload(str(answer["upload_id"]), str(answer["physical_address"]))
    return NewUpload(upload, tuple(map(str, urls)))


def part_url(target: Target, upload: PartsUpload, number: int) -> str:
    """A fresh URL of part `number`, from 1 on.  One request."""
    body = {"physical_address": upload.physical_address}
    answer = target.session.call("PUT", target.url(upload.id, "parts", str(number)), body)
    return str(having(answer, "presigned_url")["presigned_url"])


def put_part(session: Session, url: str, part: Part) -> str:
    """Send a part to its URL, without the credentials of the session, and return its ETag.  The
    call may be repeated: the last one counts.

    Raises `Refused` if the URL has expired, `NotFound` if the store does not know the upload."""
    request = Request("PUT", url, {"Content-MD5": part.md5}, part.pieces, part.length)
    with session.connections.send(request) as answer:
        if answer.status >= 300:
            raise _refusal(answer)
        answer.read_all(_ANSWER_BYTES_MAX)
        tag = etag(answer.headers)
    if not tag:
        raise Internal("the object store gave no ETag for a part")
    return tag


def complete_parts(
    target: Target, upload: PartsUpload, tags: Mapping[int, str], how: Upload
) -> Stats:
    """Join the parts and link the object.  One request; it may be repeated.

    `tags`: the ETag of each part.  Raises `PreconditionFailed` if the path exists and may not,
    `NotFound` if the store does not know the upload, and `Invalid` if the store has other parts."""
    body: dict[str, Any] = {
        "physical_address": upload.physical_address,
        "parts": [{"part_number": number, "etag": tags[number]} for number in sorted(tags)],
        **how.fields(),
    }
    answer = target.session.call("PUT", target.url(upload.id), body, how.condition())
    return cast(Stats, having(answer, "path"))


def abort_parts(target: Target, upload: PartsUpload) -> None:
    """Let the store delete the parts.  An upload that the store does not know is no error.  One
    request."""
    body = {"physical_address": upload.physical_address}
    with suppress(NotFound):
        target.session.call("DELETE", target.url(upload.id), body)


def ends_parts(error: GravelerError) -> bool:
    """Whether an upload cannot go on after this error of a call with its parts."""
    return isinstance(error, NotFound | Invalid | PreconditionFailed)


def _refusal(answer: Response) -> GravelerError:
    if "json" in answer.headers.get("Content-Type", ""):
        return error_of(answer)
    answer.read_all(_ANSWER_BYTES_MAX)
    return failure(answer.status, "the object store refused a part")
