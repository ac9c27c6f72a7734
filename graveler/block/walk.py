"""Lists a tree of folders as one sorted sequence of keys, page by page.

    folder ──scanned once──► runs of 50,000 names, sorted ──► one run: in memory
                                                              more: in a temporary file, merged

The order is that of whole keys: `a!b` < `a.csv` < `a/x`.  A folder is read only if keys of the page
may lie below it.  A walk that has read many names is kept, and the next page continues it.
"""

import os
import tempfile
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from operator import attrgetter
from typing import IO, Final, NamedTuple, Protocol

from graveler.block.adapter import ListedObject, ObjectHead, ObjectPage
from graveler.block.address import Parts
from graveler.block.folders import translated
from graveler.core.clock import Clock

_RUN_COUNT: Final = 50_000  # names that a folder's walk holds in memory
_KEPT_NAMES_MIN: Final = 1_000  # a walk that has read fewer is cheap to repeat
_KEPT_WALKS_MAX: Final = 4
_KEPT_SECONDS: Final = 60
_READ_LENGTH: Final = 4 * 1024  # bytes of one read of each run
_NUL: Final = "\0"  # no name contains it
_LINE_END: Final = "\0/"  # and none begins with a slash
_SEGMENT: Final = attrgetter("segment")
_IS_FOLDER: Final = attrgetter("is_folder")


_Line = tuple[str, str]  # the fragment of a child, and its name


class Child(NamedTuple):
    """One file or folder in a folder.  `segment` is its part of the key, `name` its file name."""

    segment: str
    name: str
    is_folder: bool

    @property
    def fragment(self) -> str:
        return self.segment + "/" if self.is_folder else self.segment


class FileKey(NamedTuple):
    """A key, and the place of its file."""

    key: str
    folders: tuple[str, ...]
    name: str


class Start(NamedTuple):
    """The folder where a list begins: its key with a slash at the end (empty for the root), and its
    path."""

    key: str
    folders: tuple[str, ...]


class FileHead(NamedTuple):
    """A key of a list, and the head of its file.  `problem`: as in `ListedObject`."""

    key: str
    head: ObjectHead
    problem: str = ""


class Tree(Protocol):
    """Folders that can be listed."""

    def start(self, parts: Parts) -> Start:
        """The folder where a list of a prefix begins."""
        ...

    def children(self, folders: tuple[str, ...], above: Sequence[str]) -> Iterator[Child]:
        """The files and folders in a folder, in any order.  `folders`: its path; `above`: the
        segments of its key."""
        ...

    def heads(self, files: Sequence[FileKey]) -> Iterator[FileHead]:
        """The heads of files; one that was deleted meanwhile may be left out."""
        ...


class Pages:
    """The lists of one driver, page by page.  Thread-safe.

    A list of n files reads n names and n heads, however large its folders are.  The later pages of
    a kept walk show the folder as it was when the walk read it: files added since may be missing
    (B4).  Memory: `run_count` names for each folder from the root to the position of the walk, and
    a temporary file for each of these folders that has more names."""

    def __init__(self, clock: Clock, run_count: int = _RUN_COUNT) -> None:
        self._clock = clock
        self._run_count = run_count
        self._kept: OrderedDict[tuple[str, str], tuple[float, _Walk]] = OrderedDict()
        self._lock = threading.Lock()

    def page(self, tree: Tree, parts: Parts, after: str, limit: int) -> ObjectPage:
        """One page of the objects below a prefix.  Reads only folders that may contain keys of the
        page."""
        stem = Parts(parts.scheme, parts.bucket, "").address
        inside = after.startswith(stem)
        if after > stem and not inside:
            return ObjectPage((), False)
        with translated(parts.address):
            begin = after[len(stem) :] if inside else ""
            walk = self._taken(parts.address, begin)
            if walk is None:
                walk = _Walk(tree, parts, begin, self._run_count)
            heads: list[FileHead] = []
            while not heads and not walk.is_over():
                heads = list(tree.heads(walk.next(limit)))
            more = not walk.is_over()
        if more and walk.names_read >= _KEPT_NAMES_MIN:
            self._keep(parts.address, heads[-1].key, walk)
        lines = (ListedObject(stem + key, head, problem) for key, head, problem in heads)
        return ObjectPage(tuple(lines), more)

    def _taken(self, prefix: str, after: str) -> "_Walk | None":
        """The kept walk that continues after `after`, removed from the cache so that no other
        thread continues it; None if there is none."""
        with self._lock:
            self._forget(before=self._clock.steady_seconds() - _KEPT_SECONDS)
            _, walk = self._kept.pop((prefix, after), (0.0, None))
        return walk

    def _keep(self, prefix: str, after: str, walk: "_Walk") -> None:
        with self._lock:
            self._kept.pop((prefix, after), None)
            self._kept[prefix, after] = (self._clock.steady_seconds(), walk)
            if len(self._kept) > _KEPT_WALKS_MAX:
                self._kept.popitem(last=False)

    def _forget(self, before: float) -> None:
        while self._kept and next(iter(self._kept.values()))[0] < before:
            self._kept.popitem(last=False)


class _Walk:
    """The keys of one list after a position, and the number of names read so far."""

    def __init__(self, tree: Tree, parts: Parts, after: str, run_count: int) -> None:
        self.names_read = 0
        self._tree = tree
        self._keys = keys(self._children, tree.start(parts), parts.key, after, run_count)
        self._ahead = list(islice(self._keys, 1))

    def next(self, limit: int) -> list[FileKey]:
        """The next keys, at most `limit`."""
        files = list(islice(chain(self._ahead, self._keys), limit))
        self._ahead = list(islice(self._keys, 1))
        return files

    def is_over(self) -> bool:
        """Whether there are no more keys."""
        return not self._ahead

    def _children(self, folders: tuple[str, ...], above: Sequence[str]) -> Iterator[Child]:
        for child in self._tree.children(folders, above):
            self.names_read += 1
            yield child


Reader = Callable[[tuple[str, ...], Sequence[str]], Iterator[Child]]


def keys(
    read: Reader, start: Start, prefix: str, after: str, run_count: int = _RUN_COUNT
) -> Iterator[FileKey]:
    """Keys below `start` that begin with `prefix` and are greater than `after`, in order.

    `read` is the method `children` of a tree.
    """

    def children(folder: Start) -> Iterator[Child]:
        names = read(folder.folders, folder.key.split("/")[:-1])
        if folder.key.startswith(prefix) and folder.key > after:
            return sorted_children(names, run_count)  # every key below it belongs to the list
        return sorted_children(
            (
                child
                for child in names
                if _may_hold(folder.key + child.fragment, child.is_folder, prefix, after)
            ),
            run_count,
        )

    path = [(start, children(start))]
    while path:
        folder, names = path[-1]
        child = next(names, None)
        if child is None:
            path.pop()
        elif child.is_folder:
            below = Start(folder.key + child.fragment, (*folder.folders, child.name))
            path.append((below, children(below)))
        else:
            yield FileKey(folder.key + child.segment, folder.folders, child.name)


def sorted_children(children: Iterable[Child], run_count: int) -> Iterator[Child]:
    """`children` sorted by their fragments, with at most `run_count` in memory at a time."""
    source = iter(children)
    run = _sorted(islice(source, run_count))
    if len(run) < run_count:
        return iter(run)
    return _merged(run, source, run_count)


def _merged(run: list[Child], source: Iterator[Child], run_count: int) -> Iterator[Child]:
    with tempfile.TemporaryFile() as file:
        bounds = [0]
        while run:
            file.write(_lines(run))
            bounds.append(file.tell())
            run = _sorted(islice(source, run_count))
        file.flush()
        for fragment, name in _in_order([_pieces(file, *each) for each in pairwise(bounds)]):
            is_folder = fragment.endswith("/")
            yield Child(fragment[:-1] if is_folder else fragment, name, is_folder)


def _in_order(runs: Iterable[Iterator[list[_Line]]]) -> Iterator[_Line]:
    """The lines of sorted runs, which come in pieces, in order.

    The lines up to the least last line of all pieces are the next ones.  To sort them takes a
    fraction of the time of a merge line by line, because each run is in order already."""
    ahead = [(piece, run) for run in runs for piece in islice(run, 1)]
    while ahead:
        last = min(piece[-1] for piece, _ in ahead)
        lines: list[_Line] = []
        left = []
        for piece, run in ahead:
            cut = bisect_right(piece, last)
            lines += piece[:cut]
            rest = piece[cut:] or next(run, [])
            if rest:
                left.append((rest, run))
        ahead = left
        lines.sort()
        yield from lines


def _sorted(children: Iterable[Child]) -> list[Child]:
    run = list(children)
    run.sort(key=_fragment if any(map(_IS_FOLDER, run)) else _SEGMENT)
    return run


def _fragment(child: Child) -> str:
    return child.segment + "/" if child.is_folder else child.segment


def _lines(run: Sequence[Child]) -> bytes:
    lines = [f"{_fragment(child)}{_NUL}{child.name}{_LINE_END}" for child in run]
    return "".join(lines).encode("utf-8", "surrogateescape")


def _pieces(file: IO[bytes], begin: int, end: int) -> Iterator[list[_Line]]:
    """The lines in one part of a file, read in small pieces."""
    rest = b""
    while begin < end:
        raw = os.pread(file.fileno(), min(_READ_LENGTH, end - begin), begin)
        begin += len(raw)
        whole, _, rest = (rest + raw).rpartition(_LINE_END.encode())
        if whole:
            text = whole.decode("utf-8", "surrogateescape")
            texts = text.replace(_LINE_END, _NUL).split(_NUL)
            yield list(zip(texts[::2], texts[1::2], strict=True))


def _may_hold(key: str, is_folder: bool, prefix: str, after: str) -> bool:
    if not is_folder:
        return key.startswith(prefix) and key > after
    if not key.startswith(prefix) and not prefix.startswith(key):
        return False
    return key > after or after.startswith(key)
