"""Objects, over the API: list, read, write, copy and delete.

Answers are the JSON objects of the API, as typed dictionaries.  Contents are streamed.  All calls
raise the errors of `Session.ask`.  Part of the public Python client.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_letters, digits
from typing import Any, Final, Literal, NamedTuple, TypedDict, cast

from graveler.client import crc32c
from graveler.client.bodies import UploadBody, compare_md5, md5_of
from graveler.client.exchange import PendingAnswer, Request, Response
from graveler.client.refs import checked, listed
from graveler.client.session import Session, below, error_of, with_query
from graveler.errors import Invalid, Unavailable, Unsupported

DELETIONS_MAX: Final = 1_000  # of one request
_INTERNAL: Final = "::lakefs::"  # begins the names of metadata that lakeFS itself gives a meaning
_HEADER_NAME: Final = frozenset(ascii_letters + digits + "!#$%&'*+-.^_`|~")
_REDIRECTS: Final = (302, 303, 307)
_ANSWER_BYTES_MAX: Final = 1 << 20
_CHECKSUMS: Final = "X-Graveler-Checksums"
_AFTER_WRONG_BYTES: Final = "the branch has them now: upload it again, or reset the path"
_AFTER_WRONG_STORE: Final = (
    "the branch does not have them: upload it again, or through the server, without signed URLs"
)


class _Stats(TypedDict):
    path: str
    path_type: Literal["object", "common_prefix"]
    physical_address: str
    checksum: str
    mtime: int


class Stats(_Stats, total=False):
    """An object, or a common prefix of several.  `mtime` is in seconds since 1970."""

    size_bytes: int
    content_type: str
    metadata: dict[str, str]
    physical_address_expiry: int


@dataclass(frozen=True, slots=True)
class Upload:
    """What is written beside the bytes.  `create_only`: fail if the path exists."""

    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    create_only: bool = False


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
    path = with_query(
        below("repositories", repository, "refs", ref, "objects", "ls"), delimiter=delimiter
    )
    for item in listed(session, path, prefix, after, amount):
        yield cast(Stats, item)


def stat(session: Session, repository: str, ref: str, path: str, *, presign: bool = False) -> Stats:
    """One object.  `presign`: its address is a signed URL.  Raises `NotFound`."""
    where = below("repositories", repository, "refs", ref, "objects", "stat")
    answer = session.ask("GET", with_query(where, path=path, presign=presign))
    return cast(Stats, checked(answer, "path", "checksum", "mtime"))


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
        if _is_encrypted(session.url) and not _is_encrypted(url):
            raise Invalid("the server redirects from https to another scheme")
        answer = session.connections.send(Request("GET", url, headers))
    if answer.status not in (200, 206):
        with answer:
            raise error_of(answer)
    return answer


def _is_encrypted(url: str) -> bool:
    return url[:8].lower() == "https://"


def presigns(session: Session) -> bool:
    """Whether the server signs URLs of its object store."""
    return storage(session).presigns


class Storage(NamedTuple):
    """What the object store of a server can do.

    `presigns`: it signs URLs.  `presigns_parts`: also for the parts of an upload (parts.py).
    `tells_crc32c`: the server tells the CRC32C of an upload, and it is computed fast here."""

    presigns: bool
    presigns_parts: bool
    tells_crc32c: bool


NOTHING_KNOWN: Final = Storage(presigns=False, presigns_parts=False, tells_crc32c=False)


def storage(session: Session) -> Storage:
    """What the object store of the server can do.  One request."""
    config, checksums = _storage_config(session)
    presigns = bool(config.get("pre_sign_support"))
    presigns_parts = presigns and bool(config.get("pre_sign_multipart_upload"))
    tells_crc32c = "crc32c" in map(str.strip, checksums.split(",")) and crc32c.is_fast()
    return Storage(presigns, presigns_parts, tells_crc32c)


class Namespaces(NamedTuple):
    """Where new repositories can be.  `prefix`: of a namespace that the server proposes, or empty.
    `example`: how one begins."""

    prefix: str
    example: str

    def takes(self, namespace: str) -> bool:
        """Whether a namespace begins with the scheme of this server's storage."""
        return namespace.partition("://")[:2] == self.example.partition("://")[:2]


def namespaces(session: Session) -> Namespaces:
    """Where new repositories can be.  One request."""
    config, _ = _storage_config(session)
    names = ("default_namespace_prefix", "blockstore_namespace_example")
    prefix, example = (str(config.get(name) or "") for name in names)
    return Namespaces(prefix, example if example.endswith("/") else f"{example}/")


def _storage_config(session: Session) -> tuple[dict[str, Any], str]:
    """The configuration of the storage, and the checksums that the server tells of uploads."""
    answer, checksums = session.ask_with(_CHECKSUMS, "GET", "/config")
    config = checked(answer).get("storage_config")
    return config if isinstance(config, dict) else {}, checksums


# ---- writing -------------------------------------------------------------------------------------


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
    return begin_upload(
        session, repository, branch, path, pieces, how, length=length, again=again
    ).finish()


def begin_upload(
    session: Session,
    repository: str,
    branch: str,
    path: str,
    pieces: Iterable[bytes],
    how: Upload = Upload(),
    *,
    length: int = -1,
    again: Callable[[], str] | None = None,
) -> "PendingUpload":
    """As `upload`, but does not wait for the answer, so that one thread can have several uploads
    under way.  For small bodies: a larger one waits while the server reads."""
    headers = {"Content-Type": how.content_type or "application/octet-stream"}
    headers |= _metadata_headers(how.metadata)
    headers |= {"If-None-Match": "*"} if how.create_only else {}
    where = with_query(below("repositories", repository, "branches", branch, "objects"), path=path)
    by_crc32c = again is not None and length >= crc32c.BYTES_MIN
    body = UploadBody(path, pieces, length, by_crc32c=by_crc32c)
    try:
        awaited = session.begin("POST", where, body, headers, length=length)
    except BaseException:
        body.close()
        raise
    return PendingUpload(path, body, awaited, again if by_crc32c else None)


class PendingUpload:
    """An upload whose bytes were sent (`begin_upload`).  `finish` follows once, or `close`.

    `deadline`: as that of `PendingAnswer`."""

    def __init__(
        self, path: str, body: UploadBody, awaited: PendingAnswer, again: Callable[[], str] | None
    ) -> None:
        self._path, self._body, self._awaited, self._again = path, body, awaited, again
        self.deadline: Final = awaited.deadline

    def fileno(self) -> int:
        """As `PendingAnswer.fileno`."""
        return self._awaited.fileno()

    def finish(self) -> Stats:
        """The object, after the server has answered.  Raises what `upload` raises."""
        with self._body as body:
            with self._awaited.answer() as answer:
                if answer.status != 201:
                    raise error_of(answer)
                stored = cast(Stats, checked(_json(answer), "path", "checksum"))
                known = crc32c.told(answer.headers) if self._again else stored["checksum"]
            body.check(known, _AFTER_WRONG_BYTES)
        if self._again is not None and not known:
            compare_md5(self._path, self._again(), stored["checksum"], _AFTER_WRONG_BYTES)
        return stored

    def close(self) -> None:
        """Give the answer up.  Whether the object was written is unknown then."""
        self._awaited.close()
        self._body.close()


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
    place = checked(session.ask("GET", where), "physical_address")
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
    body: dict[str, Any] = {
        "staging": place,
        "checksum": content.checksum,
        "size_bytes": content.size,
        "user_metadata": dict(how.metadata),
        "content_type": how.content_type or "application/octet-stream",
    }
    condition = {"If-None-Match": "*"} if how.create_only else {}
    return cast(Stats, checked(session.ask("PUT", where, body, condition), "path", "checksum"))


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
    return cast(Stats, checked(session.ask("PUT", where, body), "path", "checksum"))


def set_metadata(
    session: Session, repository: str, branch: str, path: str, metadata: Mapping[str, str]
) -> None:
    """Replace the metadata of an object.  One request."""
    parts = ("repositories", repository, "branches", branch, "objects", "stat", "user_metadata")
    session.ask("PUT", with_query(below(*parts), path=path), {"set": dict(metadata)})


def _backing(repository: str, branch: str) -> str:
    return below("repositories", repository, "branches", branch, "staging", "backing")


def copy(
    session: Session, repository: str, branch: str, path: str, source_ref: str, source_path: str
) -> Stats:
    """Copy an object within a repository, by the server."""
    where = below("repositories", repository, "branches", branch, "objects", "copy")
    body = {"src_ref": source_ref, "src_path": source_path}
    answer = session.ask("POST", with_query(where, dest_path=path), body)
    return cast(Stats, checked(answer, "path", "checksum"))


def delete(
    session: Session, repository: str, branch: str, paths: Sequence[str]
) -> list[dict[str, Any]]:
    """Delete objects, at most `DELETIONS_MAX`.  Returns what failed, with `path` and `message`.  A
    path that does not exist is no failure."""
    where = below("repositories", repository, "branches", branch, "objects", "delete")
    answer = checked(session.ask("POST", where, {"paths": list(paths)}))
    errors = answer.get("errors")
    return [checked(error, "message") for error in errors] if isinstance(errors, list) else []


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


def _json(answer: Response) -> Any:
    return json.loads(answer.read_all(_ANSWER_BYTES_MAX))
