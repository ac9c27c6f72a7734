"""Folders that are uploaded and downloaded."""

from pathlib import Path

import pytest

from graveler import Branch
from graveler.lake.errors import NotFound
from graveler.lake.transfer import TransferFailed, Transferred


def test_a_folder_goes_up_and_comes_back(main: Branch, folder: Path, tmp_path: Path) -> None:
    sent = main.upload(folder, "raw/")
    assert (sent.files, sent.bytes, sent.skipped) == (3, 8, 0)
    assert [entry.path for entry in main.list()] == [
        "raw/deep/er/a.csv",
        "raw/empty",
        "raw/naïve 'q' %20.txt",
    ]
    assert main.upload(str(folder), "raw").skipped == 3
    back = tmp_path / "back"
    got = main.download("raw/", back)
    assert (got.files, got.bytes) == (3, 8)
    assert main.download("raw/", back).skipped == 3
    for file in folder.rglob("*"):
        if file.is_file():
            assert (back / file.relative_to(folder)).read_bytes() == file.read_bytes()


def test_one_file_goes_up_and_comes_back(main: Branch, folder: Path, tmp_path: Path) -> None:
    source = folder / "deep" / "er" / "a.csv"
    main.upload(source)
    main.upload(source, "x/")
    main.upload(source, "y/other.csv")
    assert [entry.path for entry in main.list()] == ["a.csv", "x/a.csv", "y/other.csv"]
    main.download("y/other.csv", tmp_path)
    main.download("y/other.csv", tmp_path / "named.csv")
    assert (tmp_path / "other.csv").read_text() == (tmp_path / "named.csv").read_text() == "id\n1\n"


def test_what_the_folder_lacks_is_deleted_on_request(main: Branch, folder: Path) -> None:
    main.write_text("raw/old", "1")
    main.write_text("kept", "1")
    assert main.upload(folder, "raw/").deleted == 0
    assert main.upload(folder, "raw/", delete=True).deleted == 1
    assert not main.exists("raw/old") and main.exists("kept")


def test_marks_of_folders_take_nothing_with_them(main: Branch, folder: Path) -> None:
    main.write_bytes("raw/deep/", b"")
    main.write_text("raw/old", "1")
    assert main.upload(folder, "raw/", delete=True).deleted == 1
    assert main.exists("raw/deep/er/a.csv") and not main.exists("raw/old")
    main.move("raw/deep/", "mark")
    assert main.exists("raw/deep/er/a.csv") and main.exists("mark")


def test_an_empty_folder_deletes_nothing(main: Branch, tmp_path: Path) -> None:
    main.write_text("raw/old", "1")
    with pytest.raises(ValueError, match="nothing"):
        main.upload(tmp_path, "raw/", delete=True)
    assert main.exists("raw/old")
    assert main.upload(tmp_path, "other/", delete=True).deleted == 0


def test_progress_is_told(main: Branch, folder: Path) -> None:
    seen: list[Transferred] = []
    main.upload(folder, progress=seen.append)
    assert seen[-1].files == 3 and seen[-1].bytes_expected == 8
    assert "3 files" in str(seen[-1])


def test_a_line_shows_progress_when_it_is_asked_for(
    main: Branch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main.upload(folder, progress=True)
    assert "3 of 3 files, 8 B of 8 B" in capsys.readouterr().err
    main.upload(folder, "again/")  # this is no terminal
    main.upload(folder, "third/", progress=False)
    assert capsys.readouterr().err == ""


def test_missing_sources_are_files_not_found(main: Branch, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"no file or folder here: {tmp_path / 'none'}$"):
        main.upload(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match=rf"here: salez \(in {Path.cwd()}\)$"):
        main.upload("salez")
    with pytest.raises(FileNotFoundError):
        main.download("none/", tmp_path)
    with pytest.raises(FileNotFoundError):
        main.download("none", tmp_path)
    main.write_text("sales/a", "1")
    with pytest.raises(NotFound) as caught:
        main.download("sales", tmp_path)
    assert caught.value.remedy == 'download("sales/", …)'


def test_names_that_no_file_may_have_fail_alone(main: Branch, tmp_path: Path) -> None:
    main.write_text("d/good", "1")
    main.write_text("d/../escape", "1")
    main.write_text("d/.git/config", "1")
    with pytest.raises(TransferFailed) as caught:
        main.download("d/", tmp_path / "here")
    assert len(caught.value.failures) == 2
    assert (tmp_path / "here" / "good").read_text() == "1"
    assert not (tmp_path / "escape").exists() and not (tmp_path / "here" / ".git").exists()


def test_existing_files_stay_without_overwrite(main: Branch, tmp_path: Path) -> None:
    main.write_text("a", "new")
    (tmp_path / "a").write_text("old")
    with pytest.raises(FileExistsError):
        main.download("a", tmp_path, overwrite=False)
    assert (tmp_path / "a").read_text() == "old"
