"""Rights end in time, and each item of a batch is judged.

Two processes serve one world.  One of them takes a right away, at each moment of a write that the
other carries out.
"""

from collections.abc import Callable
from typing import Any

import pytest

from graveler.auth import directory
from graveler.auth.directory import OF_USER
from graveler.core import limits
from simulator.service.process import basic
from tests.api.fault_lake import IMPORTED, LAKE, MAIN
from tests.api.fault_world import Running, Strikes, World, sound
from tests.asgi import Ask, Heard

OBJECT = "arn:lakefs:fs:::repository/lake/object/"
ADDRESS = "arn:lakefs:fs:::namespace/" + IMPORTED
NOT_YET = limits.access_seconds_max - 1
CALLS_MAX = 40


class Cleo:
    """A user with one policy, and her key."""

    def __init__(self, running: Running, *statements: tuple[str, str]) -> None:
        keeper = running.service.auth.keeper
        directory.create_user(keeper, "cleo")
        self.may(running, *statements)
        directory.add(keeper, OF_USER, "cleo", "spare")
        made = running.door.send(Ask("POST", "/auth/users/cleo/credentials")).json
        self.header = basic(made["access_key_id"], made["secret_access_key"])

    def may(self, running: Running, *statements: tuple[str, str]) -> None:
        """From now on these pairs of an action and a resource, beside seeing the lake."""
        see = ("fs:ReadRepository", "*")
        allowed = [
            {"effect": "allow", "action": [action], "resource": resource}
            for action, resource in (see, *statements)
        ]
        directory.update_policy(running.service.auth.keeper, "spare", allowed)
        running.service.auth.access.forget()

    def send(self, running: Running, ask: Ask) -> Heard:
        return running.send(ask._replace(headers={**ask.headers, "Authorization": self.header}))


class Meanwhile(Strikes):
    """Does something before the request to a port that is due."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        super().__init__()
        self.number, self.act = number, act

    def _next(self, verb: str) -> Any:
        fault = super()._next(verb)
        if len(self.seen) == self.number:
            self.act()
        return fault


def _upload(path: str) -> Ask:
    return Ask("POST", f"{MAIN}/objects?path={path}", (b"content",))


def _revoked_at(world: World, number: int) -> bool:
    """Whether Cleo's write made so many requests; her right ends before this one."""
    there = world.serve(sound())
    cleo = Cleo(there, ("fs:WriteObject", OBJECT + "*"))
    world.blocks.put("mem://outside/another", [b""])  # so that the processes draw other ids

    def revoke() -> None:
        directory.remove(there.service.auth.keeper, OF_USER, "cleo", "spare")
        there.service.auth.access.forget()

    meanwhile = Meanwhile(0, revoke)
    here = world.serve(meanwhile)
    assert cleo.send(here, _upload("before")).status == 201
    meanwhile.seen.clear()
    meanwhile.number = number
    heard = cleo.send(here, _upload("running"))
    if len(meanwhile.seen) < number:
        return False
    assert heard.status == 201, "what was let in before goes on to its end"
    state = world.state
    assert cleo.send(there, _upload("there")).status == 404  # this process took it away
    world.clock.sleep(limits.access_seconds_max)
    for running in (here, there):
        assert cleo.send(running, _upload("after")).status == 404
    assert world.state == state
    return True


def test_no_write_of_a_revoked_user_begins_after_the_bound(template: World) -> None:
    number = 1
    while _revoked_at(template.copy(), number):
        number += 1
        assert number < CALLS_MAX
    assert number > 3


# ---- each item of a batch ------------------------------------------------------------------------


def _denied(running: Running, cleo: Cleo, ask: Ask, missing: str) -> None:
    heard = cleo.send(running, ask)
    assert heard.status == 403, heard
    assert missing in heard.json["message"], heard


def check_deletions(world: World) -> None:
    """Of several paths, only those that the caller may delete are deleted."""
    running = world.serve(sound())
    cleo = Cleo(running, ("fs:DeleteObject", OBJECT + "a"))
    heard = cleo.send(running, Ask.json("POST", MAIN + "/objects/delete", {"paths": ["a", "b"]}))
    assert [each["path"] for each in heard.json["errors"]] == ["b"]
    found = [running.door.send(Ask("GET", f"{LAKE}/refs/main/objects/stat?path={path}")).status
             for path in ("a", "b")]  # fmt: skip
    assert found == [404, 200]


def check_import(world: World) -> None:
    """An import needs the right on each of its sources, and on each destination."""
    running = world.serve(sound())
    paths = [
        {"type": "object", "path": IMPORTED + name, "destination": name} for name in ("one", "two")
    ]
    ask = Ask.json("POST", MAIN + "/import", {"paths": paths, "commit": {"message": "m"}})
    rest = (("fs:CreateCommit", "*"), ("fs:ImportFromStorage", ADDRESS + "one"))
    cleo = Cleo(running, *rest, ("fs:WriteObject", "*"))
    _denied(running, cleo, ask, ADDRESS + "two")
    cleo.may(running, *rest, ("fs:ImportFromStorage", "*"), ("fs:WriteObject", OBJECT + "one"))
    _denied(running, cleo, ask, OBJECT + "two")


def check_copy(world: World) -> None:
    """A copy needs the right to read its source, and the right to write its destination."""
    running = world.serve(sound())
    ask = Ask.json("POST", MAIN + "/objects/copy?dest_path=n", {"src_path": "a"})
    cleo = Cleo(running, ("fs:ReadObject", OBJECT + "a"))
    _denied(running, cleo, ask, OBJECT + "n")
    cleo.may(running, ("fs:WriteObject", OBJECT + "n"))
    _denied(running, cleo, ask, OBJECT + "a")


def check_presigned_listing(world: World) -> None:
    """A listing with signed URLs needs the right to read each object of the page."""
    running = world.serve(sound())
    cleo = Cleo(running, ("fs:ListObjects", "*"), ("fs:ReadObject", OBJECT + "a"))
    _denied(running, cleo, Ask("GET", f"{LAKE}/refs/main/objects/ls?presign=true"), OBJECT + "b")


def check_creation(world: World) -> None:
    """A repository needs the right on its namespace, and no deny of anything inside."""
    running = world.serve(sound())
    body = {"name": "fresh", "storage_namespace": "mem://fresh/x"}
    cleo = Cleo(running, ("fs:CreateRepository", "*"))
    _denied(running, cleo, Ask.json("POST", "/repositories", body), "mem://fresh/x")


@pytest.mark.parametrize(
    "check",
    [check_deletions, check_import, check_copy, check_presigned_listing, check_creation],
    ids=lambda check: check.__name__,
)
def test_each_item_is_authorized(check: Callable[[World], None], template: World) -> None:
    check(template.copy())
