"""Lost answers are recognised by reading back; nothing is guessed, nothing tried for ever (B5)."""

import io
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from graveler.block import bodies
from graveler.block.adapter import CREATE, OVERWRITE, Blocks, Mode, ObjectHead, Update
from graveler.block.memory import MemoryBlocks
from graveler.block.retry import retrying_blocks
from graveler.core.clock import SystemClock
from graveler.core.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    StorageFull,
    Unavailable,
    public_text,
)
from graveler.core.requests import RetryPolicy
from tests.engine.overridden import OverriddenBlocks
from tests.support.block_suite import content
from tests.support.faults import Fault, FaultyBlocks, nth

ADDRESS = "mem://lake/a"
POLICY = RetryPolicy(attempts=4, deadline_seconds=10.0, backoff_seconds=1.0)


class StillClock:
    """Moves only by sleeping."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now_ns(self) -> int:
        return 0

    def steady_seconds(self) -> float:
        return self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


class World:
    """A store, the faults before it, and the retries before those."""

    def __init__(self, faults: Mapping[int, Fault]) -> None:
        self.inner = MemoryBlocks(SystemClock())
        self.faulty = FaultyBlocks(self.inner, nth(faults))
        self.clock = StillClock()
        self.blocks = retrying_blocks(self.faulty, self.clock, POLICY)


def stream(*chunks: bytes) -> Iterator[bytes]:
    yield from chunks


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.DROPPED, Fault.LOST])
@pytest.mark.parametrize("mode", [CREATE, OVERWRITE])
def test_b5_a_put_that_can_be_sent_twice_succeeds(fault: Fault, mode: Mode) -> None:
    world = World({1: fault, 2: fault})
    head = world.blocks.put(ADDRESS, [b"a", b"b"], mode)
    assert head == world.inner.head(ADDRESS)
    assert content(world.inner, ADDRESS) == b"ab"


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.DROPPED, Fault.LOST])
def test_b5_an_update_succeeds(fault: Fault) -> None:
    world = World({1: fault})
    etag = world.inner.put(ADDRESS, [b"old"]).etag
    assert world.blocks.put(ADDRESS, [b"new"], Update(etag)) == world.inner.head(ADDRESS)
    assert content(world.inner, ADDRESS) == b"new"


def test_b5_a_streamed_create_is_recognised() -> None:
    world = World({1: Fault.LOST})
    assert world.blocks.put(ADDRESS, stream(b"a", b"b"), CREATE) == world.inner.head(ADDRESS)


def test_b5_a_put_that_never_lands_stays_unknown() -> None:
    world = World({n: Fault.DROPPED for n in range(1, 9)})
    with pytest.raises(OutcomeUnknown):
        world.blocks.put(ADDRESS, stream(b"a"), CREATE)
    # Four puts, then four looks whether it is there.
    assert world.faulty.requests == 2 * POLICY.attempts


LONG = b"0123456789" * 100_000
BODIES: dict[str, Callable[[Path], Iterable[bytes]]] = {
    "generator": lambda tmp_path: stream(LONG[:7], LONG[7:]),
    "long generator": lambda tmp_path: (LONG for _ in range(12)),
    "open file": lambda tmp_path: bodies.of_file(io.BytesIO(LONG + b"more")),
    "list": lambda tmp_path: [LONG],
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.DROPPED, Fault.LOST])
@pytest.mark.parametrize("mode", [CREATE, OVERWRITE])
def test_every_body_can_be_sent_again(
    fault: Fault, mode: Mode, body: Callable[[Path], Iterable[bytes]], tmp_path: Path
) -> None:
    world = World({1: fault, 2: fault})
    head = world.blocks.put(ADDRESS, body(tmp_path), mode)
    assert head == world.inner.head(ADDRESS)
    assert content(world.inner, ADDRESS) == b"".join(body(tmp_path))


@pytest.mark.parametrize("mode", [CREATE, OVERWRITE])
def test_a_stream_that_breaks_off_is_never_stored_short(mode: Mode) -> None:
    """Its error looks like one of the store, after which the put is repeated."""

    def broken() -> Iterator[bytes]:
        yield b"a"
        raise Unavailable("whoever sends this went away")

    world = World({})
    with pytest.raises(Unavailable, match="went away"):
        world.blocks.put(ADDRESS, broken(), mode)
    with pytest.raises(NotFound):
        world.inner.head(ADDRESS)


@pytest.mark.parametrize("mode", [CREATE, OVERWRITE])
def test_a_stream_that_was_read_in_part_goes_on(mode: Mode) -> None:
    """A service may refuse a put in the middle of its body."""

    class Impatient(MemoryBlocks):
        def put(
            self,
            address: str,
            body: Iterable[bytes],
            mode: Mode = OVERWRITE,
            storage_class: str = "",
        ) -> ObjectHead:
            refused.append(next(iter(body)))
            if len(refused) < 3:
                raise Unavailable("too much at once")
            return super().put(address, body, mode, storage_class)

    refused: list[bytes] = []
    inner = Impatient(SystemClock())
    retrying_blocks(inner, StillClock(), POLICY).put(ADDRESS, stream(b"a", b"b", b"c"), mode)
    assert content(inner, ADDRESS) == b"abc"


def test_a_kept_stream_is_a_file_however_much_of_it_was_read() -> None:
    for read, memory_bytes_max in ((0, 1 << 20), (1, 1 << 20), (3, 1), (9, 1)):
        with bodies.held(stream(b"a", b"bc", b"", b"d"), memory_bytes_max) as body:
            assert isinstance(body, bodies.Kept)
            assert len(list(islice(body, read))) == min(read, 4)
            assert body.whole().read() == b"abcd"
            assert body.whole().read(1) == b"a"
            assert b"".join(body) == b"abcd"


def test_a_kept_stream_that_breaks_off_is_no_file() -> None:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise Unavailable("whoever sends this went away")

    with bodies.held(broken()) as body:
        assert isinstance(body, bodies.Kept)
        for _ in range(2):
            with pytest.raises(Unavailable, match="went away"):
                body.whole()


def test_a_body_that_finds_no_room_is_not_sent() -> None:
    """The limit of the process stands for a disk that is full."""
    script = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
from graveler.block import bodies
from graveler.core.errors import Unavailable
try:
    with bodies.held(bytes(1 << 20) for _ in range(20)) as body:
        sys.exit(f"kept {sum(map(len, body))}")
except Unavailable as error:
    print(type(error).__name__, error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("StorageFull keep a body to send it")


def test_a_spool_that_finds_no_room_for_its_last_bytes_is_not_sent() -> None:
    """Those bytes would fit into a buffer of the process."""
    script = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
from graveler.block import bodies
from graveler.core.errors import StorageFull
spool = bodies.spool()
spool.write(bytes(1 << 20))
try:
    spool.write(b"x")
except StorageFull as error:
    print(spool.size, error)
spool.close()
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{1 << 20} keep a body to send it")


def test_b5_a_name_that_was_taken_stays_taken() -> None:
    for body in (b"mine", b"other"):
        world = World({})
        world.inner.put(ADDRESS, [b"other"])
        with pytest.raises(AlreadyExists):
            world.blocks.put(ADDRESS, [body], CREATE)


@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.LOST])
def test_b5_after_a_lost_answer_other_bytes_decide_nothing(fault: Fault) -> None:
    world = World({1: fault})
    world.inner.put(ADDRESS, [b"other"])
    if fault is Fault.LOST:
        world.inner.delete(ADDRESS)
        original = world.clock.sleep

        def replaced(seconds: float) -> None:
            world.inner.put(ADDRESS, [b"replaced"])
            original(seconds)

        world.clock.sleep = replaced  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        world.blocks.put(ADDRESS, [b"mine"], CREATE)


def test_b5_the_look_may_fail_too() -> None:
    world = World({1: Fault.LOST, **{n: Fault.REFUSED for n in range(3, 20)}})
    with pytest.raises(OutcomeUnknown):
        world.blocks.put(ADDRESS, [b"mine"], CREATE)


def test_a_late_twin_of_a_create_changes_nothing() -> None:
    world = World({1: Fault.LATE})
    head = world.blocks.put(ADDRESS, [b"mine"], CREATE)
    with pytest.raises(AlreadyExists):
        world.faulty.late[0]()
    assert world.inner.head(ADDRESS) == head


Verb = Callable[[Blocks], object]
VERBS: dict[str, Verb] = {
    "get": lambda blocks: blocks.get(ADDRESS).head,
    "read": lambda blocks: blocks.read(ADDRESS, 0, 1),
    "head": lambda blocks: blocks.head(ADDRESS),
    "list": lambda blocks: blocks.list("mem://lake/", "", 5),
    "copy": lambda blocks: blocks.copy(ADDRESS, "mem://lake/b").size,
    "delete": lambda blocks: blocks.delete(ADDRESS),
    "put": lambda blocks: blocks.put(ADDRESS, [b"x"]).size,
    "create_upload": lambda blocks: bool(blocks.create_upload(ADDRESS)),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_every_verb_is_tried_again_but_not_for_ever(verb: Verb) -> None:
    world = World({1: Fault.REFUSED, 2: Fault.DROPPED, 3: Fault.REFUSED})
    world.inner.put(ADDRESS, [b"x"])
    again = World({})
    again.inner.put(ADDRESS, [b"x"])
    answers = [w for w in (verb(world.blocks), verb(again.blocks)) if isinstance(w, int | bytes)]
    assert len(set(answers)) <= 1
    assert 3.5 <= world.clock.slept <= 10.5  # 1, 2 and 4 seconds, with jitter

    hopeless = World({n: Fault.REFUSED for n in range(1, 99)})
    with pytest.raises(Unavailable):
        verb(hopeless.blocks)
    assert hopeless.faulty.requests == POLICY.attempts


def test_the_deadline_ends_it_early() -> None:
    world = World({n: Fault.REFUSED for n in range(1, 99)})
    policy = RetryPolicy(attempts=99, deadline_seconds=5.0, backoff_seconds=1.0)
    with pytest.raises(Unavailable):
        retrying_blocks(world.faulty, world.clock, policy).head(ADDRESS)
    assert world.clock.slept <= 5.0


def test_an_unknown_outcome_outweighs_what_follows() -> None:
    world = World({1: Fault.LOST, 2: Fault.REFUSED, 3: Fault.REFUSED, 4: Fault.REFUSED})
    world.inner.put(ADDRESS, [b"x"])
    with pytest.raises(OutcomeUnknown):
        world.blocks.delete(ADDRESS)


def test_a_full_disk_is_not_tried_again() -> None:
    world = World({1: Fault.FULL})
    for mode in (CREATE, OVERWRITE):
        world.faulty.requests = 0
        with pytest.raises(StorageFull):
            world.blocks.put(ADDRESS, [b"x"], mode)
        assert world.faulty.requests == 1


def test_uploads() -> None:
    world = World({2: Fault.LOST, 5: Fault.REFUSED})
    upload = world.blocks.create_upload(ADDRESS)
    part = world.blocks.put_part(ADDRESS, upload, 1, stream(b"x"))
    world.blocks.put_part(ADDRESS, upload, 2, [b"left out"])
    assert world.blocks.complete_upload(ADDRESS, upload, (part,)).size == 1
    assert content(world.inner, ADDRESS) == b"x"


def test_completing_is_not_repeated_after_an_unknown_outcome() -> None:
    world = World({3: Fault.LOST})
    upload = world.blocks.create_upload(ADDRESS)
    part = world.blocks.put_part(ADDRESS, upload, 1, [b"x"])
    with pytest.raises(OutcomeUnknown):
        world.blocks.complete_upload(ADDRESS, upload, (part,))
    assert world.faulty.requests == 3


def test_aborting_after_a_lost_answer() -> None:
    world = World({2: Fault.LOST})
    world.blocks.abort_upload(ADDRESS, world.blocks.create_upload(ADDRESS))
    with pytest.raises(NotFound):
        world.blocks.abort_upload(ADDRESS, "upload-1")


def test_an_error_that_is_raised_at_last_keeps_the_cause_in_the_service() -> None:
    """By which callers get a text that names no bucket."""

    def head(_address: str) -> ObjectHead:
        raise Unavailable("bucket b failed") from OSError("of the service")

    store: Any = OverriddenBlocks(MemoryBlocks(SystemClock()), head=head)
    blocks = retrying_blocks(store, StillClock(), POLICY)
    with pytest.raises(Unavailable) as failed:
        blocks.head(ADDRESS)
    assert isinstance(failed.value.__cause__, OSError)
    assert "bucket b" not in public_text(failed.value)
