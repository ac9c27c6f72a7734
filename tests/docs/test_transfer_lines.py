"""`make bench` measures the transfers of the command line, if there is room for their files."""

import shutil
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from benchmarks import committed, transfers
from benchmarks.__main__ import GROUPS, lacking_room, main
from benchmarks.transfers import Scale


def test_every_transfer_is_measured_and_written() -> None:
    lines = transfers.measure(Scale(files=20, bytes=1024, large=1 << 20, rounds=1, seconds=0.2))
    assert len({line["name"] for line in lines}) == len(lines) == (9 if shutil.which("curl") else 5)
    for line in lines:
        is_share = "share" in line["name"]
        assert line["value"] > 0 or is_share
        assert ("goal" in line) == ("held" in line) == is_share
    assert "transfers" in GROUPS
    section = transfers.section(lines, "the machine")
    assert "| `upload -r` of 20 files of 1 KiB |" in section and "| ≥ 0.8 |" in section


@pytest.mark.parametrize(
    ("groups", "quick", "needed"),
    [
        (GROUPS, False, 22),
        (GROUPS, True, 4),
        (["gateway"], False, 22),
        (["committed", "transfers"], False, 14),
        (["transfers"], True, 2),
    ],
)
def test_too_little_room_is_told(
    groups: Sequence[str], quick: bool, needed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {"free": needed * 1e9}
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(**free))
    assert lacking_room(groups, quick) == ""
    free["free"] -= 1
    told = lacking_room(groups, quick)
    assert f"needs up to {needed} GB" in told and f"{needed - 1} GB are free" in told
    assert "TMPDIR" in told
    assert lacking_room(["committed", "http"], quick) == ""


def test_the_room_of_more_objects_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=7e9))
    assert "needs up to 8 GB" in lacking_room(["committed"], False, ["100M", "10M"])
    assert lacking_room(["committed"], False, ["100M"]) == lacking_room(["http"], False, ["10M"])


def test_a_run_without_room_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured() -> dict[str, float]:
        raise AssertionError("something is measured")

    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=0))
    monkeypatch.setattr(committed, "calibration", measured)
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    heard = capsys.readouterr()
    assert heard.out == "" and "0 GB are free" in heard.err
