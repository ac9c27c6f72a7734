"""`make bench` measures how commands start, and keeps the rest of the page."""

from benchmarks import starts
from benchmarks.__main__ import GROUPS, written
from benchmarks.starts import Scale


def test_every_start_is_measured_and_written() -> None:
    lines = starts.measure(Scale(runs=1))
    names = [line["name"] for line in lines]
    assert names[0] == "`python -c pass`" and len(set(names)) == 4
    for line in lines:
        assert line["value"] > 0
        assert ("goal" in line) == ("held" in line) == (line is not lines[0])
    known = {
        "machine": dict.fromkeys(("processor", "cores", "system", "python", "load"), "x"),
        "calibration": {"sha256_64_bytes_us": 1.0, "synced_4_kib_ms": 1.0},
        "cli": lines,
    }
    assert "cli" in GROUPS
    page = written("# Benchmarks\n\n## Access control\n\nkept\n", known, ["cli"])
    assert "## Access control\n\nkept\n" in page
    section = page.partition(f"## {starts.HEADING}\n")[2]
    assert "| `graveler --help` |" in section and "| ≤ 80 |" in section
