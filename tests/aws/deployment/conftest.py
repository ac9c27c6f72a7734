"""One build and one deployed stack for all tests of this folder, which run in one process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lakefs.client import Client
from lakefs.repository import Repository

from scripts import deploy
from scripts.deploy import Target
from tests.docs.team import SIGNING_KEY

LANDING, WATCHED = "landing", "watched"  # buckets that exist before the stack
S3_ENDPOINT = "https://s3.lake.example.org"
TARGET = Target.here(
    "lake",
    f"ExistingBuckets={LANDING},{WATCHED}",
    "HooksAllow=127.0.0.1:*",
    f"S3Endpoint={S3_ENDPOINT}",
)


class Stack(NamedTuple):
    """A deployed stack: the engine that runs it, what it tells, its API, who may use it."""

    engine: str
    told: dict[str, str]
    url: str
    access_key_id: str
    secret_access_key: str

    def aws(self, service: str) -> Any:
        """A client of the engine, which may do everything."""
        return deploy.client(service, self.engine)

    @property
    def namespace(self) -> str:
        return f"s3://{self.told['Bucket']}"


def deployed(template: Path, engine: str) -> Stack:
    """The stack, after `sam deploy`."""
    variables = {**deploy.LOCAL_CREDENTIALS, "AWS_ENDPOINT_URL": engine}
    target = deploy.with_hooks_secret(TARGET, engine, {deploy.HOOKS_KEY: SIGNING_KEY})
    deploy.deploy(target, template, variables)
    told = deploy.outputs(TARGET.stack, engine)
    deploy.check_ready(deploy.local_ready_url(engine, told["ApiId"]), TARGET.stack, engine)
    key, secret = deploy.first_credentials(TARGET.stack, engine)
    return Stack(engine, told, deploy.local_url(engine, told["ApiId"]), key, secret)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template that `sam build` made, beside the code and the layer."""
    return deploy.build(TARGET, tmp_path_factory.mktemp("sam") / "build")


@pytest.fixture(scope="session")
def stack(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The stack, deployed once."""
    with deploy.engine(tmp_path_factory.mktemp("engine") / "log") as url:
        yield deployed(built, url)


@pytest.fixture(scope="session")
def client(stack: Stack) -> Client:
    """The unmodified client of lakeFS."""
    return Client(host=stack.url, username=stack.access_key_id, password=stack.secret_access_key)


@pytest.fixture
def sales(client: Client) -> Iterator[None]:
    """Two walk-throughs make a repository of this name on the same stack: each leaves none."""
    yield
    Repository("sales", client=client).delete()
