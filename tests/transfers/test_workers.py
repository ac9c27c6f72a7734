"""Many items: each is done once, one failure stops no other, an interrupt stops all."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from graveler.core.errors import NotFound, Unauthenticated
from graveler.lake.transfers.workers import Failure, Interrupted, Item, Split, Tally, run


def done(number: int, tally: Tally) -> None:
    tally.ended()


def items(work: object = done) -> Iterator[Item]:
    assert callable(work)
    for number in range(2_500):
        yield Item(str(number), 1, partial(work, number))


def test_every_item_is_done_once_and_a_failure_stops_no_other() -> None:
    numbers: list[int] = []

    def work(number: int, tally: Tally) -> None:
        if number == 7:
            raise NotFound("gone")
        if number == 8:
            raise OSError(28, "No space left on device")
        numbers.append(number)
        tally.ended()

    run(items(work), tally := Tally(), 4)
    assert sorted(numbers) == [number for number in range(2_500) if number not in (7, 8)]
    assert (tally.files, tally.files_expected, tally.bytes_expected) == (2_498, 2_500, 2_500)
    assert sorted(tally.failures) == [("7", "gone"), ("8", "No space left on device")]
    assert len(tally.errors) == 2


def test_parts_are_done_together_and_the_last_one_ends_the_item() -> None:
    """All parts of an item are under way at once; a failed part stops no other."""
    together, parts, ends = threading.Barrier(3), list[str](), list[str]()

    def send(name: str, tally: Tally) -> None:
        together.wait(30)
        if name == "b/1":
            raise NotFound("gone")
        parts.append(name)

    def work(name: str, tally: Tally) -> Split:
        def finish(error: Failure | None) -> None:
            ends.append(name)
            if error is not None:
                raise error
            tally.ended()

        count = 0 if name == "empty" else 3
        return Split([partial(send, f"{name}/{part}", tally) for part in range(count)], finish)

    names = ("a", "b", "empty")
    run((Item(name, 1, partial(work, name)) for name in names), tally := Tally(), 3)
    assert sorted(parts) == ["a/0", "a/1", "a/2", "b/0", "b/2"] and sorted(ends) == sorted(names)
    assert (tally.files, tally.failures) == (2, [("b", "gone")])


@pytest.mark.parametrize("error", [Unauthenticated("no"), KeyError("a bug")])
def test_what_every_item_would_meet_ends_all(error: Exception) -> None:
    def work(number: int, tally: Tally) -> None:
        raise error

    with pytest.raises(type(error)):
        run(items(work), Tally(), 2)


def test_an_error_of_the_list_ends_all() -> None:
    def broken() -> Iterator[Item]:
        yield from items()
        raise NotFound("the prefix")

    with pytest.raises(NotFound):
        run(broken(), Tally())


def test_an_interrupt_waits_for_what_has_begun_and_begins_nothing_more() -> None:
    begun, over = threading.Event(), threading.Event()
    ended: list[int] = []

    def work(number: int, tally: Tally) -> None:
        begun.set()
        over.wait(30)
        ended.append(number)
        tally.moved(1)

    def interrupted() -> Iterator[Item]:
        yield from list(items(work))[:10]
        assert begun.wait(30)
        threading.Timer(0.05, over.set).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted(), tally := Tally(), 1, patience_seconds=30)
    assert ended == [0] and tally.bytes_moved == 0
    with pytest.raises(Interrupted):
        tally.moved(1)
