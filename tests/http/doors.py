"""One object behind each of the three doors: the API, the S3 gateway and signed URLs."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from tests.api.serving import API, Reply
from tests.gateway.serving import Gateway, gateway

DOORS = ("api", "s3", "signed")


def md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


@dataclass
class Door:
    """Requests for objects of one repository by one of the doors.  Without a body, an object that
    `make` names does not exist."""

    name: str
    running: Gateway
    repo: str
    numbers: Iterator[int] = field(default_factory=count)

    def make(self, body: bytes | None) -> str:
        """A fresh object."""
        path = f"{self.name}/{next(self.numbers)}"
        if body is None:
            return path
        if self.name == "signed":
            assert self.send("PUT", path, {}, body).status == 200
        else:
            assert self.running.live.client.upload(self.repo, path, body).status == 201
        return path

    def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> Reply:
        """A request for the object; PUT is how a door writes it."""
        if self.name == "s3":
            target = f"/{self.repo}/main/{path}"
            return self.running.s3.send(method, target, body=body or b"", headers=headers)
        client = self.running.live.client
        if self.name == "api":
            is_read = method in ("GET", "HEAD")
            place = "refs/main" if is_read else "branches/main"
            target = f"{API}/repositories/{self.repo}/{place}/objects?path={quote(path, safe='')}"
            verb = "POST" if method == "PUT" else method
            return client.raw(verb, target, body, headers)
        verb: Literal["GET", "PUT"] = "PUT" if method == "PUT" else "GET"
        address = f"local://{self.repo}/x/data/{path}"
        url = self.running.live.embedded.signer.presign(address, verb, 600, "").url
        return client.raw(method, url, body, {"Authorization": "", **headers})


@contextmanager
def doors(store: Path) -> Iterator[dict[str, Door]]:
    """The doors of a server on a fresh store."""
    with gateway(store) as running:
        repo = running.live.fresh_repository()
        yield {name: Door(name, running, repo) for name in DOORS}
