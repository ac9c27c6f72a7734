"""The file system of fsspec: `graveler://REPOSITORY/REF/PATH` for pandas, pyarrow, Dask and others.

Folders are prefixes of paths, as on S3: they exist while something is below them.  A repository and
a ref are folders too.  A branch is listed anew each time; a commit never changes.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final, cast

from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.spec import AbstractFileSystem
from fsspec.transaction import Transaction

from graveler.core.errors import NotFound, Unsupported
from graveler.lake import files
from graveler.lake import lake as lakes
from graveler.lake.branch import Branch
from graveler.lake.errors import Invalid, raising
from graveler.lake.files import Place
from graveler.lake.records import Entry, entry

if TYPE_CHECKING:
    from graveler.lake.change import ChangeContext
    from graveler.lake.lake import Lake

Info = dict[str, Any]
_ID: Final = re.compile(r"[0-9a-f]{64}")
_TEXT: Final = ("encoding", "errors", "newline")
# As s3fs calls them, and what they are for `connect`.
_OPTIONS: Final = {
    "endpoint_url": "url",
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "token",
    "profile": "profile",
}


class Writes(Transaction):  # type: ignore[misc]  # fsspec has no types
    """Writes to one branch, on a branch of their own until they land as one commit."""

    def __init__(self, fs: "GravelerFileSystem", **more: Any) -> None:
        super().__init__(fs, **more)
        self._context: ChangeContext | None = None
        self._branch: Branch | None = None

    def place(self, place: Place) -> Place:
        """Where a write to `place` goes.  Raises `Invalid` for another branch than before."""
        if self._context is None or self._branch is None:
            target = Branch(self.fs.lake.repository(place.repository), place.ref)
            self._context = target.change(f"Write through fsspec to {target.address}")
            self._branch = self._context.__enter__()
        target = self._context.target
        if (place.repository, place.ref) != (target.repository.name, target.name):
            asked = f"{place.repository}/{place.ref}"
            raise Invalid(f"a transaction writes to one branch: {target.address}, not {asked}")
        return self._branch._place

    def complete(self, commit: bool = True) -> None:
        """Merge the writes, or drop them."""
        context, branch = self._context, self._branch
        self._context = self._branch = None
        self.files.clear()
        self.fs._intrans = False
        self.fs._transaction = None
        if context is not None and branch is not None:
            if commit:
                context.__exit__(None, None, None)
            else:
                branch.repository.delete_branch(branch)


class _OfLake(type(AbstractFileSystem)):  # type: ignore[misc]  # fsspec has no types
    """fsspec keeps file systems, and finds them by the text of their arguments.  The text of a lake
    does not say with whose credentials it is connected, nor whether it is still open."""

    def __call__(cls, lake: "Lake | None" = None, **options: Any) -> Any:
        if lake is None:
            return super().__call__(**options)
        return super().__call__(lake, **options, skip_instance_cache=True)


class GravelerFileSystem(AbstractFileSystem, metaclass=_OfLake):  # type: ignore[misc]
    """`lake`: a lake that is connected; else `endpoint_url`, `key` and `secret`, or `token`, or
    `profile`, as for `graveler.connect`; without any, the profile of the command line.

    Inside `with fs.transaction as t:` writes go to a branch of their own, and become one commit of
    the branch when the block ends; if it raises, nothing is changed.  Outside, `fsspec.open` and
    pandas close a file also after an error, which writes what there is.

    Its verbs are those of fsspec.  A list of a commit, by its whole id, is kept as
    `use_listings_cache` and its like say.  A folder exists while something is in it.
    """

    protocol: ClassVar[Any] = ("graveler", "lakefs")
    root_marker: ClassVar[str] = ""
    transaction_type: ClassVar[Any] = Writes

    def __init__(self, lake: "Lake | None" = None, **options: Any) -> None:
        super().__init__(**options)
        self._lake, self._given = lake, lake

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GravelerFileSystem):
            return NotImplemented
        return self._given is other._given and bool(super().__eq__(other))

    def __hash__(self) -> int:
        return hash((super().__hash__(), id(self._given)))

    @property
    def lake(self) -> "Lake":
        """The lake, connected when it is first needed."""
        if self._lake is None:
            given = {
                name: self.storage_options[option]
                for option, name in _OPTIONS.items()
                if self.storage_options.get(option)
            }
            self._lake = lakes.connect(**given)
        return self._lake

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list | tuple):
            return [cls._strip_protocol(each) for each in path]
        text = str(path)
        for scheme in ("graveler://", "lakefs://"):
            text = text.removeprefix(scheme)
        return text.strip("/") if text.endswith("/") else text.lstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The path with its scheme."""
        return f"graveler://{self._strip_protocol(name)}"

    # ---- reading -----------------------------------------------------------------------------

    @raising
    def ls(self, path: str, detail: bool = True, **more: Any) -> list[Any]:
        """What is directly in a folder.  A list of a commit, by its whole id, is kept for as long
        as fsspec's `use_listings_cache`, `listings_expiry_time` and `max_paths` say."""
        path = self._strip_protocol(path)
        is_kept = _ID.fullmatch(_parts(path)[1])
        try:
            found = self.dircache[path] if is_kept else list(self._listed(path))
        except KeyError:
            found = self.dircache[path] = list(self._listed(path))
        return list(found) if detail else [each["name"] for each in found]

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget lists."""
        self.dircache.clear()

    def _listed(self, path: str) -> Iterator[Info]:
        repository, ref, inner = _parts(path)
        if not repository:
            yield from (_folder(each.name) for each in self.lake.repositories())
            return
        if not ref:
            repo = self.lake.repository(repository)
            names = [each.name for each in repo.branches()] + [each.name for each in repo.tags()]
            yield from (_folder(f"{repository}/{name}") for name in sorted(names))
            return
        place, top = self._place(repository, ref), f"{repository}/{ref}/"
        below = f"{inner}/" if inner else ""
        count = 0
        for stats in place.list(below, delimiter="/"):
            if stats["path"] != below:
                count += 1
                is_folder = stats.get("path_type") == "common_prefix"
                name = top + stats["path"]
                yield _folder(name.rstrip("/")) if is_folder else _file(name, entry(stats))
        if not count and inner:
            yield _file(top + inner, entry(place.stat(inner)))

    @raising
    def info(self, path: str, **more: Any) -> Info:
        """One object, or a folder."""
        path = self._strip_protocol(path)
        repository, ref, inner = _parts(path)
        if not inner:
            if ref:
                self.lake.repository(repository).ref(ref).pin()
            elif repository and not self.lake.repository(repository).exists():
                raise NotFound(f"repository not found: {repository}")
            return _folder(path)
        place = self._place(repository, ref)
        try:
            return _file(path, entry(place.stat(inner)))
        except NotFound:
            if next(place.list(f"{inner}/", amount=1), None) is None:
                raise
            return _folder(path)

    @raising
    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **more: Any,
    ) -> Any:
        """All objects below a folder: a request for each 1,000, however many folders there are."""
        path = self._strip_protocol(path)
        repository, ref, inner = _parts(path)
        if not ref or maxdepth is not None or withdirs:
            return super().find(path, maxdepth, withdirs, detail, **more)
        place, top = self._place(repository, ref), f"{repository}/{ref}/"
        below = f"{inner}/" if inner else ""
        found = {
            top + each["path"]: _file(top + each["path"], entry(each))
            for each in place.list(below)
            if not each["path"].endswith("/")
        }
        if not found and inner:
            try:
                found = {path: _file(path, entry(place.stat(inner)))}
            except NotFound:
                found = {}
        return found if detail else sorted(found)

    @raising
    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **more: Any
    ) -> bytes:
        """The bytes of an object, or those from `start` to before `end`; negative ones count from
        its end.  One request, and one more for negative ones."""
        place, inner = self._object(path)
        if (start or 0) < 0 or (end or 0) < 0:
            size = int(place.stat(inner).get("size_bytes", 0))
            start = max(size + start, 0) if start is not None and start < 0 else start
            end = size + end if end is not None and end < 0 else end
        return place.read(inner, start or 0, end)

    @raising
    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Any = None,
        compression: str | None = None,
        **more: Any,
    ) -> IO[Any]:
        """The object as a file, as fsspec opens it; `compression`: gzip, zstd …, or `infer`.

        A `with` block that raises writes nothing.  `fsspec.open` and pandas close their files also
        after an error, which writes what there is: inside `transaction` or `Branch.change`, nothing
        of it lands."""
        known = (block_size, cache_options)
        if mode[0] == "r":
            return cast(IO[Any], super().open(path, mode, *known, compression, **more))
        text = {name: more.pop(name) for name in _TEXT if name in more}
        file = super().open(path, f"{mode.strip('bt')}b", *known, **more)
        if packing := get_compression(self._strip_protocol(path), compression):
            file = _Packed(compr[packing](file, mode=mode[0]), file)
        return file if "b" in mode else files.TextWriter(file, **text, write_through=True)

    @raising
    def _open(self, path: str, mode: str = "rb", **more: Any) -> IO[bytes]:
        place, inner = self._object(path)
        if mode[0] != "r":
            place = self._place_to_write(place)
        if mode == "ab":
            return _appended(place, inner)
        how = {name: more[name] for name in ("content_type", "metadata") if name in more}
        return files.opened(place, inner, mode, **how)

    @raising
    def checksum(self, path: str) -> str:
        """What changes when the bytes do."""
        return str(self.info(path).get("checksum", ""))

    def ukey(self, path: str) -> str:
        """The same."""
        return self.checksum(path)

    @raising
    def modified(self, path: str) -> datetime | None:
        """When the object was written, in UTC."""
        return cast("datetime | None", self.info(path).get("mtime"))

    def created(self, path: str) -> datetime | None:
        """The same: an object never changes."""
        return self.modified(path)

    @raising
    def sign(self, path: str, expiration: int = 100, **more: Any) -> str:
        """A URL that reads the object without credentials; the server decides how long."""
        place, inner = self._object(path)
        if not place.presigns:
            raise Unsupported("the object store of this server signs no URLs")
        return str(place.stat(inner, presign=True)["physical_address"])

    def get_file(self, rpath: str, lpath: Any, *args: Any, **more: Any) -> None:
        """Copy an object to a file.  Raises `Invalid` for a path with `..`, which whoever wrote the
        object chose: it could lead out of the folder that `get` fills."""
        if ".." in self._strip_protocol(rpath).split("/"):
            raise Invalid(f"path has '..': {rpath}: read it with cat_file or open")
        super().get_file(rpath, lpath, *args, **more)

    # ---- writing -----------------------------------------------------------------------------

    @raising
    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **more: Any) -> None:
        """Write an object."""
        place, inner = self._object(path)
        how = {name: more[name] for name in ("content_type", "metadata") if name in more}
        target = self._place_to_write(place)
        with files.opened(target, inner, "xb" if mode == "create" else "wb", **how) as file:
            file.write(value)

    @raising
    def cp_file(self, path1: str, path2: str, **more: Any) -> None:
        """Copy an object: no bytes move within a repository."""
        source, inner = self._object(path1)
        target, path = self._object(path2)
        target = self._place_to_write(target)
        if source.repository == target.repository:
            target.copy(path, source.ref, inner)
            return
        with files.opened(source, inner, "rb") as reader, files.opened(target, path, "wb") as file:
            while piece := reader.read(1 << 20):
                file.write(piece)

    @raising
    def _rm(self, path: str) -> None:
        place, inner = self._object(path)
        self._place_to_write(place).delete([inner])

    @raising
    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete objects; with `recursive` everything below folders.  A request for each 1,000."""
        names = [path] if isinstance(path, str | Path) else path
        for name in names:
            repository, ref, inner = _parts(self._strip_protocol(name))
            if not inner:
                raise Invalid(f"not deleted: {name}: a file system deletes no refs")
            place = self._place_to_write(self._place(repository, ref))
            found = [inner]
            if self.isdir(name):
                if not recursive:
                    raise Invalid(f"is a folder: {name}: give recursive=True")
                found = [each["path"] for each in place.list(f"{inner}/")]
            elif not self.exists(name):
                raise NotFound(f"object not found: {name}")
            place.delete(found)

    def mkdir(self, path: str, create_parents: bool = True, **more: Any) -> None:
        """Nothing: a folder exists when something is in it."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Nothing."""

    def rmdir(self, path: str) -> None:
        """Nothing: an empty folder does not exist."""

    def touch(self, path: str, truncate: bool = True, **more: Any) -> None:
        """Write an empty object."""
        if not truncate and self.exists(path):
            raise NotImplementedError("times of objects cannot be changed")
        self.pipe_file(path, b"")

    # ---- transactions ------------------------------------------------------------------------

    @property
    def _change(self) -> "Writes":
        return cast(Writes, self.transaction)

    def _place_to_write(self, place: Place) -> Place:
        return self._change.place(place) if self._intrans else place

    # ---- places ------------------------------------------------------------------------------

    def _place(self, repository: str, ref: str) -> Place:
        return Place(self.lake, repository, ref)

    def _object(self, path: str) -> tuple[Place, str]:
        repository, ref, inner = _parts(self._strip_protocol(path))
        if not inner:
            raise Invalid(f"path of an object missing: {path}: write REPOSITORY/REF/PATH")
        return self._place(repository, ref), inner


def _parts(path: str) -> tuple[str, str, str]:
    """Repository, ref and the path of an object; empty where there are none."""
    repository, _, rest = path.partition("/")
    ref, _, inner = rest.partition("/")
    return repository, ref, inner


def _folder(name: str) -> Info:
    return {"name": name, "size": 0, "type": "directory"}


def _file(name: str, found: Entry) -> Info:
    return {
        "name": name,
        "size": found.size,
        "type": "file",
        "checksum": found.checksum,
        "mtime": found.modified,
        "created": found.modified,
        "content_type": found.content_type,
        "metadata": dict(found.metadata),
    }


class _Packed(files.Unfinished):
    """A writer whose bytes are compressed on their way into `writer`."""

    def __init__(self, packer: Any, writer: files.Writer) -> None:
        super().__init__(writer.address)
        self._packer, self._writer = packer, writer

    def write(self, data: Any) -> int:
        self.has_bytes = True
        return int(self._packer.write(data))

    def _finish(self) -> None:
        self._packer.close()
        self._writer.close()

    def _drop(self) -> None:
        self._writer.discard()
        with suppress(ValueError):  # what was left to compress is of no use
            self._packer.close()


def _appended(place: Place, path: str) -> IO[bytes]:
    """A file that begins with what the object has: the whole is written again."""
    try:
        known = place.read(path)
    except NotFound:
        known = b""
    file = files.opened(place, path, "wb")
    file.write(known)
    cast(files.Writer, file).has_bytes = False  # the object has these
    return file


def __getattr__(name: str) -> Any:
    """`LakefsFileSystem`, which opens `lakefs://`: that of lakefs-spec if it is installed."""
    if name != "LakefsFileSystem":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with suppress(ModuleNotFoundError):
        return import_module("lakefs_spec").LakeFSFileSystem
    return GravelerFileSystem
