"""`make bench` measures the status of a linked folder."""

from benchmarks import folders
from benchmarks.__main__ import GROUPS
from benchmarks.folders import Scale


def test_the_status_of_a_folder_is_measured_and_written() -> None:
    median, slowest = lines = folders.measure(Scale(files=20, runs=1))
    assert 0 < median["value"] <= slowest["value"] and median["name"] != slowest["name"]
    assert "held" in median and "goal" not in slowest
    assert "local" in GROUPS
    section = folders.section(lines, "the machine")
    assert (
        "| `local status`, 20 files, nothing changed: median |" in section and "| ≤ 2 |" in section
    )
