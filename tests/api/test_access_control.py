"""Users, groups, policies and keys through lakeFS's generated client, against a real server."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import lakefs_sdk
import lakefs_sdk.client
import pytest
from lakefs_sdk.exceptions import ApiException

from tests.api.serving import ADMINISTRATOR, Served, basic

SDK: Any = lakefs_sdk  # its types say more than it checks
LAKE = "arn:lakefs:fs:::repository/"


def client(live: Served, key: str, secret: str) -> Any:
    configuration = SDK.Configuration(
        host=live.client.url + "/api/v1", username=key, password=secret
    )
    return SDK.client.LakeFSClient(configuration)


@pytest.fixture
def admin(live: Served) -> Iterator[Any]:
    yield client(live, ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)


def allow(resource: str, *action: str, effect: str = "allow", **more: Any) -> Any:
    return SDK.Statement(effect=effect, resource=resource, action=list(action), **more)


def status(call: Any, *arguments: Any, **named: Any) -> int:
    """The status of a call that is refused; 0 if it succeeds."""
    try:
        call(*arguments, **named)
    except ApiException as error:
        return int(error.status)
    return 0


def ids(page: Any) -> list[str]:
    return [each.id for each in page.results]


def test_a_disabled_user_is_refused_as_with_wrong_credentials(
    live: Served, admin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    auth = admin.auth_api
    auth.create_user(SDK.UserCreation(id="d-one"))
    key = auth.create_credentials("d-one")
    pair = (key.access_key_id, key.secret_access_key)
    signed = {"access_key_id": pair[0], "secret_access_key": pair[1]}
    nobody = replace(live.client, authorization="")
    session = nobody.send("POST", "/auth/login", body=signed).json["token"]
    ways = [basic(*pair), f"Bearer {session}"]
    callers = [replace(live.client, authorization=each) for each in ways]

    def answers() -> list[tuple[int, Any]]:
        replies = [each.send("GET", "/user") for each in callers]
        replies.append(nobody.send("POST", "/auth/login", body=signed))
        return [(reply.status, reply.json if reply.status != 200 else "") for reply in replies]

    assert answers() == [(200, "")] * 3
    assert "disabled" not in live.client.send("GET", "/auth/users/d-one").json
    assert live.client.send("POST", "/auth/users/d-one/disable").status == 204
    assert live.client.send("POST", "/auth/users/d-one/disable").status == 204
    assert live.client.send("GET", "/auth/users/d-one").json["disabled"] is True
    wrong = replace(live.client, authorization=basic(pair[0], "w" * 40)).send("GET", "/user")
    assert answers() == [(401, wrong.json)] * 3
    assert "user is disabled, so its credentials are refused: user='d-one'" in caplog.text
    assert auth.get_user("d-one").id == "d-one"  # stock clients read it
    assert live.client.send("POST", "/auth/users/d-one/enable").status == 204
    assert answers() == [(200, "")] * 3
    assert live.client.send("POST", "/auth/users/nobody/disable").status == 404
    assert callers[0].send("POST", "/auth/users/d-one/enable").status == 403


def test_nobody_disables_itself_or_the_last_administrator(live: Served, admin: Any) -> None:
    auth = admin.auth_api
    administrator = live.client.send("GET", "/user").json["user"]["id"]
    refused = live.client.send("POST", f"/auth/users/{administrator}/disable")
    assert refused.status == 409 and "cannot disable itself" in refused.json["message"]
    auth.create_user(SDK.UserCreation(id="d-guard"))
    allowed = [allow("*", "auth:*")]
    auth.create_policy(SDK.Policy(id="d-guard", statement=allowed))
    auth.attach_policy_to_user("d-guard", "d-guard")
    key = auth.create_credentials("d-guard")
    header = basic(key.access_key_id, key.secret_access_key)
    guard = replace(live.client, authorization=header)
    refused = guard.send("POST", f"/auth/users/{administrator}/disable")
    assert refused.status == 409 and "last member of Admins" in refused.json["message"]
    auth.create_user(SDK.UserCreation(id="d-two"))
    auth.add_group_membership("Admins", "d-two")
    assert guard.send("POST", "/auth/users/d-two/disable").status == 204
    assert guard.send("POST", f"/auth/users/{administrator}/disable").status == 409
    assert guard.send("POST", "/auth/users/d-two/enable").status == 204
    assert guard.send("POST", f"/auth/users/{administrator}/disable").status == 204
    assert live.client.send("GET", "/user").status == 401
    assert guard.send("POST", f"/auth/users/{administrator}/enable").status == 204
    assert live.client.send("GET", "/user").status == 200
    auth.delete_user("d-two")


def test_users(live: Served, admin: Any) -> None:
    auth = admin.auth_api
    made = auth.create_user(SDK.UserCreation(id="u-one"))
    assert made.id == "u-one" and auth.get_user("u-one") == made
    assert status(auth.create_user, SDK.UserCreation(id="u-one")) == 409
    assert status(auth.create_user, SDK.UserCreation(id="u:*")) == 400
    invited = live.client.send("POST", "/auth/users", body={"id": "u-x", "invite_user": True})
    assert invited.status == 501
    auth.create_user(SDK.UserCreation(id="u-two"))
    assert ids(auth.list_users(prefix="u-")) == ["u-one", "u-two"]
    page = auth.list_users(prefix="u-", amount=1)
    assert (ids(page), page.pagination.has_more, page.pagination.next_offset) == (
        ["u-one"],
        True,
        "u-one",
    )
    assert ids(auth.list_users(prefix="u-", after="u-one")) == ["u-two"]
    auth.delete_user("u-one")
    assert status(auth.get_user, "u-one") == status(auth.delete_user, "u-one") == 404
    auth.create_user(SDK.UserCreation(id="u-one"))
    assert "Admins" in ids(auth.list_groups()) and auth.get_current_user().user.id


def test_groups_and_their_members(admin: Any) -> None:
    auth = admin.auth_api
    made = auth.create_group(SDK.GroupCreation(id="g-one", description="first"))
    assert (made.id, made.description) == ("g-one", "first") and auth.get_group("g-one") == made
    assert status(auth.create_group, SDK.GroupCreation(id="g-one")) == 409
    for user in ("m-a", "m-b", "m-c"):
        auth.create_user(SDK.UserCreation(id=user))
        auth.add_group_membership("g-one", user)
        auth.add_group_membership("g-one", user)
    assert ids(auth.list_group_members("g-one")) == ["m-a", "m-b", "m-c"]
    assert ids(auth.list_group_members("g-one", after="m-a", amount=1)) == ["m-b"]
    assert ids(auth.list_user_groups("m-a")) == ["g-one"]
    auth.delete_group_membership("g-one", "m-a")
    assert ids(auth.list_group_members("g-one")) == ["m-b", "m-c"]
    assert ids(auth.list_user_groups("m-a")) == []
    auth.delete_user("m-b")
    assert ids(auth.list_group_members("g-one")) == ["m-c"]
    assert status(auth.add_group_membership, "g-one", "nobody") == 404
    assert status(auth.add_group_membership, "nothing", "m-a") == 404
    auth.delete_group("g-one")
    assert ids(auth.list_user_groups("m-c")) == []
    assert status(auth.get_group, "g-one") == status(auth.delete_group, "g-one") == 404
    assert status(auth.list_group_members, "g-one") == 404


def test_policies_and_attachments(live: Served, admin: Any) -> None:
    auth = admin.auth_api
    inside = {"IpAddress": {"SourceIp": ["10.0.0.0/8"]}}
    statement = [allow("*", "fs:Read*"), allow(LAKE + "a", "fs:*", effect="deny", condition=inside)]
    made = auth.create_policy(SDK.Policy(id="p-one", statement=statement))
    assert made.statement == statement and auth.get_policy("p-one") == made
    assert status(auth.create_policy, SDK.Policy(id="p-one", statement=statement)) == 409
    for bad in (allow("*", "fs:Fly"), allow("arn:aws:s3:::b", "fs:*"), allow("*", "x" * 11_000)):
        assert status(auth.create_policy, SDK.Policy(id="p-bad", statement=[bad])) == 400
    many = json.dumps([LAKE + "a", LAKE + "b"])
    changed = auth.update_policy("p-one", SDK.Policy(id="p-one", statement=[allow(many, "fs:*")]))
    assert auth.get_policy("p-one").statement == changed.statement == [allow(many, "fs:*")]
    assert status(auth.update_policy, "p-none", SDK.Policy(id="p-none", statement=statement)) == 404
    assert status(auth.update_policy, "p-one", SDK.Policy(id="other", statement=statement)) == 400
    sent = {"effect": "allow", "action": ["fs:*"], "resource": "*"}
    for bad, rule in (
        ({"Condition": inside}, 'property "Condition" is unknown'),
        ({"condition": {"StringLike": {}}}, "StringLike must have at least one member"),
        ({"condition": {"IpAddress": {}}}, "IpAddress must have at least one member"),
    ):
        body = {"id": "p-bad", "statement": [{**sent, **bad}]}
        refused = live.client.send("POST", "/auth/policies", body=body)
        assert refused.status == 400 and rule in refused.message
    auth.create_policy(SDK.Policy(id="p-two", statement=statement))
    assert ids(auth.list_policies(prefix="p-")) == ["p-one", "p-two"]
    auth.create_user(SDK.UserCreation(id="p-user"))
    auth.create_group(SDK.GroupCreation(id="p-group"))
    auth.add_group_membership("p-group", "p-user")
    auth.attach_policy_to_user("p-user", "p-one")
    auth.attach_policy_to_group("p-group", "p-two")
    assert ids(auth.list_user_policies("p-user")) == ["p-one"]
    assert ids(auth.list_user_policies("p-user", effective=True)) == ["p-one", "p-two"]
    assert ids(auth.list_group_policies("p-group")) == ["p-two"]
    auth.detach_policy_from_group("p-group", "p-two")
    auth.detach_policy_from_user("p-user", "p-one")
    assert ids(auth.list_user_policies("p-user", effective=True)) == []
    auth.attach_policy_to_group("p-group", "p-two")
    auth.delete_policy("p-two")
    assert ids(auth.list_group_policies("p-group")) == []
    assert status(auth.get_policy, "p-two") == status(auth.delete_policy, "p-two") == 404
    assert status(auth.attach_policy_to_user, "p-user", "p-two") == 404
    assert status(auth.attach_policy_to_group, "nothing", "p-one") == 404


def test_a_viewer_manages_its_own_keys_and_nobody_elses(live: Served, admin: Any) -> None:
    auth = admin.auth_api
    for user in ("k-ann", "k-bob"):
        auth.create_user(SDK.UserCreation(id=user))
        auth.add_group_membership("Viewers", user)
    first = auth.create_credentials("k-ann")
    ann = client(live, first.access_key_id, first.secret_access_key).auth_api
    assert ann.get_current_user().user.id == "k-ann"
    second = ann.create_credentials("k-ann")
    keys = {each.access_key_id for each in ann.list_user_credentials("k-ann").results}
    assert keys == {first.access_key_id, second.access_key_id}
    assert ann.get_credentials("k-ann", first.access_key_id).creation_date == first.creation_date
    own = "/auth/users/k-ann/credentials"
    third = live.client.send("POST", own, {"name": "laptop"})
    assert third.status == 201 and third.json["name"] == "laptop"
    names = {each.get("name") for each in live.client.send("GET", own).json["results"]}
    assert names == {"laptop", None}
    assert len(ann.list_user_credentials("k-ann").results) == 3  # the client passes over names
    assert live.client.send("POST", own, {"name": "n" * 101}).status == 400
    assert status(ann.create_credentials, "k-bob") == 403
    assert status(ann.list_user_credentials, "k-bob") == 403
    assert status(ann.get_user, "k-ann") == 403
    access = live.service.auth.access
    access.forget()
    bob = access.view("k-bob")
    assert status(ann.delete_credentials, "k-ann", "none") == 404
    assert access.view("k-bob") is bob  # a change of the own keys concerns nobody else
    again = client(live, second.access_key_id, second.secret_access_key).auth_api
    again.delete_credentials("k-ann", first.access_key_id)
    assert status(ann.get_current_user) == 401
    assert status(again.get_credentials, "k-ann", first.access_key_id) == 404
    assert status(again.delete_credentials, "k-ann", first.access_key_id) == 404
    auth.delete_user("k-ann")
    assert status(again.get_current_user) == 401
    auth.create_user(SDK.UserCreation(id="k-ann"))
    assert status(again.get_current_user) == 401


def test_external_principals(live: Served, admin: Any) -> None:
    auth, external = admin.auth_api, admin.external_api
    for user in ("e-ann", "e-bob"):
        auth.create_user(SDK.UserCreation(id=user))
    roles = [f"arn:aws:sts::123456789012:assumed-role/r{number}" for number in range(3)]
    noted = SDK.ExternalPrincipalCreation(settings=[{"a": "b"}])
    external.create_user_external_principal("e-ann", roles[0], noted)
    for role in roles[1:]:
        external.create_user_external_principal("e-ann", role)
    for user in ("e-ann", "e-bob"):
        assert status(external.create_user_external_principal, user, roles[0]) == 409
    assert status(external.create_user_external_principal, "e-none", "x") == 404
    assert status(external.create_user_external_principal, "e-ann", "a b") == 400
    made = external.get_external_principal(roles[0])
    assert (made.id, made.user_id, made.settings) == (roles[0], "e-ann", [{"a": "b"}])
    assert ids(external.list_user_external_principals("e-ann")) == roles
    page = external.list_user_external_principals("e-ann", after=roles[0], amount=1)
    assert (ids(page), page.pagination.has_more) == ([roles[1]], True)
    assert page.pagination.next_offset == roles[1]
    assert ids(external.list_user_external_principals("e-bob")) == []
    assert status(external.list_user_external_principals, "e-none") == 404
    external.delete_user_external_principal("e-ann", roles[0])
    assert status(external.delete_user_external_principal, "e-ann", roles[0]) == 404
    assert status(external.get_external_principal, roles[0]) == 404
    auth.delete_user("e-ann")
    assert status(external.get_external_principal, roles[1]) == 404
    auth.create_user(SDK.UserCreation(id="e-ann"))
    assert ids(external.list_user_external_principals("e-ann")) == []


def test_a_group_and_a_policy_decide_who_writes_where(live: Served, admin: Any) -> None:
    """A team: developers may write, but nobody of them to one folder."""
    name = live.fresh_repository()
    auth = admin.auth_api
    auth.create_user(SDK.UserCreation(id="t-dev"))
    auth.add_group_membership("Developers", "t-dev")
    auth.create_policy(
        SDK.Policy(
            id="t-closed",
            statement=[allow(f"{LAKE}{name}/object/closed/*", "fs:WriteObject",
                             "fs:DeleteObject", effect="deny")],
        )
    )  # fmt: skip
    auth.attach_policy_to_group("Developers", "t-closed")
    key = auth.create_credentials("t-dev")
    dev = replace(live.client, authorization=basic(key.access_key_id, key.secret_access_key))
    assert dev.upload(name, "open/a", b"x").status == 201
    assert dev.upload(name, "closed/a", b"x").status == 403
    assert live.client.upload(name, "closed/a", b"x").status == 201
    where = f"/repositories/{name}/branches/main/objects/delete"
    reply = dev.send("POST", where, body={"paths": ["open/a", "closed/a"]})
    assert reply.status == 200
    assert [(each["path"], each["status_code"]) for each in reply.json["errors"]] == [
        ("closed/a", 403)
    ]
    seen = {"path": "closed/a"}
    at = f"/repositories/{name}/refs/main/objects"
    assert dev.send("GET", at, seen).status == 200
    assert dev.send("GET", at, {"path": "open/a"}).status == 404
    repositories = client(live, key.access_key_id, key.secret_access_key).repositories_api
    new = SDK.RepositoryCreation(name="t-new", storage_namespace="local://t-new/x")
    assert status(repositories.create_repository, new) == 403


def test_the_state_of_the_set_up_shows_the_screens_of_access_control(live: Served) -> None:
    state = live.client.send("GET", "/setup_lakefs").json
    assert state["login_config"]["RBAC"] == "internal"
