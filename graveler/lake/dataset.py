"""Files of one commit as a `pyarrow.dataset`, and their addresses for other engines."""

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from graveler.core.errors import NotFound, Unsupported
from graveler.lake.errors import Raising, needing
from graveler.lake.files import Place, Reader
from graveler.lake.objects import Stats

if TYPE_CHECKING:
    from graveler.lake.ref import Commit

_HIDDEN: Final = ("_", ".")


class Dataset(Raising):
    """The data files below a prefix of a commit.

    `to_table`, `schema`, `count_rows`, `head`, `scanner`, `to_batches` are those of
    `pyarrow.dataset`, and every other attribute of it is here too.  Hidden files (`is_data`) are
    left out.  Cost: a list of the prefix; of each file what is read.
    """

    def __init__(self, commit: "Commit", prefix: str, format: str, partitioning: Any) -> None:
        self.commit, self.prefix = commit, prefix
        self._format, self._partitioning = format, partitioning

    @cached_property
    def _listed(self) -> Mapping[str, Stats]:
        found = {
            stats["path"]: stats
            for stats in self.commit._place.list(self.prefix)
            if stats.get("size_bytes") and is_data(_names_behind(self.prefix, stats["path"]))
        }
        if not found:
            where = f"{self.commit.address}/{self.prefix}"
            raise NotFound(f"no data files below {where}: a dataset has only what is committed")
        return found

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files, relative to the commit."""
        return tuple(self._listed)

    @property
    def files(self) -> tuple[str, ...]:
        """Addresses of the files for other engines, all of this commit: URLs that anybody can read
        for some minutes, if the object store signs them (a request for each); else those of the
        file system of fsspec, `graveler://…`."""
        if self.commit.repository.lake.presigns:
            return tuple(self.commit.url(path) for path in self.paths)
        return tuple(f"graveler://{self.commit.address}/{path}" for path in self.paths)

    @cached_property
    def arrow(self) -> Any:
        """The `pyarrow.dataset.Dataset`."""
        with needing("arrow"):
            import pyarrow.dataset

        return pyarrow.dataset.dataset(
            list(self.paths),
            filesystem=_filesystem(self.commit._place, self._listed),
            format=self._format,
            partitioning=self._partitioning,
            partition_base_dir=self.prefix,
        )

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema`.  Reads the footer of the first file."""
        return self.arrow.schema

    def to_table(self, columns: Any = None, filter: Any = None, **more: Any) -> Any:
        """All rows, or some columns or rows, as a `pyarrow.Table`."""
        return self.arrow.to_table(columns=columns, filter=filter, **more)

    def to_pandas(self, columns: Any = None, filter: Any = None) -> Any:
        """All rows, or some columns or rows, as a `pandas.DataFrame`."""
        return self.to_table(columns, filter).to_pandas()

    def count_rows(self, filter: Any = None) -> int:
        """How many rows; without a filter from the footers alone."""
        return int(self.arrow.count_rows(filter=filter))

    def __iter__(self) -> Iterator[Any]:
        yield from self.arrow.to_batches()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.arrow, name)

    def __repr__(self) -> str:
        return f"dataset {self.commit.address}/{self.prefix}"


def is_data(path: str) -> bool:
    """Whether a path below a table's folder is one of a data file, as for Hive and Spark: no name
    in it begins with `_` or a dot, except names of partitions, as `_column=value`."""
    return not any(name.startswith(_HIDDEN) and "=" not in name for name in path.split("/"))


def _names_behind(prefix: str, path: str) -> str:
    """The whole names of the path behind a prefix, which may end within a name."""
    rest = path.removeprefix(prefix)
    return rest.partition("/")[2] if prefix and not prefix.endswith("/") else rest


def _filesystem(place: Place, files: Mapping[str, Stats]) -> Any:
    """These objects of a place as a file system of pyarrow, for reading."""
    import pyarrow.fs

    class Handler(pyarrow.fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
        """What a dataset of known files asks for."""

        def get_type_name(self) -> str:
            return "graveler"

        def get_file_info(self, paths: list[str]) -> list[Any]:
            file = pyarrow.fs.FileType.File
            return [
                pyarrow.fs.FileInfo(path, file, size=files[path]["size_bytes"]) for path in paths
            ]

        def open_input_file(self, path: str) -> Any:
            reader = Reader(place, path, None if place.presigns else files[path])
            return _native(reader) or pyarrow.PythonFile(_ArrowFile(reader), mode="r")

        open_input_stream = open_input_file

        def normalize_path(self, path: str) -> str:
            return path

        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return id(self)

        def refused(self, *_: Any) -> Any:
            raise Unsupported("a dataset reads the files that it has listed, and nothing else")

        get_file_info_selector = refused  # the files are known: no folder is listed
        create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = refused
        delete_file = move = copy_file = open_output_stream = open_append_stream = refused

    return pyarrow.fs.PyFileSystem(Handler())


def _native(reader: Reader) -> Any:
    """The file that is the object as a file of pyarrow, which reads it without Python; None if
    there is none.  It is opened by its descriptor: no name of the store is needed, and a collection
    of garbage takes nothing from who reads."""
    import pyarrow

    descriptor = reader.duplicate()
    if descriptor is None:
        return None
    try:
        return pyarrow.OSFile(f"/dev/fd/{descriptor}")
    except OSError:  # a system without /dev/fd
        return None
    finally:
        os.close(descriptor)


class _ArrowFile:
    """A reader as pyarrow takes one.  pyarrow joins ranges and reads ahead by itself: each read is
    one request for just its bytes, which go to where pyarrow keeps them."""

    closed = False

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, size: int = -1) -> Any:
        """The next bytes, as a buffer of pyarrow."""
        import pyarrow

        at = self._reader.tell()
        left = max(self._reader.size - at, 0)
        count = left if size < 0 else min(size, left)
        buffer = pyarrow.allocate_buffer(count)
        if count:
            self._reader.read_at(at, memoryview(buffer).cast("B"))
            self._reader.seek(at + count)
        return buffer

    read_buffer = read

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move."""
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        """Where the next read begins."""
        return self._reader.tell()

    def size(self) -> int:
        """Of the object."""
        return self._reader.size

    def close(self) -> None:
        """Nothing is kept open."""
        self.closed = True
