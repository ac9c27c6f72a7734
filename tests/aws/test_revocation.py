"""A right that is taken away through one sandbox ends in another one within the documented time.

Sandbox two learns the rights of each user right before sandbox one changes them: it then keeps them
for as long as it ever does.  What counts is when a request is sent, so a busy machine, which is
late with everything, cannot fail the test: it can only deny more.

    python -m pytest -s tests/aws/test_revocation.py    prints the measured times
"""

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from graveler.core.aws import AwsSession
from tests.aws.lake import Lake, ask, build, make_lake, sandboxes
from tests.functions.sandbox import Sandbox
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("sandboxes")

EVERYWHERE_SECONDS: Final = 5.0  # docs/reference/access-control.md
_PAUSE_SECONDS: Final = 0.4
_SEE: Final = {"effect": "allow", "action": ["fs:Read*"], "resource": "*"}


class Revocation(NamedTuple):
    """What takes a right away, and how a request without it is answered."""

    what: str
    method: str
    path: str
    status: int
    body: Mapping[str, Any] | None = None


_USER, _GROUP, _POLICY = "/auth/users/{user}", "/auth/groups/{user}", "/auth/policies/{user}"
_DENY: Final = {"statement": [{**_SEE, "effect": "deny"}]}
REVOCATIONS: Final = (
    Revocation("policy detached from the user", "DELETE", _USER + "/policies/{user}", 404),
    Revocation("policy detached from the group", "DELETE", _GROUP + "/policies/see", 404),
    Revocation("user removed from the group", "DELETE", _GROUP + "/members/{user}", 404),
    Revocation("policy replaced", "PUT", _POLICY, 404, _DENY),
    Revocation("policy deleted", "DELETE", _POLICY, 404),
    Revocation("access key deleted", "DELETE", _USER + "/credentials/{key}", 401),
    Revocation("user disabled", "POST", _USER + "/disable", 401),
    Revocation("user deleted", "DELETE", _USER, 401),
)


class Team:
    """One user for each revocation, made through one sandbox."""

    def __init__(self, lake: Lake, sandbox: Sandbox) -> None:
        self.lake, self._sandbox = lake, sandbox
        self.keys: dict[str, str] = {}
        self.do(
            "POST", "/repositories", {"name": "lake", "storage_namespace": f"s3://{lake.name}/x"}
        )
        self.do("POST", "/auth/policies", {"id": "see", "statement": [_SEE]})

    def do(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """A request of the administrator, which succeeds."""
        sent = None if body is None else json.dumps(body).encode()
        answer = ask(self.lake, self._sandbox, method, path, body=sent)
        assert answer.status < 300, (method, path, answer)
        return answer.body

    def member(self, user: str, revocation: Revocation) -> Lake:
        """The lake as a user sees it who has the right by one policy, its own or its group's."""
        self.do("POST", "/auth/users", {"id": user})
        if "/groups/" in revocation.path:
            self.do("POST", "/auth/groups", {"id": user})
            self.do("PUT", f"/auth/groups/{user}/members/{user}")
            self.do("PUT", f"/auth/groups/{user}/policies/see")
        else:
            self.do("POST", "/auth/policies", {"id": user, "statement": [_SEE]})
            self.do("PUT", f"/auth/users/{user}/policies/{user}")
        given = json.loads(self.do("POST", f"/auth/users/{user}/credentials"))
        self.keys[user] = given["access_key_id"]
        pair = f"{given['access_key_id']}:{given['secret_access_key']}".encode()
        return self.lake._replace(authorization="Basic " + base64.b64encode(pair).decode())

    def revoke(self, user: str, revocation: Revocation) -> None:
        body = revocation.body and {"id": user, **revocation.body}
        path = revocation.path.format(user=user, key=self.keys[user])
        self.do(revocation.method, path, body)


class Watched:
    """A user whose right has ended, and the requests that it sends through the other sandbox."""

    def __init__(self, seen: Lake, sandbox: Sandbox, revocation: Revocation) -> None:
        self._seen, self._sandbox, self.revocation = seen, sandbox, revocation
        self.ended = 0.0  # when the revocation was acknowledged
        self.allowed: list[float] = []  # when requests were sent that were allowed after that
        self.denied = 0.0  # when the first one was sent that was not

    def ask(self) -> int:
        return ask(self._seen, self._sandbox, "GET", "/repositories/lake").status

    def look(self) -> bool:
        """Send a request.  Whether it was denied."""
        sent = time.monotonic()
        status = self.ask()
        if status == 200:
            self.allowed.append(sent)
            return False
        assert status == self.revocation.status, (self.revocation.what, status)
        self.denied = self.denied or sent
        return True


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the API's function."""
    return build("api", tmp_path_factory.mktemp("function") / "api")


def test_a_right_that_ends_in_one_sandbox_ends_in_another_within_the_documented_time(
    engine: str, session: AwsSession, fresh_name: Callable[[], str], code: Path
) -> None:
    lake = make_lake(session, fresh_name())
    with sandboxes(lake, code, engine, 2) as (here, there):
        team = Team(lake, here)
        users = {f"user{number}": each for number, each in enumerate(REVOCATIONS)}
        members = {user: team.member(user, each) for user, each in users.items()}
        there.start()
        watched = []
        for user, revocation in users.items():
            one = Watched(members[user], there, revocation)
            assert one.ask() == 200
            team.revoke(user, revocation)
            one.ended = time.monotonic()
            watched.append(one)
        _watch(watched)
    for one in watched:
        late = [sent - one.ended for sent in one.allowed]
        print(f"{one.revocation.what}: allowed until {max(late, default=0):.1f} s, "
              f"denied at {one.denied - one.ended:.1f} s")  # fmt: skip
        assert all(seconds <= EVERYWHERE_SECONDS for seconds in late), one.revocation.what
    assert any(one.allowed for one in watched), "the other sandbox knew nothing to forget"


def _watch(watched: Sequence[Watched]) -> None:
    """Until each has been denied, and then once more: it stays so."""
    waiting, end = list(watched), time.monotonic() + PATIENCE_SECONDS
    while waiting:
        assert time.monotonic() < end, [one.revocation.what for one in waiting]
        waiting = [one for one in waiting if not one.look()]
        time.sleep(_PAUSE_SECONDS)
    assert all(one.look() for one in watched)
