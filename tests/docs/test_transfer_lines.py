"""`make bench` measures the transfers of the command line."""

import shutil
from types import SimpleNamespace

import pytest

from benchmarks import transfers
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


def test_a_folder_with_too_little_room_is_said_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=5e9))
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    monkeypatch.delenv("QUICK", raising=False)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert "14 GB" in heard.err and "5 GB free" in heard.err and "TMPDIR=" in heard.err
    assert lacking_room(GROUPS, quick=True) == lacking_room(["committed"], quick=False) == ""
