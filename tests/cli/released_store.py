"""Stores that released versions wrote, kept in tests/data/stores.

    python -m tests.cli.released_store VERSION     writes VERSION.tar.xz and VERSION.json there

The archive is the folder of a store that `graveler serve` wrote, closed, opened again, changed, and
left without a farewell (SIGKILL): tables and logs, files and a journal.  The JSON file is what its
API answered before.  Run it once, with the code of the release, and never again.
"""

import argparse
import json
import os
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from tests.cli.service import serving

FOLDER = Path(__file__).parents[1] / "data" / "stores"
REPOSITORY = "/repositories/lake"
SPREAD = 40  # objects of the first commit: more than one folder, one range

# What is read again: paths of the API below /api/v1.
READ = (
    "/repositories",
    f"{REPOSITORY}/branches",
    f"{REPOSITORY}/tags",
    f"{REPOSITORY}/metadata",
    f"{REPOSITORY}/settings/branch_protection",
    f"{REPOSITORY}/pulls?status=all",
    f"{REPOSITORY}/refs/main/commits",
    f"{REPOSITORY}/refs/dev/commits",
    f"{REPOSITORY}/refs/v1/objects/ls",
    f"{REPOSITORY}/refs/main/objects/ls?delimiter=/",
    f"{REPOSITORY}/refs/main/objects/ls",
    f"{REPOSITORY}/refs/dev/objects/ls",
    f"{REPOSITORY}/refs/v1/diff/main",
    f"{REPOSITORY}/branches/dev/diff",
    "/auth/users",
    "/auth/groups",
    "/auth/policies",
    "/auth/users/ann/policies",
)


def facts(api: httpx.Client) -> dict[str, Any]:
    """The answers of `READ`, and the bytes of each object of `main` and of `dev` by SHA-256."""
    answers = {path: api.get(path).raise_for_status().json() for path in READ}
    for ref in ("main", "dev"):
        for entry in answers[f"{REPOSITORY}/refs/{ref}/objects/ls"]["results"]:
            read = api.get(f"{REPOSITORY}/refs/{ref}/objects", params={"path": entry["path"]})
            answers[f"{ref}:{entry['path']}"] = sha256(read.raise_for_status().content).hexdigest()
    return answers


def _send(api: httpx.Client, method: str, path: str, body: object = None) -> httpx.Response:
    return api.request(method, path, json=body).raise_for_status()


def _put(api: httpx.Client, branch: str, path: str, content: bytes) -> None:
    sent = {"content-type": "text/plain"}
    url = f"{REPOSITORY}/branches/{branch}/objects"
    api.post(url, params={"path": path}, content=content, headers=sent).raise_for_status()


def _commit(api: httpx.Client, branch: str, message: str, **metadata: str) -> str:
    body = {"message": message, "metadata": metadata}
    made = _send(api, "POST", f"{REPOSITORY}/branches/{branch}/commits", body)
    return str(made.json()["id"])


def load(api: httpx.Client) -> None:
    """A repository with a commit and a tag, and people."""
    _send(api, "POST", "/repositories", {"name": "lake", "storage_namespace": "local://lake"})
    for number in range(SPREAD):
        _put(api, "main", f"data/day={number % 4}/{number}.csv", f"id\n{number}\n".encode())
    _put(api, "main", "naïve/'quoted' % name.txt", b"odd name")
    _put(api, "main", "large.bin", b"0123456789abcdef" * 8192)
    _put(api, "main", "empty", b"")
    first = _commit(api, "main", "Load", source="sample")
    _send(api, "POST", f"{REPOSITORY}/tags", {"id": "v1", "ref": first})
    _send(api, "POST", "/auth/users", {"id": "ann"})
    _send(api, "PUT", "/auth/users/ann/policies/FSReadAll")
    _send(api, "POST", "/auth/groups", {"id": "team"})


def change(api: httpx.Client) -> None:
    """A merge, staged rows, a pull request, rules, metadata."""
    _send(api, "POST", f"{REPOSITORY}/branches", {"name": "dev", "source": "main"})
    _put(api, "dev", "data/day=0/0.csv", b"id\n1000\n")
    _delete(api, "data/day=1/1.csv")
    _commit(api, "dev", "Change one, delete one")
    _put(api, "main", "readme.md", b"# The lake\n")
    _commit(api, "main", "Describe")
    _send(api, "POST", f"{REPOSITORY}/refs/dev/merge/main", {"message": "Merge dev"})
    _put(api, "dev", "staged.txt", b"not committed")
    _delete(api, "empty")
    pull = {"title": "Again", "source_branch": "dev", "destination_branch": "main"}
    _send(api, "POST", f"{REPOSITORY}/pulls", pull)
    rules = [{"pattern": "release-*"}]
    _send(api, "PUT", f"{REPOSITORY}/settings/branch_protection", rules)
    _send(api, "POST", f"{REPOSITORY}/metadata", {"metadata": {"team": "data"}})


def _delete(api: httpx.Client, path: str) -> None:
    url = f"{REPOSITORY}/branches/dev/objects"
    api.delete(url, params={"path": path}).raise_for_status()


def make(version: str) -> None:
    """Write the archive and the answers."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        with serving(store) as service, service.client() as api:
            load(api)
            service.end()
        with serving(store) as service, service.client() as api:
            change(api)
            found = facts(api)
        with tarfile.open(FOLDER / f"{version}.tar.xz", "w:xz") as archive:
            archive.add(store, "store", filter=_anonymous)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / f"{version}.json").write_text(text, encoding="utf-8")


def extract(version: str, folder: Path) -> Path:
    """The store that this version wrote, in a folder of its own."""
    with tarfile.open(FOLDER / f"{version}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "store"


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without the user, and without RocksDB's log for people, which names host and folder."""
    if Path(member.name).name.startswith("LOG"):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the store of a release as test data.")
    parser.add_argument("version")
    os.umask(0o077)
    make(parser.parse_args().version)
