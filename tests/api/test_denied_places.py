"""A deny that names a place holds for every way to write it, and for what contains it."""

from pathlib import Path
from typing import Any

import pytest

from graveler.api.repositories import RepositoryCreation
from tests.api.serving import Reply
from tests.api.somebody import Somebody

NAMESPACE = "arn:lakefs:fs:::namespace/"


@pytest.fixture
def secret(import_root: Path, repo: str) -> str:
    """The address of a folder of files, without a slash at its end."""
    folder = import_root / repo / "secret"
    folder.mkdir(parents=True)
    (folder / "x").write_bytes(b"top")
    return f"local://{folder}"


def imported(who: Somebody, repo: str, kind: str, path: str, destination: str) -> Reply:
    source = {"type": kind, "path": path, "destination": destination}
    body = {"paths": [source], "commit": {"message": "m"}}
    return who.client.send("POST", f"/repositories/{repo}/branches/main/import", body=body)


def staged(who: Somebody, repo: str, address: str) -> Reply:
    body: Any = {"physical_address": address, "checksum": "c", "size_bytes": 3}
    where = f"/repositories/{repo}/branches/main/objects"
    return who.client.send("PUT", where, {"path": "p"}, body=body)


def test_no_spelling_of_a_source_avoids_a_deny(somebody: Somebody, repo: str, secret: str) -> None:
    """Schemes in capitals, and folders without their slash."""
    loud = "LOCAL" + secret.removeprefix("local")
    somebody.may_all_but(f"{NAMESPACE}{secret}/*")
    for address in (secret, loud):
        replies = (
            imported(somebody, repo, "object", f"{address}/x", "x"),
            imported(somebody, repo, "common_prefix", f"{address}/", "s"),
            imported(somebody, repo, "common_prefix", address, "s"),
            staged(somebody, repo, f"{address}/x"),
        )
        assert [reply.status for reply in replies] == [403] * 4, address
        for reply in replies:
            assert reply.message.startswith("permission missing: fs:ImportFromStorage on ")
            assert f"{NAMESPACE}{secret}/" in reply.message
    somebody.may_all_but()
    assert imported(somebody, repo, "object", f"{loud}/x", "x").status == 202
    assert staged(somebody, repo, f"{loud}/x").status == 201


def test_no_spelling_of_a_destination_avoids_a_deny(
    somebody: Somebody, repo: str, secret: str
) -> None:
    somebody.may_all_but(f"arn:lakefs:fs:::repository/{repo}/object/closed/*")
    for destination in ("closed", "closed/"):
        reply = imported(somebody, repo, "common_prefix", secret, destination)
        assert reply.status == 403, reply.body
    assert imported(somebody, repo, "common_prefix", secret, "open").status == 202


@pytest.mark.parametrize("spelled", ["", "/", "//"])
def test_no_spelling_of_a_namespace_avoids_a_deny(somebody: Somebody, spelled: str) -> None:
    somebody.may_all_but(f"{NAMESPACE}local://denied/lake")
    for bucket in ("local://", "local:///"):
        body = {"name": "denied", "storage_namespace": f"{bucket}denied/lake{spelled}"}
        reply = somebody.client.send("POST", "/repositories", body=body)
        assert (reply.status, reply.message) == (
            403,
            f"permission missing: fs:AttachStorageNamespace on {NAMESPACE}local://denied/lake",
        )


def test_a_namespace_that_cannot_be_is_left_for_its_refusal() -> None:
    assert RepositoryCreation("x", "local://a/../b").storage_namespace == "local://a/../b"
