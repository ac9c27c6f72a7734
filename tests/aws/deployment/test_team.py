"""The walk-through of a team runs against the deployed stack."""

import pytest
from lakefs.exceptions import NotAuthorizedException

from scripts import deploy
from scripts.deploy import Target
from tests import waiting
from tests.aws.deployment.conftest import Stack
from tests.docs import team

pytestmark = pytest.mark.xdist_group("stack")


@pytest.mark.usefixtures("sales")
def test_a_team_of_five(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    place = team.Place(
        stack.url,
        stack.access_key_id,
        stack.secret_access_key,
        f"{stack.namespace}/sales",
        team.free_port(),
    )
    names = team.follow(place, pause=True)
    assert team.printed(capsys.readouterr().out) == team.EXPECTED
    assert team.rights(place, names["dora"]) == [True]
    assert team.rights(place, names["cleo"]) == [False]
    main = names["main_of_ben"]

    def is_gone() -> bool:
        try:  # with a new object each time, for an object keeps its first answer
            main.object("2026/01.csv").stat()
        except NotAuthorizedException:
            return True
        return False

    waiting.until(is_gone, "the key of a deleted user ends in every process")


def test_a_local_engine_is_given_a_secret_of_hooks_only_if_hooks_need_one() -> None:
    nowhere = "http://127.0.0.1:1"
    for parameters in ((), ("HooksAllow=a.example", "HooksSecretArn=arn")):
        target = Target.here("lake", *parameters)
        assert deploy.with_hooks_secret(target, nowhere, {}) is target
    with pytest.raises(deploy.Failed, match="set GRAVELER_HOOKS_SECRET"):
        deploy.with_hooks_secret(Target.here("lake", "HooksAllow=a.example"), nowhere, {})
