"""The first 345 commits of the recorded history replay through the deployed stack, up to 64
that follow each other as one: eight branches are opened, four merged, two of them with conflicts.
A served store replays more of them."""

from collections.abc import Callable

import pytest
from lakefs.client import Client

from tests.aws.deployment.conftest import Stack
from tests.replay import recorded
from tests.replay.http_door import HttpDoor
from tests.replay.replay import CHECKS, Replayed, replay

pytestmark = pytest.mark.xdist_group("stack")

COUNT, LENGTH = 345, 64


@pytest.fixture(scope="module")
def done(stack: Stack, client: Client) -> Replayed:
    return replay(HttpDoor(client, stack.namespace), recorded.condensed(COUNT, LENGTH))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_through_the_stack(check: Callable[[Replayed], None], done: Replayed) -> None:
    check(done)
