"""Symlink files through the generated SDK."""

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import BadRequestException, NotFoundException

from tests.api.serving import Served


def test_the_objects_of_each_folder_are_named(
    live: Served, sdk: lakefs_sdk.ApiClient, repo: str
) -> None:
    api = lakefs_sdk.InternalApi(sdk)
    places = [
        live.client.upload(repo, path, b"1").json["physical_address"]
        for path in ("t/day=1/a", "t/day=1/b", "t/day=2/a", "other")
    ]
    made = api.create_symlink_file(repo, "main", location="t/")
    assert made.location == f"local://{repo}/x/symlinks"
    blocks = live.embedded.ports.blocks
    top = f"{made.location}/{repo}/main/"
    found = {
        line.address.removeprefix(top): blocks.read(line.address, 0, 10_000).decode().split("\n")
        for line in blocks.list(top, "", 100).lines
    }
    assert found == {"t/day=1/symlink.txt": places[:2], "t/day=2/symlink.txt": places[2:3]}
    with pytest.raises(NotFoundException):
        api.create_symlink_file(repo, "none")
    with pytest.raises(BadRequestException):
        api.create_symlink_file(repo, "a b")
