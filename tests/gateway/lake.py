"""One lake for the clients of S3: a repository with history, a protected branch, many objects."""

import base64
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from graveler.auth.credentials import NewCredential
from graveler.auth.permissions import Permission
from graveler.engine.objects import write
from graveler.engine.objects.write import Upload
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from tests.api.somebody import Somebody, somebody_of
from tests.gateway.serving import DOMAIN, Gateway, gateway
from tests.tls import Secured, secured

REGION = "us-east-1"
EASY_NAMES = (  # odd, but every client can name them
    "a b",
    "a+b",
    "a%2Fb",
    "a%b",
    "a&b",
    "ü",
    "😀",
    "q\"'<>",
    "#?=;@:$,",
    "[]{}|^`~!*()",
    "b\\c",
)
MANY = [f"many/{number:04}" for number in range(2_505)]  # three pages of a listing


@dataclass(frozen=True)
class Lake:
    """A repository as clients see it.

    `main` has a tag `v1` and the commit `commit`, where `kept/a` is `before`; on the branch it is
    `after`.  `protected` takes no writes.  `somebody` is a caller whose rights a test chooses.
    """

    gateway: Gateway
    tls: Secured
    repo: str
    commit: str
    somebody: Somebody
    somebodys_key: NewCredential

    @property
    def url(self) -> str:
        return self.gateway.live.client.url

    @property
    def key(self) -> NewCredential:
        return self.gateway.s3.key

    def storage_options(self, **more: Any) -> dict[str, str]:
        """What clients on the Rust crate `object_store` are told: Polars and delta-rs."""
        key = more.pop("key", self.key)
        return {
            "aws_access_key_id": key.access_key_id,
            "aws_secret_access_key": key.secret_access_key,
            "aws_region": REGION,
            "aws_endpoint_url": self.url,
            "aws_allow_http": "true",
        } | more

    def boto(self, service: Any = boto3.client, *, style: str = "path", **more: Any) -> Any:
        """A client of boto3.  In host style it signs for the domain, and what it has signed is sent
        to the address of the service: no resolver knows the domain."""
        key, config = more.pop("key", self.key), more.pop("config", {})
        s3 = {"addressing_style": style if style == "path" else "virtual"}
        url = self.url if style == "path" else f"http://{DOMAIN}"
        client = service(
            "s3",
            endpoint_url=more.pop("url", url),
            aws_access_key_id=key.access_key_id,
            aws_secret_access_key=key.secret_access_key,
            region_name=REGION,
            config=Config(retries={"max_attempts": 0}, s3=s3, **config),
            **more,
        )
        if style == "host":
            client.meta.events.register("before-send.s3", self._redirect)
        return client

    def _redirect(self, request: Any, **_: Any) -> None:
        """Let a signed request go to the address of the service, with its Host."""
        host = urlsplit(request.url).netloc
        request.headers["Host"] = host
        request.url = request.url.replace(f"http://{host}", self.url, 1)

    def stage(self, paths: Sequence[str]) -> None:
        """Stage an object at each of these paths on `main`; its content is the path."""
        _stage(self.gateway, self.repo, paths)

    def may_read(self, path: str) -> None:
        """`somebody` may list, read objects below a path, and nothing else."""
        arn = f"arn:lakefs:fs:::repository/{self.repo}"
        listing = Permission("fs:ListObjects", arn)
        self.somebody.may(listing, Permission("fs:ReadObject", f"{arn}/object/{path}/*"))


@contextmanager
def lake(folder: Path) -> Iterator[Lake]:
    """Serve a lake until the block ends."""
    with gateway(folder / "store") as running, secured(running.live.server, folder) as tls:
        live = running.live
        repo = live.fresh_repository()
        below = f"/repositories/{repo}"
        send = live.client.send
        assert live.client.upload(repo, "kept/a", b"before").status == 201
        made = send("POST", f"{below}/branches/main/commits", body={"message": "before"})
        commit = made.json["id"]
        assert send("POST", f"{below}/tags", body={"id": "v1", "ref": commit}).status == 201
        assert live.client.upload(repo, "kept/a", b"after").status == 201
        for branch in ("protected", "other"):
            body = {"name": branch, "source": "main"}
            assert send("POST", f"{below}/branches", body=body).status == 201
        rules = [{"pattern": "protected"}]
        reply = send("PUT", f"{below}/settings/branch_protection", body=rules)
        assert reply.status == 204, reply.body
        _stage(running, repo, MANY)
        somebody = somebody_of(live)
        pair = base64.b64decode(somebody.client.authorization.removeprefix("Basic ")).decode()
        key_id, _, secret = pair.partition(":")
        yield Lake(running, tls, repo, commit, somebody, NewCredential(key_id, secret))


def _stage(running: Gateway, repo: str, paths: Sequence[str]) -> None:
    """Stage many objects on `main`, as no test needs them to come through a client."""
    ports = running.live.service.ports
    there = open_repository(ports, repository.get(ports, repo))

    def stage(path: str) -> None:
        write.upload(there, "main", path, Upload([path.encode()]))

    with ThreadPoolExecutor(32) as pool:  # they share the syncs of the store
        list(pool.map(stage, paths))
