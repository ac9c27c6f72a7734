"""A deny that names a place holds for every way to write it, and for what contains it."""

from pathlib import Path
from typing import Any

import pytest

from graveler.api.repositories import RepositoryCreation
from graveler.auth.permissions import Permission
from tests.api.serving import Client, Reply
from tests.api.somebody import Somebody

NAMESPACE = "arn:lakefs:fs:::namespace/"
REPOSITORY = "arn:lakefs:fs:::repository/"


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


def test_a_deny_of_a_part_stops_an_import_of_the_whole(
    somebody: Somebody, repo: str, secret: str, import_root: Path
) -> None:
    somebody.may_all_but(f"{NAMESPACE}{secret}/*")
    for folder in (import_root, import_root / repo):
        reply = imported(somebody, repo, "common_prefix", f"local://{folder}", "all")
        assert (reply.status, reply.message) == (
            403,
            f"permission missing: fs:ImportFromStorage on {NAMESPACE}local://{folder}/*",
        )
    closed = f"arn:lakefs:fs:::repository/{repo}/object/a/closed/*"
    somebody.may_all_but(closed)
    for destination in ("", "a", "a/closed", "a/closed/x"):
        assert imported(somebody, repo, "common_prefix", secret, destination).status == 403
    for destination in ("b", "a/clo", "a/open"):
        assert imported(somebody, repo, "common_prefix", secret, destination).status == 202
    assert imported(somebody, repo, "object", f"{secret}/x", "a/closed/x").status == 403
    assert imported(somebody, repo, "object", f"{secret}/x", "a/closed").status == 202


def test_the_right_to_a_folder_covers_what_is_in_it_and_no_more(
    somebody: Somebody, repo: str, secret: str
) -> None:
    branch = Permission("fs:*", f"arn:lakefs:fs:::repository/{repo}/branch/main")
    objects = Permission("fs:*", f"arn:lakefs:fs:::repository/{repo}/object/in/*")
    see = Permission("fs:ReadRepository", f"arn:lakefs:fs:::repository/{repo}")
    somebody.may(see, branch, objects, Permission("fs:*", f"{NAMESPACE}{secret}/*"))
    assert imported(somebody, repo, "common_prefix", secret, "in").status == 202
    assert imported(somebody, repo, "common_prefix", secret, "i").status == 403
    somebody.may(see, branch, objects, Permission("fs:*", f"{NAMESPACE}{secret}/?"))
    assert imported(somebody, repo, "common_prefix", secret, "in").status == 403
    assert imported(somebody, repo, "object", f"{secret}/x", "in/x").status == 202


@pytest.mark.parametrize("mode", ["replace", "merge", "commit", "pack"])
def test_a_deny_of_a_part_stops_a_bulk_job_of_the_whole(
    somebody: Somebody, repo: str, mode: str
) -> None:
    where = f"/repositories/{repo}/branches/main/bulk"
    for denied in (f"{REPOSITORY}{repo}/object/_lakefs_actions/*", f"{NAMESPACE}s3://secret/*"):
        somebody.may_all_but(denied)
        reply = somebody.client.send("POST", where, body={"mode": mode})
        assert reply.status == 403 and "permission missing: fs:" in reply.message, denied


def test_what_replaces_a_folder_deletes_in_it(somebody: Somebody, repo: str, secret: str) -> None:
    kept = Permission("fs:DeleteObject", f"{REPOSITORY}{repo}/object/kept/*")
    somebody.may(Permission("*", "*"), deny=(kept,))
    missing = f"permission missing: fs:DeleteObject on {REPOSITORY}{repo}/object/"
    reply = imported(somebody, repo, "common_prefix", secret, "kept/a")
    assert (reply.status, reply.message) == (403, f"{missing}kept/a/*")
    assert imported(somebody, repo, "object", f"{secret}/x", "kept/a").status == 202
    where = f"/repositories/{repo}/branches/main/bulk"
    reply = somebody.client.send("POST", where, body={"mode": "replace"})
    assert (reply.status, reply.message) == (403, f"{missing}*")


@pytest.mark.parametrize("action", ["fs:WriteObject", "fs:DeleteObject"])
def test_who_finishes_a_bulk_job_needs_the_rights_of_who_began_it(
    client: Client, somebody: Somebody, repo: str, action: str
) -> None:
    where = f"/repositories/{repo}/branches/main/bulk"
    job = client.send("POST", where, body={"mode": "replace", "prefix": "in/"}).json["id"]
    denied = Permission(action, f"{REPOSITORY}{repo}/object/in/secret/*")
    body = {"metarange": "0" * 64, "request_id": "r", "message": "m"}
    for deny, status in (((denied,), 403), ((), 404)):
        somebody.may(Permission("*", "*"), deny=deny)
        reply = somebody.client.send("PUT", f"{where}/{job}/finish", body=body)
        assert reply.status == status, reply.body
        missing = f"permission missing: {action} on {REPOSITORY}{repo}/object/in/*"
        assert (reply.message == missing) is bool(deny)


def test_a_deny_of_a_part_leaves_a_bulk_job_of_another_part(somebody: Somebody, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/bulk"
    somebody.may_all_but(f"{REPOSITORY}{repo}/object/_lakefs_actions/*")
    for prefix, status in (("_lakefs_actions/a", 403), ("_lake", 403), ("data/", 201)):
        body = {"mode": "replace", "prefix": prefix}
        assert somebody.client.send("POST", where, body=body).status == status, prefix


def test_a_deny_of_a_part_stops_an_event_rule_of_the_whole(somebody: Somebody, repo: str) -> None:
    where = f"/repositories/{repo}/events/rules"
    body = {"branch": "main", "bucket": "landing", "prefix": "in"}
    for denied in (
        f"{NAMESPACE}s3://landing/in/secret/*",
        f"{NAMESPACE}local://landing/in/secret/*",  # the scheme of this deployment
        f"{REPOSITORY}{repo}/object/closed/*",
    ):
        somebody.may_all_but(denied)
        assert somebody.client.send("POST", where, body=body).status == 403, denied
    somebody.may_all_but(f"{NAMESPACE}local://landing/out/*")
    assert somebody.client.send("POST", where, body=body).status == 201


def test_a_deny_of_a_part_stops_a_repository_on_the_whole(somebody: Somebody) -> None:
    """But the right to exactly one namespace is enough."""
    somebody.may_all_but(f"{NAMESPACE}local://whole/part/*")
    body = {"name": "whole", "storage_namespace": "local://whole/part"}
    for inside in ("", "/part", "/part/x"):
        body["storage_namespace"] = f"local://whole{inside}"
        assert somebody.client.send("POST", "/repositories", body=body).status == 403, inside
    somebody.may(
        Permission("fs:CreateRepository", f"{REPOSITORY}whole"),
        Permission("fs:AttachStorageNamespace", f"{NAMESPACE}local://whole/part"),
        Permission("fs:ReadRepository", f"{REPOSITORY}*"),
    )
    body["storage_namespace"] = "local://whole/part"
    assert somebody.client.send("POST", "/repositories", body=body).status == 201


def test_a_namespace_that_cannot_be_is_left_for_its_refusal() -> None:
    assert RepositoryCreation("x", "local://a/../b").storage_namespace == "local://a/../b"
