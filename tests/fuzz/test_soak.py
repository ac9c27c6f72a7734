"""The soak's own judgement: what it counts, what it keeps, what it calls growth."""

import gc
import json
import os
import platform
import random
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from simulator.soak import heap_room, report
from simulator.soak import run as soak
from simulator.soak.cardinality import DistinctCount
from simulator.soak.kill_loop import KillLoop, Slot
from simulator.soak.records import Failure, Report
from tests.fuzz.test_growth import sample
from tests.waiting import until

ROOT = Path(__file__).parents[2]


def test_to_ask_for_the_free_room_leaves_nothing_behind() -> None:
    """The watched process asks all the time, and its memory is what is judged."""
    heap_room.free_bytes()
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            heap_room.free_bytes()
        assert gc.collect() < 50
    finally:
        gc.enable()


def test_distinct_numbers_are_counted_within_three_per_cent() -> None:
    for wanted in (100, 20_000, 300_000):
        count = DistinctCount()
        for number in range(wanted):
            count.add(number * 1_000_003)
            count.add(number * 1_000_003)
        assert abs(count.estimate() - wanted) <= 0.03 * wanted


def test_a_failing_seed_is_kept_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        soak.keep(Failure("simulation", "core all 7", "lost"), tmp_path)
    soak.keep(Failure("fuzz", "tables 9", "KeyError"), tmp_path)
    soak.keep(Failure("engine", "12", "differs"), tmp_path)
    soak.keep(Failure("", "", "a service ended"), tmp_path)
    kept = {path.as_posix(): path.read_text() for path in (tmp_path / "tests").rglob("*.txt")}
    assert sorted(kept.values()) == ["12\n", "core all 7\n", "tables 9\n"]
    for file in soak.SEEDS.values():  # where the tests look
        assert (ROOT / file).parent.is_dir()


def test_totals_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    totals = soak.Totals()
    totals.add(Report({"schedules": 3, "faults": 1}, traces=[1, 2, 2]))
    totals.add(Report({"schedules": 1}, [Failure("", "", "gone")], [3], [sample(1)]))
    figures = totals.figures(1.0, 2)
    assert figures["schedules"] == 4
    assert figures["distinct_interleavings"] == 3
    assert figures["violations"] == 1
    assert "WRONG" in capsys.readouterr().out
    text = report.report(figures, totals.samples)
    assert "| Random schedules of the verbs | 4 |" in text
    assert "memory, MiB" in text
    json.dumps(figures)


def test_the_document_has_one_generated_part(tmp_path: Path) -> None:
    copy = tmp_path / "reliability.md"
    original = (ROOT / "docs/measured/soak.md").read_text(encoding="utf-8")
    copy.write_text(original, encoding="utf-8")
    for run in ("run 1", "run \\2"):
        samples = [sample(at) for at in range(60)]
        report.write(copy, run, {"schedules": 1_234}, samples)
    written = copy.read_text(encoding="utf-8")
    assert f"{report.BEGIN}\n`run \\2` on " in written
    assert "run 1" not in written
    assert "| Random schedules of the verbs | 1,234 |" in written
    assert "| memory in use, MiB | 65 | +0 | +0 | 6 | 0.0 | level |" in written
    assert written.partition(report.BEGIN)[0] == original.partition(report.BEGIN)[0]
    for name in re.findall(r"\((graphs/[a-z-]+\.svg)\)", written):
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")


def test_what_may_be_found_after_a_kill() -> None:
    slot = Slot("p", sent=8, acknowledged=7)
    assert [found for found in range(10) if slot.allows(found, 7)] == [7, 8]
    assert not slot.allows(0, 7)  # a write that was acknowledged is gone
    assert Slot("p", sent=9, acknowledged=7).allows(0, 7)  # the deletion on its way came through
    assert not slot.allows(6, 5)  # a deletion leaves nothing to be found


def test_a_lost_write_is_noticed(tmp_path: Path) -> None:
    loop = KillLoop(tmp_path, random.Random(1))
    loop.slots[0].sent, loop.slots[0].acknowledged = 2, 2  # nobody ever sent it
    loop.run(1)
    assert any(wrong.startswith("lost after kill 0") for wrong in loop.wrong)


_FREES = """
import sys
from simulator.soak import heap_room
heap_room.tell(sys.argv[1])
blocks = [bytearray(100_000) for _ in range(400)]
sys.stdin.readline()
del blocks[::2]
sys.stdin.readline()
"""


def test_a_process_tells_the_free_room_in_its_heap(tmp_path: Path) -> None:
    """Memory that was freed between blocks in use is free room, and no longer in use."""
    library, version = platform.libc_ver()
    if library != "glibc" or tuple(map(int, version.split("."))) < (2, 33):
        assert heap_room.free_bytes() == 0
        return
    file = tmp_path / "room"
    assert heap_room.told(file) == 0
    ours = ("MALLOC_", "GLIBC_", "LD_PRELOAD")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    command = [sys.executable, "-c", _FREES, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=variables, cwd=ROOT) as process:
        assert process.stdin is not None
        until(lambda: heap_room.told(file), "the first figure")
        before = heap_room.told(file)
        process.stdin.write(b"free\n")
        process.stdin.flush()
        until(lambda: heap_room.told(file) >= before + 15_000_000, "the next figure")
        process.stdin.close()


def test_a_process_that_tells_no_more_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "room"
    file.write_bytes(bytes(8))
    assert heap_room.told(file) == 0
    os.utime(file, (1, 1))
    with pytest.raises(RuntimeError, match="no longer tells"):
        heap_room.told(file)
