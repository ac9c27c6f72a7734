"""Every operation, tried by callers with too few rights, with just enough, and with the rights of
another repository.  The cases are made from the declarations, so no operation is left out."""

import re
from dataclasses import replace

import pytest

from graveler.api.operation import BY_ITEM, FOR_EVERY_CALLER, OPEN
from graveler.api.operations import OPERATIONS
from graveler.auth.permissions import ACTIONS, Permission
from tests.api.samples import ALL, Sample
from tests.api.serving import Reply, Served
from tests.api.somebody import Somebody

NEEDED = {each.name: {one.action for one in each.permissions} for each in OPERATIONS}
EXEMPT = OPEN | FOR_EVERY_CALLER | BY_ITEM
CLOSED = [(name, one) for name, one in ALL if name not in EXEMPT]
MISSING = re.compile(r"permission missing: (\S+) on (.+)")
ONCE = ("createRepository", "createUser", "createGroup", "createPolicy", "setupCommPrefs")
SEE = "fs:ReadRepository"


def _placed(live: Served, one: Sample) -> Sample:
    """The request in a repository of its own."""
    if not one.path.startswith("/repositories/"):
        return one
    return replace(one, path=one.path.replace("/sample", "/" + live.fresh_repository(), 1))


def _send(somebody: Somebody, one: Sample) -> Reply:
    return somebody.client.send(one.method, one.path, one.query, body=one.body)


def _repository(one: Sample) -> str:
    return one.path.split("/")[2] if one.path.startswith("/repositories/") else ""


def _see(repository: str) -> Permission:
    return Permission(SEE, f"arn:lakefs:fs:::repository/{repository}")


def needed(somebody: Somebody, one: Sample) -> tuple[list[Permission], Reply]:
    """What a caller is asked for, one permission after the other, until it is let in."""
    held: list[Permission] = []
    repository = _repository(one)
    seen = [_see(repository)] if repository else []
    for _ in range(10):
        somebody.may(*held, *seen)
        reply = _send(somebody, one)
        if one.method == "HEAD" and reply.status == 403:
            reply = _send(somebody, replace(one, method="GET"))  # which says what is missing
        missing = MISSING.fullmatch(reply.message) if reply.status == 403 else None
        if missing is None:
            return held, reply
        permission = Permission(missing[1], missing[2])
        assert permission not in held
        held.append(permission)
    raise AssertionError(f"always something else is missing: {held}")


def test_the_exempt_operations_are_exactly_these() -> None:
    assert {"postStatsEvents", "getCurrentUser", "mayI"} == FOR_EVERY_CALLER
    logins = {"login", "externalPrincipalLogin", "stsLogin"}
    assert logins | {"healthCheck", "getSetupState", "setup", "getAuthCapabilities"} == OPEN
    for name, actions in NEEDED.items():
        assert bool(actions) is (name not in OPEN | FOR_EVERY_CALLER), name
        assert actions <= ACTIONS, name


@pytest.mark.parametrize(("operation", "one"), CLOSED, ids=[name for name, _ in CLOSED])
def test_an_operation_needs_each_of_its_permissions_and_nothing_else(
    live: Served, somebody: Somebody, operation: str, one: Sample
) -> None:
    mine, of_administrator = _placed(live, one), _placed(live, one)
    held, reply = needed(somebody, mine)
    assert {each.action for each in held} | {SEE} == NEEDED[operation] | {SEE}
    expected = live.client.send(
        of_administrator.method, of_administrator.path, of_administrator.query,
        body=of_administrator.body,
    )  # fmt: skip
    if operation not in ONCE:
        assert reply.status == expected.status, (reply.body, expected.body)
    assert reply.status not in (401, 500)


def _conditional(live: Served, repository: str) -> dict[str, Sample]:
    """Requests that need more than others of their operation do."""
    client, repo = live.client, f"/repositories/{repository}"
    assert client.upload(repository, "p", b"x").status == 201
    branch = {"name": "work", "source": "main"}
    assert client.send("POST", f"{repo}/branches", body=branch).status == 201
    pull = {"title": "t", "source_branch": "work", "destination_branch": "main"}
    opened = client.send("POST", f"{repo}/pulls", body=pull).json["id"]
    commits, metarange = f"{repo}/branches/main/commits", {"source_metarange": "0" * 64}
    return {
        "commit": Sample("POST", commits, metarange, {"message": "m"}),
        "commitAsync": Sample("POST", f"{commits}/async", metarange, {"message": "m"}),
        "listObjects": Sample("GET", f"{repo}/refs/main/objects/ls", {"presign": "true"}, None),
        "mergePullRequest": Sample("PUT", f"{repo}/pulls/{opened}/merge", {}, None),
    }


def test_some_requests_need_more_and_the_declarations_say_what(
    live: Served, somebody: Somebody
) -> None:
    repository = live.fresh_repository()
    requests = _conditional(live, repository)
    declared = {each.name: each.conditional for each in OPERATIONS if each.conditional}
    assert set(declared) == {*requests, *BY_ITEM}
    for name, one in requests.items():
        more = [permission for _, permission in declared[name]]
        held, _ = needed(somebody, one)
        assert {each.action for each in held} == NEEDED[name] | {each.action for each in more}
        for permission in more:
            (asked,) = [each for each in held if each.action == permission.action]
            begin = permission.resource.partition("<")[0].replace("{repository}", repository)
            assert asked.resource.startswith(begin)


def test_a_bulk_deletion_that_denies_tells_only_those_who_may_see_the_repository(
    live: Served, somebody: Somebody
) -> None:
    repository = live.fresh_repository()
    path = f"/repositories/{repository}/branches/main/objects/delete"
    ((_, see),) = next(each.conditional for each in OPERATIONS if each.name in BY_ITEM)
    somebody.may(Permission("fs:DeleteObject", f"arn:lakefs:fs:::repository/{repository}/object/a"))
    some, all_of_them = {"paths": ["a", "b"]}, {"paths": ["a"]}
    for name in ("a", "b"):
        assert live.client.upload(repository, name, b"x").status == 201
    assert somebody.client.send("POST", path, body=some).status == 404
    assert _listed(live, repository) == ["a", "b"]
    assert somebody.client.send("POST", path, body=all_of_them).json == {"errors": []}
    assert _listed(live, repository) == ["b"]
    may_see = Permission(see.action, see.resource.replace("{repository}", repository))
    somebody.may(may_see, Permission("fs:DeleteObject", f"{may_see.resource}/object/a"))
    assert live.client.upload(repository, "a", b"x").status == 201
    (denied,) = somebody.client.send("POST", path, body=some).json["errors"]
    assert (denied["path"], denied["status_code"]) == ("b", 403)
    assert _listed(live, repository) == ["b"]


def _listed(live: Served, repository: str) -> list[str]:
    reply = live.client.send("GET", f"/repositories/{repository}/refs/main/objects/ls")
    return [each["path"] for each in reply.json["results"]]


@pytest.mark.parametrize(("operation", "one"), CLOSED, ids=[name for name, _ in CLOSED])
def test_the_rights_of_another_repository_are_no_rights(
    live: Served, somebody: Somebody, operation: str, one: Sample
) -> None:
    repository = _repository(one)
    if not repository:
        return
    other, mine = _placed(live, one), _placed(live, one)
    held, _ = needed(somebody, other)
    somebody.may(*held, _see(_repository(other)))
    if {each.resource for each in held} <= {"*"} and held:
        return  # the permission is for no repository
    reply = _send(somebody, mine)
    assert reply.status == 404
    if one.method != "HEAD":
        assert reply.message == "repository not found"


def test_what_may_not_be_seen_is_not_there(live: Served, somebody: Somebody) -> None:
    """Whether it exists or not; and listings leave it out."""
    hidden, shown = live.fresh_repository(), live.fresh_repository()
    somebody.may(_see(shown), Permission("fs:ListRepositories", "*"))
    replies = [somebody.client.send("GET", f"/repositories/{name}") for name in (hidden, "nosuch")]
    assert [reply.status for reply in replies] == [404, 404]
    assert replies[0].body == replies[1].body
    assert somebody.client.send("GET", f"/repositories/{shown}").status == 200
    reply = somebody.client.send("DELETE", f"/repositories/{shown}")
    assert (reply.status, reply.message) == (
        403,
        f"permission missing: fs:DeleteRepository on arn:lakefs:fs:::repository/{shown}",
    )
    listed = somebody.client.send("GET", "/repositories", {"amount": "1000"}).json
    assert [each["id"] for each in listed["results"]] == [shown]
    assert not listed["pagination"]["has_more"]


def test_a_caller_learns_what_it_may_do(live: Served, somebody: Somebody) -> None:
    somebody.may(Permission("fs:Read*", "arn:lakefs:fs:::repository/a/*"))
    pairs = [
        {"action": "fs:ReadObject", "resource": "arn:lakefs:fs:::repository/a/object/x"},
        {"action": "fs:ReadObject", "resource": "arn:lakefs:fs:::repository/b/object/x"},
        {"action": "fs:WriteObject", "resource": "arn:lakefs:fs:::repository/a/object/x"},
    ]
    reply = somebody.client.send("POST", "/auth/may-i", body={"pairs": pairs})
    assert reply.status == 200, reply.body
    rights = reply.json["results"]
    assert [each["allowed"] for each in rights] == [True, False, False]
    assert [(each["action"], each["resource"]) for each in rights] == [
        (pair["action"], pair["resource"]) for pair in pairs
    ]
    begins = ("a/object/", "b/object/", "a", "")
    some = [
        {"action": "fs:ReadObject", "resource": f"arn:lakefs:fs:::repository/{name}", "some": True}
        for name in begins
    ]
    reply = somebody.client.send("POST", "/auth/may-i", body={"pairs": some})
    assert [each["allowed"] for each in reply.json["results"]] == [True, False, True, True]
    for bad in ([], pairs * 17, [{"action": "fs:Fly", "resource": "*"}]):
        assert somebody.client.send("POST", "/auth/may-i", body={"pairs": bad}).status == 400
