"""One object becomes a file: continued, verified, and never visible before it is whole."""

import fcntl
import os
from base64 import b64encode
from hashlib import md5
from io import FileIO
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from graveler.core.errors import Contended, Corrupt, Invalid, NotFound
from graveler.lake.checksums import CRC32C_BYTES_MIN, CRC32C_HEADER
from graveler.lake.session import connect
from graveler.lake.transfers import journal
from graveler.lake.transfers.receive import Destination, Object, download, is_same, is_same_by_time
from tests.client.scripted import Said, scripted

BODY = bytes(range(256)) * 8
CHECKSUM = md5(BODY).hexdigest()
OTHER = "0" * 32  # no MD5 of the body


def order(url: str, checksum: str = CHECKSUM, size: int = len(BODY)) -> Object:
    return Object(connect(url, "KEY", "secret"), "lake", "main", "a", checksum, size, False)


def fetch(url: str, file: Path, *more: Any, moved: Any = lambda count: None) -> None:
    download(order(url, *more), file, 1, moved)


def part(file: Path, checksum: str = CHECKSUM) -> Path:
    return file.with_name(f".{file.name}.{checksum}.part")


def test_a_download_that_broke_off_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "a"
    cut = Said(200, BODY[:1000], (("Content-Length", str(len(BODY))),))
    with scripted([cut, Said(206, BODY[1000:])]) as server:
        with pytest.raises(Exception, match="answer was lost"):
            fetch(server.url, file)
        assert not file.exists() and part(file).read_bytes() == BODY[:1000]
        fetch(server.url, file)
    assert file.read_bytes() == BODY and not part(file).exists()
    assert int(file.stat().st_mtime) == 1


def told_crc32c(body: bytes, etag: str = CHECKSUM) -> tuple[tuple[str, str], ...]:
    value = b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()
    return (CRC32C_HEADER, value), ("ETag", f'"{etag}"')


def test_a_download_is_verified_by_its_crc32c(tmp_path: Path) -> None:
    """Also an object whose checksum is no MD5 of its bytes."""
    for checksum in (CHECKSUM, OTHER, f"{OTHER}-7"):
        file = tmp_path / checksum
        with scripted([Said(200, BODY, told_crc32c(BODY, checksum))]) as server:
            fetch(server.url, file, checksum)
        assert file.read_bytes() == BODY


def test_an_object_that_was_replaced_meanwhile_is_not_taken_for_the_other(tmp_path: Path) -> None:
    """It has the same size, and a CRC32C that is right."""
    file, new = tmp_path / "a", b"\xff" + BODY[1:]
    answer = Said(200, new, told_crc32c(new, md5(new).hexdigest()))
    with scripted([answer]) as server, pytest.raises(Corrupt, match="wrong content"):
        fetch(server.url, file)
    assert not file.exists()


def test_a_crc32c_that_is_wrong_itself_loses_no_download(tmp_path: Path) -> None:
    """The server keeps it beside the object; the MD5 decides."""
    file, wrong = tmp_path / "a", b"\xff" + BODY[1:]
    with scripted([Said(200, BODY, told_crc32c(wrong))]) as server:
        fetch(server.url, file)
    assert file.read_bytes() == BODY
    with (
        scripted([Said(200, wrong, told_crc32c(BODY))]) as server,
        pytest.raises(Corrupt, match="wrong content"),
    ):
        fetch(server.url, file)
    assert file.read_bytes() == BODY and not part(file).exists()


def test_a_download_onto_a_full_disk_leaves_what_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write is in another thread than the reception."""
    body, file = os.urandom(CRC32C_BYTES_MIN + 1), tmp_path / "a"
    checksum = md5(body).hexdigest()

    class Full(FileIO):
        def write(self, piece: Any) -> int:
            if self.tell() > 1 << 20:
                raise OSError(28, "No space left on device")
            return super().write(piece)

    monkeypatch.setattr(journal, "FileIO", Full)
    with scripted([Said(200, body, told_crc32c(body, checksum))]) as server:
        with pytest.raises(OSError, match="No space left"):
            fetch(server.url, file, checksum, len(body))
        kept = part(file, checksum)
        assert body.startswith(kept.read_bytes()) and kept.stat().st_size > 1 << 20
    assert not file.exists()


@pytest.mark.parametrize("wrong", [BODY[:-1], BODY + b"x", b"\xff" + BODY[1:]])
def test_wrong_bytes_never_become_visible(tmp_path: Path, wrong: bytes) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    with scripted([Said(200, wrong)]) as server, pytest.raises(Corrupt, match="wrong content"):
        fetch(server.url, file)
    assert file.read_bytes() == b"old" and not part(file).exists()


@pytest.mark.parametrize("length", [1_000, len(BODY), len(BODY) + 1])
def test_a_part_with_wrong_bytes_begins_anew(tmp_path: Path, length: int) -> None:
    file = tmp_path / "a"
    part(file).write_bytes(b"\xff" * length)
    rest = [Said(206, BODY[length:])] if length < len(BODY) else []
    with scripted([*rest, Said(200, BODY)]) as server:
        moved: list[int] = []
        fetch(server.url, file, moved=moved.append)
    assert file.read_bytes() == BODY and sum(moved) == len(BODY)


BY_KMS = (("ETag", f'"{OTHER}"'), ("x-amz-server-side-encryption", "aws:kms"))


def test_an_etag_of_an_encrypted_object_is_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "a"
    with scripted([Said(200, BODY, BY_KMS)]) as server:
        fetch(server.url, file, OTHER)
    assert file.read_bytes() == BODY
    with scripted([Said(200, BODY[1:], BY_KMS)]) as server, pytest.raises(Corrupt):
        fetch(server.url, file, OTHER)


@pytest.mark.parametrize(
    ("said", "time", "expected"), [(BY_KMS, 1, True), (BY_KMS, 2, False), ((), 1, False)]
)
def test_size_and_time_decide_if_no_md5_is_known(
    tmp_path: Path, said: tuple[tuple[str, str], ...], time: int, expected: bool
) -> None:
    file = tmp_path / "a"
    file.write_bytes(BODY)
    os.utime(file, (time, time))
    with scripted([Said(206, BODY[:1], said)]) as server:
        assert is_same_by_time(order(server.url, OTHER), file, 1) is expected
        assert len(server.asked) == (time == 1)


@pytest.mark.parametrize("length", [1_000, len(BODY)])
def test_what_cannot_be_verified_is_not_continued(tmp_path: Path, length: int) -> None:
    file = tmp_path / "a"
    part(file, OTHER).write_bytes(b"\xff" * length)
    rest = [Said(206, BODY[length:], BY_KMS)] if length < len(BODY) else []
    with scripted([*rest, Said(200, BODY, BY_KMS)]) as server:
        fetch(server.url, file, OTHER)
    assert file.read_bytes() == BODY


def test_a_part_is_no_way_through_a_symbolic_link(tmp_path: Path) -> None:
    file, victim = tmp_path / "a", tmp_path / "victim"
    victim.write_bytes(b"mine")
    part(file).symlink_to(victim)
    with scripted([Said(200, BODY)]) as server:
        fetch(server.url, file)
    assert victim.read_bytes() == b"mine" and file.read_bytes() == BODY and not file.is_symlink()


def test_a_redirect_gets_no_credentials(tmp_path: Path) -> None:
    with scripted([Said(200, BODY)]) as store:
        there = Said(302, b"", (("Location", f"{store.url}/signed?x=y"),))
        with scripted([there]) as server:
            signed = order(server.url)._replace(presign=True)
            download(signed, tmp_path / "a", 1, lambda count: None)
        assert "presign=true" in server.asked[0].path
    assert [asked.authorization for asked in store.asked] == [""]
    assert (tmp_path / "a").read_bytes() == BODY


def test_one_process_at_a_time_has_a_part(tmp_path: Path) -> None:
    file = tmp_path / "a"
    with part(file).open("wb") as other, scripted([]) as server:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Contended, match="another process"):
            fetch(server.url, file)
    assert not file.exists() and part(file).exists()


def checksum_in_parts(body: bytes, length: int = 5 << 20) -> str:
    parts = [md5(body[at : at + length]).digest() for at in range(0, len(body), length)]
    return f"{md5(b''.join(parts)).hexdigest()}-{len(parts)}"


def test_a_kept_part_is_verified_by_the_checksum_of_parts(tmp_path: Path) -> None:
    file, body = tmp_path / "a", BODY * 3_000  # two parts of 5 MiB
    known = checksum_in_parts(body)
    place = part(file, md5(known.encode()).hexdigest())
    place.write_bytes(body[:1000])
    with scripted([Said(206, body[1000:])]) as server:
        fetch(server.url, file, known, len(body))
    assert file.read_bytes() == body
    for kept in (b"\xff" * 1000, b"\xff" * len(body)):  # a whole one is not only renamed
        place.write_bytes(kept)
        rest = [Said(206, body[1000:])] if len(kept) < len(body) else []
        with scripted([*rest, Said(200, body)]) as server:
            moved: list[int] = []
            fetch(server.url, file, known, len(body), moved=moved.append)
            assert len(server.asked) == len(rest) + 1
        assert file.read_bytes() == body and sum(moved) == len(body)
    assert list(tmp_path.iterdir()) == [file]


def test_a_download_that_never_began_leaves_no_part(tmp_path: Path) -> None:
    with scripted([Said(404)]) as server, pytest.raises(NotFound):
        fetch(server.url, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_long_name_has_a_part_too(tmp_path: Path) -> None:
    file = tmp_path / ("\u6f22" * 80)  # 240 bytes
    with scripted([Said(200, BODY)]) as server:
        fetch(server.url, file)
    assert file.read_bytes() == BODY


@pytest.mark.parametrize("path", ["", ".", "..", "a/../b", "/a", "a/", "a//b", "a\0b"])
def test_paths_that_no_file_can_have(tmp_path: Path, path: str) -> None:
    with pytest.raises(Invalid, match="cannot be a file"):
        Destination(tmp_path).file(path)


def test_a_file_is_known_by_the_checksum_of_its_parts(tmp_path: Path) -> None:
    body = bytes(range(256)) * (24 << 10)  # 6 MiB: two parts of 5 MiB
    file = tmp_path / "a"
    file.write_bytes(body)
    known = checksum_in_parts(body)
    assert is_same(file, known, len(body)) and not is_same(file, known, len(body) + 1)
    for other in ("0" * 32 + "-2", known[:-1] + "3", "several-2"):
        assert not is_same(file, other, len(body))
