"""Objects as files of Python: read by ranges, written as a whole.

A reader reads the object as it was when it was opened: an object never changes, a path may get
another one.  A writer keeps what is written until it is closed, and then uploads it; if its `with`
block raises, nothing is written.
"""

import io
import os
import re
import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final, cast

from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Conflict,
    GravelerError,
    Invalid,
    NotFound,
    PreconditionFailed,
    Refused,
)
from graveler.lake import objects
from graveler.lake.connections import Request, Response
from graveler.lake.errors import Raising, of
from graveler.lake.objects import Stats, Upload
from graveler.lake.session import Session, error_of, failure

if TYPE_CHECKING:
    from graveler.lake.lake import Lake

_AHEAD_BYTES: Final = 256 << 10
_AHEAD_BYTES_MAX: Final = 64 << 20
_BUFFER_BYTES: Final = 128 << 10
_MEMORY_BYTES: Final = 8 << 20
_PIECE_BYTES: Final = 1 << 18
_DIRECT_BYTES_MAX: Final = 256 << 10  # one request through the server; a signed URL needs three
_NO_SUCH_RANGE: Final = "416"  # it begins at the end of the object, or behind it
_SCHEME: Final = re.compile("(graveler|lakefs|s3a?)://", re.IGNORECASE)
_MODES: Final = ("r", "rb", "rt", "w", "wb", "wt", "x", "xb", "xt")


class Place:
    """A repository and a ref of a lake."""

    def __init__(self, lake: "Lake", repository: str, ref: str) -> None:
        self._lake, self.repository, self.ref = lake, repository, ref

    @property
    def session(self) -> Session:
        """The session of the lake."""
        return self._lake.session

    @property
    def presigns(self) -> bool:
        """Whether the object store signs URLs.  The first call of a lake sends a request."""
        return self._lake.presigns

    @property
    def where(self) -> tuple[Session, str, str]:
        """The first arguments of calls."""
        return self.session, self.repository, self.ref

    def stat(self, path: str, *, presign: bool = False) -> Stats:
        """The object at a path."""
        with self._naming(path):
            return objects.stat(*self.where, path, presign=presign)

    def list(
        self,
        prefix: str = "",
        *,
        delimiter: str = "",
        after: str = "",
        amount: int | None = None,
    ) -> Iterator[Stats]:
        """The objects below a prefix, sorted by path; with a delimiter also common prefixes."""
        return objects.list_objects(
            *self.where, prefix, delimiter=delimiter, after=after, amount=amount
        )

    def has(self, path: str) -> bool:
        """Whether there is an object at a path."""
        try:
            self.stat(path)
        except NotFound:
            return False
        return True

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of an object, from `start` to before `end`, as of a slice: none beyond its end.
        One request, and one to the object store if the server redirects there."""
        if end is not None and end <= start:
            return b""
        last = None if end is None else end - 1
        try:
            with (
                self._naming(path),
                objects.open_object(
                    *self.where, path, start=start, end=last, presign=self.presigns
                ) as answer,
            ):
                content = b"".join(_pieces(answer))
        except GravelerError as error:
            if error.fields.get("status") == _NO_SUCH_RANGE:
                return b""
            raise
        return content if answer.status == 206 else content[start:end]

    def stream(self, path: str, *, redirects: bool = True) -> Iterator[bytes]:
        """The bytes of an object, piece by piece, by one request, or by two if the object store
        sends them.  Without `redirects`, the server itself has to answer."""
        presign = redirects and self.presigns
        with (
            self._naming(path),
            objects.open_object(*self.where, path, presign=presign, redirects=redirects) as answer,
        ):
            yield from _pieces(answer)

    def write(
        self,
        path: str,
        pieces: Iterable[bytes],
        length: int,
        how: Upload,
        *,
        redirects: bool = True,
    ) -> Stats:
        """Write an object.  `length`: how many bytes the pieces have, or -1.  Without `redirects`
        the server takes them; else the object store, if they are many and one request may have
        them."""
        self.check_relative(path)
        is_direct = redirects and _DIRECT_BYTES_MAX < length <= limits.put_length_bytes_max
        with self._naming(path):
            if is_direct and self.presigns:
                return objects.upload_presigned(*self.where, path, pieces, how, length=length)
            return objects.upload(*self.where, path, pieces, how, length=length)

    def check_relative(self, path: str) -> None:
        """Raises `Invalid` for an address instead of a path."""
        if _SCHEME.match(path):
            text = f"a path is relative to {self.repository}/{self.ref}/, without a scheme: {path}"
            raise Invalid(text, "", **self._advice(path))

    def _advice(self, path: str) -> dict[str, str]:
        """The remedy of an error for an address that stands for a path."""
        scheme = _SCHEME.match(path)
        if scheme is None:
            return {}
        here, rest = f"{self.repository}/{self.ref}/", path[scheme.end() :]
        if rest.startswith(here):
            return {"remedy": f'give "{rest.removeprefix(here)}"'}
        is_ours = scheme[1].lower() in ("graveler", "lakefs")
        return {"remedy": "lake.at(address) has the branch and the path"} if is_ours else {}

    def copy(self, path: str, source_ref: str, source_path: str) -> Stats:
        """Make a copy of an object, by the server."""
        self.check_relative(path)
        with Place(self._lake, self.repository, source_ref)._naming(source_path):
            return objects.copy(*self.where, path, source_ref, source_path)

    def set_metadata(self, path: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of an object."""
        objects.set_metadata(*self.where, path, metadata)

    def delete(self, paths: Iterable[str]) -> int:
        """Delete the objects at these paths and nothing below them; returns how many paths there
        were.  Raises the first failure behind the batch that it is in.  A request for each
        1,000."""
        rest, count = iter(paths), 0
        while batch := [*islice(rest, objects.DELETIONS_MAX)]:
            for path, error in self.delete_batch(batch).items():
                reason = f"not deleted: {path}: {error.fields['reason']}"
                raise failure(int(error.fields["status"]), reason) from error
            count += len(batch)
        return count

    def delete_batch(self, paths: Sequence[str]) -> dict[str, GravelerError]:
        """Delete the objects at these paths, at most `objects.DELETIONS_MAX`; returns what failed.
        One request."""
        return {
            str(failed.get("path", "")): failure(
                int(failed.get("status_code") or 400), str(failed["message"])
            )
            for failed in objects.delete(*self.where, paths)
        }

    @contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        """Let the text of an error name the object: servers answer only `not found`."""
        try:
            yield
        except (NotFound, PreconditionFailed) as error:
            reason = error.fields.get("reason", "") or str(error)
            named = type(error)(f"{reason}: {self.repository}/{self.ref}/{path}")
            named.fields = {**self._advice(path), **error.fields, "reason": str(named)}
            raise named from error.__cause__


def _pieces(answer: Response) -> Iterator[bytes]:
    return iter(answer.read, b"")


def pieces_of(file: IO[bytes]) -> Iterator[bytes]:
    """What a file has from its position on."""
    return iter(lambda: file.read(_PIECE_BYTES), b"")


# ---- reading -------------------------------------------------------------------------------------


class Reader(io.RawIOBase):
    """The bytes of one object.  A read that goes on where the last one ended continues its request;
    the first request after a jump asks for 256 KiB, and each further one for twice as much.

    `stats`: of the object, if they are known, in a place that signs no URLs."""

    def __init__(self, place: Place, path: str, stats: Stats | None = None) -> None:
        super().__init__()
        self._answer: Response | None = None  # first: `close` is called also if there is no object
        self._place, self._path = place, path
        stats = stats or place.stat(path, presign=place.presigns)
        self.size: Final = int(stats.get("size_bytes", 0))
        self.name: Final = path
        self._checksum = str(stats.get("checksum", ""))
        self._url = str(stats.get("physical_address", "")) if place.presigns else ""
        self._at = 0  # of the reader
        self._next = self._end = 0  # of the answer: what it gives next, and where it ends
        self._ahead = _AHEAD_BYTES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError(f"position is negative: {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self.size - self._at)
        if wanted <= 0:
            return 0
        try:
            answer = self._opened(wanted)
            count = answer.read_into(view[: min(wanted, self._end - self._next)])
        except GravelerError as error:
            self._drop()
            raise of(error) from error.__cause__
        if not count:
            raise of(Conflict(f"the object ended early: path={self._path}"))
        self._next += count
        self._at += count
        if self._at == self.size:  # of a file that others wrap, nobody may call `close`
            self._drop()
        return count

    def read_at(self, start: int, view: memoryview) -> None:
        """Fill `view` with the bytes from `start` on, which the object must have, by a request of
        its own.  Threads may do that at the same time."""
        count = 0
        try:
            with self._asked(start, start + len(view)) as answer:
                while count < len(view) and (read := answer.read_into(view[count:])):
                    count += read
        except GravelerError as error:
            raise of(error) from error.__cause__
        if count < len(view):
            raise of(Conflict(f"the object ended early: path={self._path}"))

    def duplicate(self) -> int | None:
        """A descriptor of the file that is the object, which the caller closes; None if the store
        is not in this process, or keeps the object otherwise."""
        if not self._place.session.connections.in_process or not self.size:
            return None
        try:
            with self._asked(0, self.size) as answer:
                descriptor = answer.duplicate()
        except GravelerError as error:
            raise of(error) from error.__cause__
        if descriptor is not None and os.fstat(descriptor).st_size != self.size:
            os.close(descriptor)  # an imported file that somebody writes
            return None
        return descriptor

    def close(self) -> None:
        self._drop()
        super().close()

    def _opened(self, wanted: int) -> Response:
        """An answer whose next byte is the one at the position of the reader."""
        if self._answer is not None and self._next == self._at < self._end:
            return self._answer
        goes_on = self._answer is not None and self._next == self._at
        self._drop()
        self._ahead = min(2 * self._ahead, _AHEAD_BYTES_MAX) if goes_on else _AHEAD_BYTES
        end = min(self._at + max(wanted, self._ahead), self.size)
        self._answer = self._asked(self._at, end)
        self._next, self._end = self._at, end
        return self._answer

    def _asked(self, start: int, end: int) -> Response:
        answer = self._send(start, end)
        if answer.status == 403 and self._url:  # the URL has expired
            answer.close()
            stats = self._place.stat(self._path, presign=True)
            if stats.get("checksum") != self._checksum:
                raise Conflict(f"the object was replaced while it was read: path={self._path}")
            self._url = str(stats.get("physical_address", ""))
            answer = self._send(start, end)
        if answer.status == 200 and start == 0 and end == self.size:
            return answer
        if answer.status != 206:
            with answer:
                if answer.status < 300:
                    raise Invalid("the object store ignores ranges: read the object as a whole")
                if answer.status == 403 and self._url:
                    raise Refused(f"the object store refused a signed URL: path={self._path}")
                raise error_of(answer)
        return answer

    def _send(self, start: int, end: int) -> Response:
        headers = {"Range": f"bytes={start}-{end - 1}"} if self.size else {}
        if self._url:
            return self._place.session.connections.send(Request("GET", self._url, headers))
        path = object_path(self._place, self._path)
        return self._place.session.open(
            "GET", path, b"", {**headers, "If-Match": f'"{self._checksum}"'}
        )

    def _drop(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None


def object_path(place: Place, path: str) -> str:
    """The path of the API of an object's bytes."""
    from graveler.lake.session import below, with_query

    where = below("repositories", place.repository, "refs", place.ref, "objects")
    return with_query(where, path=path)


# ---- writing -------------------------------------------------------------------------------------


class Unfinished(Raising, io.BufferedIOBase):
    """A file whose bytes appear together when it is closed.  If its `with` block raises, or nobody
    closes it, nothing is written; of what nobody closes, a `RuntimeWarning` says so.  `address`: of
    the object."""

    has_bytes = False  # that would be lost

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address: Final = address
        self._process = os.getpid()  # a fork of it has the file, too

    @abstractmethod
    def _finish(self) -> None:
        """Upload what was written."""

    @abstractmethod
    def _drop(self) -> None:
        """Free what was written; also after `_finish`."""

    def writable(self) -> bool:
        return True

    def discard(self) -> None:
        """Close without writing anything."""
        if not self.closed:
            self._drop()
            super().close()

    def close(self) -> None:
        """Upload what was written."""
        if self.closed:
            return
        try:
            self._finish()
        finally:
            self.discard()

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        try:
            is_lost = not self.closed and self.has_bytes and self._process == os.getpid()
            self.discard()
            if is_lost:
                warnings.warn(
                    f"{self.address} was not closed, so nothing of it was written: close it, as "
                    "`with branch.open(...) as file:` does",
                    RuntimeWarning,
                    stacklevel=2,
                )
        except Exception:
            if not sys.is_finalizing():  # then half of Python is gone
                raise


class Writer(Unfinished):
    """Keeps what is written, in memory up to 8 MiB and then in a temporary file, and uploads it
    when it is closed.  `stats`: the answer of the server."""

    def __init__(self, place: Place, path: str, how: Upload) -> None:
        super().__init__(f"{place.repository}/{place.ref}/{path}")
        self._place, self._path, self._how = place, path, how
        import tempfile

        spool = tempfile.SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115  # `_drop` closes it
        self._file = cast(IO[bytes], spool)
        self.name: Final = path
        self.stats: Stats | None = None

    def write(self, data: Any) -> int:
        if self.closed:
            raise ValueError("write to closed file")
        count = self._file.write(data)
        self.has_bytes = self.has_bytes or count > 0
        return count

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Nothing: the object appears when the file is closed."""

    def _finish(self) -> None:
        length = self._file.tell()
        self._file.seek(0)
        self.stats = self._place.write(self._path, pieces_of(self._file), length, self._how)

    def _drop(self) -> None:
        self._file.close()


class TextWriter(io.TextIOWrapper):
    """A writer of text."""

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None:
            cast(Writer, self.buffer).discard()
            return
        self.close()

    def __del__(self) -> None:
        """Not as `io`, which would write what there is: the buffer says what is lost."""


def opened(
    place: Place,
    path: str,
    mode: str,
    encoding: str = "utf-8",
    newline: str | None = None,
    *,
    content_type: str = "",
    metadata: Mapping[str, str] | None = None,
) -> IO[Any]:
    """The object at a path as a file, as `open` of Python.  Raises `Invalid` for another mode."""
    if mode not in _MODES:
        raise Invalid(f"mode invalid: {mode!r}: it must be one of {', '.join(_MODES)}")
    is_text = "b" not in mode
    if mode[0] == "r":
        reader = io.BufferedReader(Reader(place, path), _BUFFER_BYTES)
        return io.TextIOWrapper(reader, encoding, newline=newline) if is_text else reader
    if mode[0] == "x" and place.has(path):  # at once, as `open` of Python; and again at the end
        raise AlreadyExists(f"object already exists: {place.repository}/{place.ref}/{path}")
    place.check_relative(path)
    how = Upload(content_type, dict(metadata or {}), create_only=mode[0] == "x")
    writer = Writer(place, path, how)
    if is_text:
        return TextWriter(cast(Any, writer), encoding, newline=newline, write_through=True)
    return cast(IO[bytes], writer)
