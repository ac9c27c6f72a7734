"""A server whose object store signs URLs: bytes go directly, and addresses are for anybody."""

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

import graveler
from graveler import Branch, Lake
from tests.api.serving import ADMINISTRATOR, served


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake that signs URLs."""
    with served(tmp_path_factory.mktemp("signed") / "store", public=True) as live:
        key, secret = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
        yield graveler.connect(live.client.url, key, secret)


@pytest.fixture(scope="module")
def main(signing: Lake) -> Branch:
    return signing.create_repository("shop").branch("main")


def test_bytes_are_written_and_read_by_signed_urls(main: Branch) -> None:
    assert main.repository.lake.presigns
    data = bytes(range(256)) * 4096
    assert main.write_bytes("big", data).size == len(data)
    assert main.read_bytes("big") == data
    assert main.read_bytes("big", start=1000, end=1010) == data[1000:1010]
    with main.open("big", "rb") as file:
        file.seek(-10, 2)
        assert file.read() == data[-10:]
        file.seek(5)
        assert file.read(300_000) == data[5:300_005]
    main.write_bytes("empty", b"")
    with main.open("empty", "rb") as file:
        assert file.read() == b""


def test_urls_are_for_whoever_has_no_credentials(main: Branch) -> None:
    main.write_text("t/a.csv", "id\n1\n")
    main.commit("a table")
    with urlopen(main.url("t/a.csv")) as answer:
        assert answer.read() == b"id\n1\n"
    data = main.dataset("t/", format="csv")
    (address,) = data.files
    with urlopen(address) as answer:
        assert answer.read() == b"id\n1\n"
    assert data.to_table().to_pylist() == [{"id": 1}]
    with urlopen(graveler.fs(main.repository.lake).sign(f"{main.address}/t/a.csv")) as answer:
        assert answer.status == 200


def test_folders_go_there_and_back(main: Branch, folder: Path, tmp_path: Path) -> None:
    (folder / "big.bin").write_bytes(bytes(1 << 20))
    assert main.upload(folder, "in/").files == 4
    assert main.download("in/", tmp_path / "out").files == 4
    assert (tmp_path / "out" / "big.bin").read_bytes() == bytes(1 << 20)


def test_a_reader_reads_one_object_though_its_path_gets_another(main: Branch) -> None:
    main.write_bytes("moving", b"1" * 600_000)
    with main.open("moving", "rb") as file:
        assert file.read(10) == b"1" * 10
        main.write_bytes("moving", b"2" * 600_000)
        assert set(file.read()) == set(b"1")
