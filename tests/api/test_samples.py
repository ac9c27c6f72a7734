"""A repository with sample data: what is in it, who made it, and what is refused."""

import csv
import io
import struct
from typing import Any

import lakefs
import pytest
from lakefs.client import Client as LakeFS
from lakefs.exceptions import ConflictException

from graveler.api import repositories
from tests.api.serving import ADMINISTRATOR, USER, Client, Served


@pytest.fixture(scope="module")
def sample(live: Served) -> Any:
    """Made by the unmodified client."""
    wrapper = LakeFS(
        host=live.client.url,
        username=ADMINISTRATOR.access_key_id,
        password=ADMINISTRATOR.secret_access_key,
    )
    return lakefs.Repository("sample", client=wrapper).create(
        "local://sample/data", include_samples=True
    )


def test_all_files_are_committed(sample: Any) -> None:
    main = sample.branch("main")
    assert [each.path for each in main.objects(delimiter="/")] == [
        "README.md",
        "data/",
        "images/",
        "lakes.parquet",
    ]
    assert [each.path for each in main.objects(prefix="data/")] == ["data/lakes.source.md"]
    assert list(main.uncommitted()) == []
    [filled, first] = main.log()
    assert (filled.message, filled.committer) == ("Add sample data", USER)
    assert (first.message, filled.parents) == ("Repository created", [first.id])
    assert {each.content_type for each in main.objects()} == {
        "text/markdown",
        "text/csv",
        "image/png",
        "application/vnd.apache.parquet",
    }


def test_the_table_is_parquet_and_can_be_read_in_parts(sample: Any) -> None:
    with sample.ref("main").object("lakes.parquet").reader(mode="rb") as file:
        assert file.read(4) == b"PAR1"
        file.seek(-8, 2)
        length, mark = struct.unpack("<I4s", file.read(8))
        assert mark == b"PAR1"
        file.seek(-8 - length, 2)
        assert b"elevation_m" in file.read(length)


def test_the_index_names_every_image(sample: Any) -> None:
    main = sample.ref("main")
    with main.object("images/index.csv").reader(mode="r") as file:
        rows = list(csv.DictReader(io.StringIO(file.read())))
    images = [each.path for each in main.objects(prefix="images/") if each.path.endswith(".png")]
    assert [f"images/{row['file']}" for row in rows] == images
    with main.object(images[0]).reader(mode="rb") as file:
        head = file.read(24)
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:24]) == (int(rows[0]["width"]), int(rows[0]["height"]))


def test_it_is_made_once(sample: Any) -> None:
    with pytest.raises(ConflictException):
        sample.create("local://sample/data", include_samples=True)


def test_a_bare_repository_has_no_place_for_it(client: Client) -> None:
    body = {"name": "bare", "storage_namespace": "local://bare/x", "sample_data": True}
    reply = client.send("POST", "/repositories", {"bare": "true"}, body=body)
    assert (reply.status, "bare" in reply.message) == (400, True)
    assert client.send("GET", "/repositories/bare").status == 404


def test_the_default_branch_of_a_read_only_one_holds_it(client: Client) -> None:
    body = {
        "name": "kept",
        "storage_namespace": "local://kept/x",
        "default_branch": "trunk",
        "read_only": True,
        "sample_data": True,
    }
    assert client.send("POST", "/repositories", body=body).status == 201
    found = client.send("GET", "/repositories/kept/refs/trunk/objects/ls").json
    assert found["pagination"]["results"] == len(repositories.content("").files)
