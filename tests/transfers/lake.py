"""A branch in memory, and ports that are killed at a chosen step, for the tests of `local`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from pathlib import Path
from typing import Any

from graveler.core.clock import SystemClock
from graveler.core.errors import Corrupt, Invalid, NotFound
from graveler.lake.transfers.compare import Work
from graveler.lake.transfers.folder import Folder, Shelf
from graveler.lake.transfers.link import Link, Prefix
from graveler.lake.transfers.records import Entry, Kind, Records, Settings
from graveler.lake.transfers.workers import Item, Tally

Object = tuple[Entry, bytes]
Tree = dict[str, Object]
MTIME = 1_700_000_000


def entry(content: bytes, mtime: int = MTIME, **more: Any) -> Entry:
    return Entry(len(content), mtime, md5(content).hexdigest(), **more)


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Steps:
    """Counts the calls of ports.  Call `at` raises `error`; with `Killed`, all later ones too."""

    at: int = 0
    error: type[BaseException] = Killed
    count: int = 0

    def step(self) -> None:
        self.count += 1
        is_dead = self.error is Killed and self.count > self.at
        if self.at and (self.count == self.at or is_dead):
            raise self.error


class Counted:
    """A port whose calls are steps; so is each piece of an iterator."""

    def __init__(self, port: Any, steps: Steps) -> None:
        self._port, self._steps = port, steps

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._port, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **more: Any) -> Any:
            self._steps.step()
            result = value(*arguments, **more)
            return self._pieces(result) if isinstance(result, Iterator) else result

        return call

    def _pieces(self, pieces: Iterator[Any]) -> Iterator[Any]:
        for piece in pieces:
            yield piece
            self._steps.step()


@dataclass
class Branches:
    """Commits, branches and uncommitted changes of a repository.  The prefix is its top."""

    commits: dict[str, tuple[str, Tree]] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    staged: dict[str, Object | None] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    signs: bool = True

    def head(self, ref: str = "") -> str:
        name = ref or "main"
        if name not in self.heads and name not in self.commits:
            raise NotFound(f"ref not found: {name}")
        return self.heads.get(name, name)

    def view(self, ref: str) -> Tree:
        tree = dict(self.commits[self.head(ref)][1])
        for path, change in self.staged.items() if ref == "main" else ():
            if change is None:
                tree.pop(path, None)
            else:
                tree[path] = change
        return tree

    def listing(self, ref: str) -> Iterator[tuple[str, Entry]]:
        for path, (entry, _) in sorted(self.view(ref).items()):
            yield path, entry

    def changes(self, old: str, new: str) -> Iterator[tuple[Kind, str]]:
        left, right = self.commits[old][1], self.commits[new][1]
        for path in sorted({**left, **right}):
            if left.get(path) != right.get(path):
                kind: Kind = "changed" if path in left else "added"
                yield ("removed" if path not in right else kind), path

    def entry(self, ref: str, path: str) -> Entry | None:
        known = self.view(ref).get(path)
        return known[0] if known is not None else None

    def receive(
        self, ref: str, path: str, entry: Entry, part: Path, then: Callable[[Path], Any], moved: Any
    ) -> None:
        content = self.view(ref)[path][1]
        if (len(content), md5(content).hexdigest()) != (entry.size, entry.checksum):
            raise Corrupt("wrong content")
        part.write_bytes(content)
        then(part)

    def uncommitted(self) -> Iterator[str]:
        yield from sorted(self.staged)

    def send(self, path: str, entry: Entry, pieces: Iterable[bytes]) -> Mapping[str, Any]:
        if not self.signs:
            return {}
        address = f"{path}-{len(self.stored)}"
        self.stored[address] = b"".join(pieces)
        return {"physical_address": address}

    def stage(
        self, path: str, entry: Entry, place: Mapping[str, Any], pieces: Iterable[bytes]
    ) -> None:
        content = self.stored[place["physical_address"]] if place else b"".join(pieces)
        assert entry.checksum == md5(content).hexdigest()
        self.staged[path] = (entry, content)

    def delete(self, paths: Sequence[str]) -> None:
        self.staged |= dict.fromkeys(paths)

    def unstage(self, path: str) -> None:
        self.staged.pop(path, None)

    def commit(self, message: str, metadata: Mapping[str, str]) -> tuple[str, str]:
        if not self.staged:
            raise Invalid("nothing to commit")
        parent, tree = self.heads["main"], self.view("main")
        self.staged.clear()
        return self.add("main", tree), parent

    def add(self, branch: str, tree: Tree) -> str:
        """Commit a tree past all checks."""
        id = f"{len(self.commits):064x}"
        self.commits[id] = (self.heads.get(branch, ""), tree)
        self.heads[branch] = id
        return id

    def put(self, branch: str = "main", **contents: bytes | None) -> str:
        """A commit that changes some paths; `__` in a name is a slash."""
        tree = self.view(self.head(branch))
        for name, content in contents.items():
            path = name.replace("__", "/")
            tree.pop(path, None)
            if content is not None:
                tree[path] = (entry(content), content)
        return self.add(branch, tree)


@dataclass
class Place:
    """A folder, its database and its branch."""

    home: Path
    branches: Branches
    settings: Settings = field(default_factory=Settings)

    @property
    def root(self) -> Path:
        return self.home / "data"

    def work(self, steps: Steps | None = None) -> Work:
        """The ports of a new process."""
        steps = steps or Steps()
        self.root.mkdir(exist_ok=True)

        def run(verb: str, items: Sequence[Item]) -> None:
            for item in items:
                item.work(Tally())

        ports: dict[str, Any] = {
            "folder": Folder(self.root, self.settings),
            "shelf": Shelf(self.root, self.settings),
            "server": self.branches,
            "records": Records(self.home / "state/x", SystemClock()),
        }
        counted: dict[str, Any] = {name: Counted(port, steps) for name, port in ports.items()}
        return Work(**counted, run=run, settings=self.settings)

    def do(self, command: Callable[[Work], Any], steps: Steps | None = None) -> Any:
        """Run a command as a process of its own."""
        work = self.work(steps)
        try:
            return command(work)
        finally:
            work.records._port.close()  # type: ignore[attr-defined]

    def files(self) -> dict[str, bytes]:
        return {
            file.relative_to(self.root).as_posix(): file.read_bytes()
            for file in self.root.rglob("*")
            if file.is_file() and file.name != ".lakefs_ref.yaml"
        }

    def link(self) -> Link | None:
        return Folder(self.root, self.settings).link()

    def others(self) -> list[str]:
        """What is beside the folder."""
        return sorted(
            path.name for path in self.home.iterdir() if path.name not in ("data", "state")
        )


SOURCE = Prefix("lake", "main")
