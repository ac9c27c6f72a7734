"""The audit trail in files: pages, restarts, what a crash cuts off, how much is kept."""

import logging
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graveler.audit.trail import FileBounds, FileTrail, Line, Outcome, Question, encode, moment
from graveler.core.errors import Invalid, Unavailable
from graveler.core.limits import SECOND_NS
from tests.audit.standing import StandingClock

DAY_NS = 24 * 3600 * SECOND_NS
FOREVER = 2_000_000_000 * SECOND_NS
ALL = Question(0, FOREVER)
ONE_LINE = FileBounds(file_bytes_max=1)

Open = Callable[..., FileTrail]


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock(1_769_000_000 * SECOND_NS)


@pytest.fixture
def opened(tmp_path: Path, clock: StandingClock) -> Iterator[Open]:
    made: list[FileTrail] = []

    def opened(bounds: FileBounds | None = None) -> FileTrail:
        made.append(FileTrail(tmp_path / "audit", clock, bounds))
        return made[-1]

    yield opened
    for each in made:
        each.close()


def line(clock: StandingClock, request: str, user: str = "ada") -> Line:
    now = moment(clock.now_ns())
    return Line(now, request, user, "", "", "commit", ("arn:a",), Outcome.DONE, 201)


def write(trail: FileTrail, clock: StandingClock, *requests: str, seconds: int = 1) -> None:
    """Lines that reach the disk one by one."""
    for request in requests:
        trail.write(line(clock, request))
        trail.read(ALL._replace(until_ns=1), "", 1)
        clock.go_on(seconds)


def ids(trail: FileTrail, question: Question = ALL, count: int = 100) -> list[str]:
    """The requests of all pages."""
    found: list[str] = []
    after = ""
    while True:
        page = trail.read(question, after, count)
        found += [each.request_id for each in page.lines]
        after = page.following
        if not after:
            return found


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder / "audit"))


@pytest.mark.parametrize("bounds", [FileBounds(), ONE_LINE, FileBounds(scan_count_max=1)])
@pytest.mark.parametrize("count", [1, 2, 100])
def test_what_is_written_is_read_oldest_first(
    opened: Open, clock: StandingClock, bounds: FileBounds, count: int
) -> None:
    trail = opened(bounds)
    assert ids(trail) == []
    write(trail, clock, "a", "b", "c", "d")
    trail.write(line(clock, "e", "bob"))
    assert ids(trail, count=count) == ["a", "b", "c", "d", "e"]
    assert ids(trail, ALL._replace(user="bob"), count) == ["e"]
    begun = 1_769_000_000 * SECOND_NS
    between = ALL._replace(since_ns=begun + SECOND_NS, until_ns=begun + 3 * SECOND_NS)
    assert ids(trail, between, count) == ["b", "c"]


def test_a_line_that_waited_for_its_file_is_within_its_own_time(
    opened: Open, clock: StandingClock
) -> None:
    """The file is made some time after its first line."""
    trail = opened(ONE_LINE)
    write(trail, clock, "a")
    trail.write(line(clock, "b"))
    asked = ALL._replace(since_ns=clock.now_ns(), until_ns=clock.now_ns() + 1_000)
    clock.go_on(5)
    assert ids(trail, asked) == ["b"]


def test_two_files_may_have_lines_of_one_millisecond(opened: Open, clock: StandingClock) -> None:
    two_lines = FileBounds(file_bytes_max=len(encode(line(clock, "a"))) + 1)
    trail = opened(two_lines)
    write(trail, clock, "a")
    write(trail, clock, "b", "c", seconds=0)
    assert ids(trail, ALL._replace(since_ns=clock.now_ns())) == ["b", "c"]


def test_the_last_page_says_that_nothing_follows(opened: Open, clock: StandingClock) -> None:
    trail = opened()
    write(trail, clock, "a", "b")
    assert trail.read(ALL, "", 1).following
    assert trail.read(ALL, "", 2).following == ""


def test_lines_outlast_their_process(opened: Open, clock: StandingClock, tmp_path: Path) -> None:
    first = opened()
    first.write(line(clock, "a"))
    first.close()
    second = opened()
    write(second, clock, "b")
    assert ids(second) == ["a", "b"] and len(files(tmp_path)) == 1
    first.write(line(clock, "late"))  # after its end: it waits for nobody
    assert ids(second) == ["a", "b"]


def test_a_line_that_a_crash_cut_off_spoils_no_other(
    opened: Open, clock: StandingClock, tmp_path: Path
) -> None:
    trail = opened()
    write(trail, clock, "a")
    trail.close()
    (name,) = files(tmp_path)
    with open(tmp_path / "audit" / name, "ab") as file:
        file.write(encode(line(clock, "b"))[:40])
    trail = opened()
    assert ids(trail) == ["a"]
    write(trail, clock, "c")
    assert ids(trail) == ["a", "c"]


def test_a_line_that_a_full_disk_cut_off_spoils_no_other(
    opened: Open, clock: StandingClock, tmp_path: Path
) -> None:
    trail = opened()
    write(trail, clock, "a")
    (name,) = files(tmp_path)
    room = (tmp_path / "audit" / name).stat().st_size + 40
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        write(trail, clock, "b", "c")  # no room for the end of a line, nor for a line
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    write(trail, clock, "d")
    assert ids(trail) == ["a", "d"]


def test_only_the_owner_may_read(opened: Open, clock: StandingClock, tmp_path: Path) -> None:
    trail = opened()
    write(trail, clock, "a")
    (name,) = files(tmp_path)
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "audit" / name).stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_a_file_is_not_followed(
    opened: Open, clock: StandingClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trail = opened()
    other = tmp_path / "other"
    other.write_bytes(b"")
    name = f"{clock.now_ns() // 10**6:015}.jsonl"
    (tmp_path / "audit" / name).symlink_to(other)
    write(trail, clock, "a")
    assert other.read_bytes() == b"" and "audit lines lost: count=1" in caplog.text


def test_a_file_is_followed_when_it_is_large_or_a_day_old(
    opened: Open, clock: StandingClock, tmp_path: Path
) -> None:
    trail = opened(FileBounds(file_bytes_max=300))
    write(trail, clock, "a", "b", "c")
    large = len(files(tmp_path))
    assert 1 < large < 4
    clock.go_on(24 * 3600)
    write(trail, clock, "d")
    assert len(files(tmp_path)) == large + 1
    assert ids(trail) == ["a", "b", "c", "d"]


def test_files_stay_in_order_when_the_clock_steps_back(
    opened: Open, clock: StandingClock, tmp_path: Path
) -> None:
    trail = opened(ONE_LINE)
    write(trail, clock, "a", "b", seconds=0)
    assert ids(trail) == ["a", "b"] and len(files(tmp_path)) == 2


def test_lines_of_the_last_days_are_kept(
    opened: Open, clock: StandingClock, tmp_path: Path
) -> None:
    trail = opened(FileBounds(days=2))
    write(trail, clock, "a", "b", "c", "d", seconds=24 * 3600)
    assert ids(trail) == ["c", "d"]
    assert len(files(tmp_path)) == 3  # the file before the last two days may end within them


def test_the_oldest_files_go_when_there_are_too_many(
    opened: Open, clock: StandingClock, tmp_path: Path
) -> None:
    size = len(encode(line(clock, "a")))
    trail = opened(FileBounds(file_bytes_max=1, bytes_max=3 * size))
    write(trail, clock, *"abcdef")
    assert ids(trail) == ["c", "d", "e", "f"]
    place = trail.read(ALL, "", 1).following
    write(trail, clock, *"ghij")
    assert [each.request_id for each in trail.read(ALL, place, 9).lines] == ["g", "h", "i", "j"]


def test_denials_push_out_no_change(opened: Open, clock: StandingClock) -> None:
    trail = opened(FileBounds(file_bytes_max=1_000, bytes_max=10**6, denied_bytes_max=3_000))
    write(trail, clock, "a", "b")
    for number in range(100):
        trail.write(line(clock, f"denied-{number}")._replace(outcome=Outcome.DENIED))
        trail.read(ALL._replace(until_ns=1), "", 1)
        clock.go_on(1)
    write(trail, clock, "c")
    found = ids(trail, count=7)
    assert [each for each in found if len(each) == 1] == ["a", "b", "c"]
    denied = [each for each in found if len(each) > 1]
    assert denied == [f"denied-{number}" for number in range(100 - len(denied), 100)]
    assert 10 < len(denied) < 50


@pytest.mark.parametrize("count", [1, 2, 100])
def test_changes_and_denials_are_read_in_the_order_of_time(
    opened: Open, clock: StandingClock, count: int
) -> None:
    trail = opened(FileBounds(file_bytes_max=400))
    requests = [f"{number}" for number in range(20)]
    for number, request in enumerate(requests):
        outcome = Outcome.DENIED if number % 3 else Outcome.DONE
        trail.write(line(clock, request)._replace(outcome=outcome))
        clock.go_on(1)
        if not number % 4:
            assert ids(trail, count=count) == requests[: number + 1]
    assert ids(trail, count=count) == requests
    place = trail.read(ALL, "", 19).following
    trail.write(line(clock, "later")._replace(outcome=Outcome.DENIED))
    assert [each.request_id for each in trail.read(ALL, place, 9).lines] == ["19", "later"]


def test_denials_leave_room_in_memory_for_changes(opened: Open, clock: StandingClock) -> None:
    trail = opened(FileBounds(waiting_count_max=4))
    for number in range(9):
        trail.write(line(clock, f"{number}")._replace(outcome=Outcome.DENIED))
    trail.write(line(clock, "a"))
    assert "a" in ids(trail)


def test_a_disk_that_takes_nothing_loses_lines_and_says_so(
    opened: Open, clock: StandingClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trail = opened(FileBounds(waiting_count_max=2))
    (tmp_path / "audit").rmdir()
    (tmp_path / "audit").write_bytes(b"")  # no folder any more
    for request in ("a", "b", "c", "d"):
        trail.write(line(clock, request))
    trail.close()
    assert "audit lines lost: count=" in caplog.text
    lost = [int(each.args[0]) for each in caplog.records if each.msg.endswith("count=%d")]  # type: ignore[arg-type, index]
    assert sum(lost) == 4 and caplog.records[0].levelno == logging.ERROR


@pytest.mark.parametrize("after", ["x", "1-2", "000000000000001-", "-1", "٣" * 15 + "-1"])
def test_an_unknown_page_is_invalid(opened: Open, after: str) -> None:
    with pytest.raises(Invalid):
        opened().read(ALL, after, 1)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, clock: StandingClock) -> None:
    with pytest.raises(Unavailable):
        FileTrail(tmp_path / "none" / "audit", clock)
