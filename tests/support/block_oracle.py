"""An oracle for object storage: a dictionary that gives the right answers, and random programs that
compare them with a driver's.

It is written separately from the memory driver, as simply as possible, so that the two do not share
a mistake.  The contract suite uses it.
"""

import random
from collections.abc import Callable

from graveler.block.adapter import CREATE, OVERWRITE, Blocks, Mode, ObjectHead, Update
from graveler.core.errors import AlreadyExists, NotFound, PreconditionFailed

Seen = Callable[[ObjectHead], ObjectHead]  # the part of the heads of one object that must be equal
_SEGMENTS = ("a", "a.csv", "a!", "b", "data", "%", "é")


class _Program:
    """One random program on a driver and the oracle."""

    def __init__(self, blocks: Blocks, stem: str, seed: int, seen: Seen) -> None:
        self._seen = seen
        self._blocks = blocks
        self._stem = stem
        self._random = random.Random(seed)
        self._objects: dict[str, tuple[bytes, ObjectHead]] = {}

    def step(self) -> None:
        """Run one verb and compare its answer."""
        verb = self._random.choice((self._put, self._put, self._read, self._delete, self._copy))
        verb(self._address())
        if self._random.random() < 0.2:
            self._list()

    def _address(self) -> str:
        depth = self._random.randint(1, 3)
        return self._stem + "/".join(self._random.choices(_SEGMENTS, k=depth))

    def _put(self, address: str) -> None:
        body = self._random.randbytes(self._random.choice((0, 1, 9, 300)))
        stored = self._objects.get(address)
        etags = ("no", stored[1].etag if stored else "")
        modes: list[Mode] = [CREATE, OVERWRITE, *map(Update, etags)]
        mode = self._random.choice(modes)
        try:
            head = self._blocks.put(address, [body[:5], body[5:]], mode)
        except AlreadyExists:
            assert mode is CREATE and stored
            return
        except PreconditionFailed:
            assert isinstance(mode, Update) and (not stored or stored[1].etag != mode.etag)
            return
        if mode is CREATE:
            assert not stored
        if isinstance(mode, Update):
            assert stored and stored[1].etag == mode.etag
        assert head.size == len(body)
        self._objects[address] = (body, self._seen(head))

    def _read(self, address: str) -> None:
        stored = self._objects.get(address)
        try:
            body = self._blocks.get(address)
        except NotFound:
            assert stored is None
            return
        assert stored == (b"".join(body.chunks), self._seen(body.head))
        start = self._random.randint(-5, max(0, body.head.size - 1))
        begin = max(0, start + body.head.size) if start < 0 else start
        assert self._blocks.read(address, start, 7) == stored[0][begin : begin + 7]

    def _delete(self, address: str) -> None:
        stored = self._objects.get(address)
        version = self._random.choice(("", "no", stored[1].version if stored else "no"))
        self._blocks.delete(address, version)
        if stored and version in ("", stored[1].version):
            del self._objects[address]

    def _copy(self, address: str) -> None:
        target = self._address()
        try:
            head = self._blocks.copy(address, target)
        except NotFound:
            assert address not in self._objects
            return
        self._objects[target] = (self._objects[address][0], self._seen(head))

    def _list(self) -> None:
        prefix = self._stem + self._random.choice(("", "a", "a/", "a/a", "b/", "data/a."))
        after = self._random.choice(("", self._address(), self._stem))
        limit = self._random.choice((1, 3, 100))
        page = self._blocks.list(prefix, after, limit)
        keys = sorted(key for key in self._objects if key.startswith(prefix) and key > after)
        listed = [(line.address, self._seen(line.head)) for line in page.lines]
        assert listed == [(key, self._objects[key][1]) for key in keys[:limit]]
        assert page.more == (len(keys) > limit)


def compare_at_random(
    blocks: Blocks,
    bucket: str,
    first_seed: int,
    seen: Seen = lambda head: head,
    programs: int = 6,
    steps: int = 60,
) -> None:
    """Run random programs, each below its own prefix.

    A failure names the seed; the same seed runs the same program.
    """
    for seed in range(first_seed, first_seed + programs):
        program = _Program(blocks, f"{bucket}/program-{seed}/", seed, seen)
        for step in range(steps):
            try:
                program.step()
            except BaseException as error:
                error.add_note(f"replay with {seed=}, failed at {step=}")
                raise
