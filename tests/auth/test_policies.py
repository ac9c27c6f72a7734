"""Policies: what is accepted, and what they decide, beside a second evaluator."""

import json
import random
import time
from typing import Any

import pytest

from graveler.auth import permissions, policies
from graveler.auth.permissions import ACTIONS, Permission, named
from graveler.auth.policies import GROUPS, POLICIES, Rights
from graveler.core import limits
from graveler.core.errors import Invalid
from tests import draws
from tests.auth import naive

REPO = "arn:lakefs:fs:::repository/lake"


def statement(
    effect: str = "allow", action: Any = "fs:ReadObject", resource: Any = "*", **more: Any
) -> dict[str, Any]:
    names = [action] if isinstance(action, str) else action
    return {"effect": effect, "action": names, "resource": resource, **more}


def held(*statements: dict[str, Any], user: str = "ann") -> Rights:
    return policies.rights(user, {"p": list(statements)})


def may(
    rights: Rights,
    resource: str,
    action: str = "fs:ReadObject",
    address: str = "",
    below: bool = False,
) -> bool:
    return rights.allow(Permission(action, resource, below), address)


def test_nothing_is_allowed_by_default() -> None:
    assert not may(Rights(), "*")
    assert not may(held(statement(action="fs:WriteObject")), REPO)


def test_a_matching_deny_wins_wherever_it_stands() -> None:
    deny = statement("deny", resource=REPO + "/object/secret/*")
    for rights in (held(statement(), deny), held(deny, statement())):
        assert may(rights, REPO + "/object/open/a")
        assert not may(rights, REPO + "/object/secret/a")
    both = policies.rights("ann", {"a": [statement()], "b": [deny]})
    assert not may(both, REPO + "/object/secret/a")


OBJECT = REPO + "/object/"


@pytest.mark.parametrize(
    ("pattern", "head", "denied"),
    [
        ("secret/*", "", True),
        ("secret/*", "sec", True),
        ("secret/*", "secret/a/", True),
        ("secret/*", "open/", False),
        ("secret", "secret/", False),
        ("*/secret", "open/", True),
        ("?ecret/a", "s", True),
        ("?ecret/a", "secret/b", False),
    ],
)
def test_a_deny_of_a_part_denies_the_whole(pattern: str, head: str, denied: bool) -> None:
    rights = held(statement(), statement("deny", resource=OBJECT + pattern))
    assert may(rights, OBJECT + head, below=True) is not denied
    assert rights.deny(Permission("fs:ReadObject", OBJECT + head, below=True), "") is denied


@pytest.mark.parametrize(
    ("pattern", "head", "allowed"),
    [
        ("lake/*", "lake/", True),
        ("lake/*", "lake/a", True),
        ("lake/*", "lake", False),
        ("lake/?", "lake/", False),
        ("lake/", "lake/", False),
        ("l*e/*", "lake/a/", True),
        ("*", "", True),
        ("*a", "a", False),
    ],
)
def test_only_what_is_allowed_as_a_whole_is_allowed(pattern: str, head: str, allowed: bool) -> None:
    rights = held(statement(resource=OBJECT + pattern))
    assert may(rights, OBJECT + head, below=True) is allowed
    assert not rights.deny(Permission("fs:ReadObject", OBJECT + head, below=True), "")


def test_a_policy_that_cannot_be_read_denies_everything() -> None:
    for bad in ([{"effect": "allow"}], "text", [statement(resource=7)], [statement(action=[])],
                [statement(notResource=REPO)]):  # fmt: skip
        rights = policies.rights("ann", {"good": [statement()], "bad": bad})
        assert rights.unreadable == ("bad",)
        assert not may(rights, REPO)
        assert rights.deny(Permission("fs:ReadObject", REPO), "")


def test_an_action_that_a_later_release_added_concerns_no_action_of_this_one() -> None:
    rights = held(statement(action=["fs:FlyAway", "fs:ReadObject"]))
    assert may(rights, REPO) and not may(rights, REPO, "fs:WriteObject")


def test_the_fields_of_a_name_before_the_resource_are_compared_exactly() -> None:
    rights = held(statement(resource="arn:lakefs:fs:::repository/*"))
    assert may(rights, "arn:lakefs:fs:::repository/lake")
    for name in (
        "arn:lakefs:auth:::repository/lake",
        "arn:aws:fs:::repository/lake",
        "arn:lakefs:fs:eu::repository/lake",
        "arn:lakefs:fs::1:repository/lake",
        "arn:lakefs:fs::repository/lake",
        "repository/lake",
        "*",
    ):
        assert not may(rights, name), name


def test_colons_in_a_path_belong_to_the_path() -> None:
    rights = held(statement(resource=REPO + "/object/a:b:::c/*"))
    assert may(rights, REPO + "/object/a:b:::c/d:e")
    assert not may(rights, REPO + "/object/a:b::c/d")


def test_only_the_star_has_the_resource_of_no_single_thing() -> None:
    assert may(held(statement(action="fs:ListRepositories")), "*", "fs:ListRepositories")
    narrow = held(statement(action="fs:ListRepositories", resource="arn:lakefs:fs:::*"))
    assert not may(narrow, "*", "fs:ListRepositories")


def test_the_user_is_inserted_as_it_is() -> None:
    own = statement(resource=REPO + "/object/${user}/*")
    assert may(held(own, user="a.b+c@d"), REPO + "/object/a.b+c@d/x")
    assert not may(held(own, user="a.b"), REPO + "/object/aXb/x")
    assert not may(held(own, user="ann"), REPO + "/object/${user}/x")


def test_a_stored_list_of_resources_may_be_longer_than_a_new_one() -> None:
    listed = [f"{REPO}/object/{number}" for number in range(101)]
    assert may(held(statement(resource=json.dumps(listed))), listed[-1])


def test_the_weight_of_rights_counts_their_patterns_and_their_searches() -> None:
    assert held(statement()).weight == 1
    assert held(statement(resource=REPO + "/object/a?c*")).weight == 1
    slow = json.dumps([REPO + "/*a?b*c?d*"] * 10)
    assert held(statement(resource=slow), statement()).weight == 10 * 601 + 1


def test_a_decision_takes_no_time_whatever_the_policy_and_the_path() -> None:
    """A policy as long as one may be, all of it searches that find nothing."""
    patterns = [f"arn:lakefs:fs:::*{chr(97 + n % 26)}?{chr(97 + n // 26)}Z*" for n in range(350)]
    lists = (json.dumps(patterns[start : start + 90]) for start in range(0, 350, 90))
    document = [statement(resource=each) for each in lists]
    policies.check(document)
    rights = held(*document)
    name = "arn:lakefs:fs:::" + "abcdefghijklmnopqrstuvwxyz" * 300
    begun = time.process_time()
    for number in range(20):
        assert not may(rights, f"{name}{number}")
    assert time.process_time() - begun < 5


def test_nobody_has_rights_on_a_name_that_is_too_long() -> None:
    rights = held(statement(resource=f"{REPO}/*"))
    name = REPO + "/" + "x" * (limits.resource_length_max - len(REPO) - 1)
    assert may(rights, name) and not may(rights, name + "x")
    assert not rights.deny(Permission("fs:ReadObject", name), "")
    assert rights.deny(Permission("fs:ReadObject", name + "x"), "")


def test_several_resources_are_a_list_as_text() -> None:
    rights = held(statement(resource=json.dumps([REPO + "/object/a", REPO + "/object/b"])))
    assert [may(rights, f"{REPO}/object/{name}") for name in "abc"] == [True, True, False]


INSIDE = {"IpAddress": {"SourceIp": ["10.0.0.0/8", "192.0.2.7"]}}
OUTSIDE = {"NotIpAddress": {"SourceIp": ["10.0.0.0/8"]}}
EITHER = {"Or": {"IpAddress:SourceIp": ["2001:db8::/32"], "NotIpAddress:SourceIp": ["10.0.0.0/8"]}}


@pytest.mark.parametrize(
    ("condition", "address", "applies"),
    [
        (INSIDE, "10.1.2.3", True),
        (INSIDE, "::ffff:10.1.2.3", True),
        (INSIDE, "192.0.2.7", True),
        (INSIDE, "192.0.2.8", False),
        (OUTSIDE, "10.1.2.3", False),
        (OUTSIDE, "11.1.2.3", True),
        (EITHER, "2001:db8::1", True),
        (EITHER, "10.1.2.3", False),
        ({**INSIDE, **OUTSIDE}, "192.0.2.7", True),
        ({**INSIDE, **OUTSIDE}, "10.0.0.1", False),
    ],
)
def test_a_condition_decides_whether_a_statement_applies(
    condition: dict[str, Any], address: str, applies: bool
) -> None:
    allow = held(statement(condition=condition))
    assert may(allow, REPO, address=address) is applies
    deny = held(statement(), statement("deny", condition=condition))
    assert may(deny, REPO, address=address) is not applies


UNKNOWN = [{"Later": {"Moon": ["full"]}}, {"Later": {}}, {"IpAddress": {}}]


@pytest.mark.parametrize("condition", [INSIDE, OUTSIDE, EITHER, *UNKNOWN])
def test_a_condition_that_cannot_be_evaluated_never_lets_anybody_in(
    condition: dict[str, Any],
) -> None:
    for address in ("", "no address"):
        assert not may(held(statement(condition=condition)), REPO, address=address)
        deny = held(statement(), statement("deny", condition=condition))
        assert not may(deny, REPO, address=address)


@pytest.mark.parametrize("condition", UNKNOWN)
def test_an_unknown_condition_never_lets_anybody_in_from_anywhere(
    condition: dict[str, Any],
) -> None:
    assert not may(held(statement(condition=condition)), REPO, address="10.0.0.1")
    deny = held(statement(), statement("deny", condition=condition))
    assert not may(deny, REPO, address="10.0.0.1")


def test_what_decides_alone_is_enough() -> None:
    """A part that cannot be evaluated changes nothing where the others decide."""
    unknown = {"Later": {"Moon": ["full"]}}
    assert may(held(statement(), statement("deny", condition={**unknown, **INSIDE})), REPO,
               address="11.0.0.1")  # fmt: skip
    either = {"Or": {"Later:Moon": ["full"], "IpAddress:SourceIp": ["10.0.0.0/8"]}}
    assert may(held(statement(condition=either)), REPO, address="10.0.0.1")


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        ([], "1 to 100 statements"),
        ([statement()] * 101, "1 to 100 statements"),
        ([statement(resource=REPO + "/object/" + "a" * 10_240)], "at most 10240 bytes"),
        (["text"], "it must have effect, action, resource"),
        ([{"effect": "allow", "action": ["fs:*"]}], "it must have effect, action, resource"),
        ([statement("perhaps")], "allow or deny"),
        ([statement(action=[])], "a list of actions"),
        ([statement(action=["fs:Fly"])], "no such action: action='fs:Fly'"),
        ([statement(action=["fly*"])], "no such action"),
        ([statement(action=["fs:*Object"])], "no such action"),
        ([statement(action=[7])], "no such action"),
        ([statement(resource="")], "it must be \\* or arn:lakefs:"),
        ([statement(resource="arn:lakefs:fs:::")], "it must be \\* or arn:lakefs:"),
        ([statement(resource="arn:aws:s3:::bucket")], "it must be \\* or arn:lakefs:"),
        ([statement(resource="arn:lakefs:*:::repository/a")], "only its last part"),
        ([statement(resource="arn:lakefs:fs:${user}::a")], "only its last part"),
        ([statement(resource="[]")], "at least one"),
        ([statement(resource="[7]")], "at least one"),
        ([statement(resource="[")], "JSON list"),
        ([statement(resource=json.dumps(["*"] * 101))], "at most 100 resources"),
        ([statement(resource="[" * 5_000)], "JSON list"),
        ([statement(condition=7)], "operator: {field"),
        ([statement(condition={"IpAddress": ["10.0.0.0/8"]})], "operator: {field"),
        ([statement(condition={"Or": {}})], "at least one member"),
        ([statement(condition={"IpAddress": {}})], "at least one member"),
        ([statement(condition={"StringLike": {}})], "at least one member"),
        ([statement(notResource="x")], "no such field: 'notResource'"),
        ([statement(condition={"IpAddress": {"SourceIp": []}})], "list of addresses"),
        ([statement(condition={"IpAddress": {"SourceIp": ["x"]}})], "not an address"),
        ([statement(condition={"IpAddress": {"SourceIp": [7]}})], "must be a text"),
        ([statement(condition={"IpAddress": {"Other": ["10.0.0.1"]}})], "of SourceIp"),
        ([statement(condition={"Equals": {"SourceIp": ["10.0.0.1"]}})], "of SourceIp"),
        ([statement(condition={"Or": {"Equals:SourceIp": ["10.0.0.1"]}})], "of SourceIp"),
    ],
)
def test_what_may_not_be_stored_is_refused(document: list[Any], rule: str) -> None:
    with pytest.raises(Invalid, match=rule):
        policies.check(document)


def test_the_missing_permissions_are_named_in_order() -> None:
    rights = held(statement())
    read, write = Permission("fs:ReadObject", REPO), Permission("fs:WriteObject", REPO)
    delete = Permission("fs:DeleteObject", REPO)
    assert policies.missing(rights, (read, write, delete), "") == (write, delete)
    assert policies.missing(rights, (read,), "") == ()


def test_the_builtin_policies_are_valid_and_their_groups_have_only_these() -> None:
    for document in POLICIES.values():
        policies.check(document)
    assert {policy for group in GROUPS.values() for policy in group} == set(POLICIES)
    for action in ACTIONS:
        documents = {policy: POLICIES[policy] for policy in GROUPS["Admins"]}
        assert policies.rights("ann", documents).allow(Permission(action, REPO), ""), action


def test_a_viewer_reads_and_a_developer_commits() -> None:
    viewer, developer = (
        policies.rights("ann", {each: POLICIES[each] for each in GROUPS[group]})
        for group in ("Viewers", "Developers")
    )
    assert may(viewer, REPO + "/object/a") and not may(viewer, REPO, "fs:CreateCommit")
    assert may(developer, REPO, "fs:CreateCommit")
    assert not may(developer, REPO, "fs:DeleteRepository")
    own = permissions.resource("auth", "user/ann")
    assert may(viewer, own, "auth:CreateCredentials")
    assert not may(viewer, permissions.resource("auth", "user/bob"), "auth:CreateCredentials")


def test_what_is_allowed_everywhere_is_denied_nowhere() -> None:
    reads = ["fs:ReadObject", "fs:ReadBranch"]
    assert held(statement(action=reads)).everywhere == {*reads}
    assert held(statement(action=reads), statement("deny", resource=OBJECT)).everywhere == {
        "fs:ReadBranch"
    }
    assert held(statement(action="*")).everywhere == ACTIONS
    for nowhere in (
        held(statement(resource="arn:lakefs:fs:::*")),
        held(statement(condition=INSIDE)),
        held(statement("deny")),
        held(statement(), statement("deny", condition=INSIDE)),
        policies.rights("ann", {"p": [statement()], "unreadable": ["x"]}),
    ):
        assert nowhere.everywhere == frozenset()


def test_random_policies_decide_as_the_rules_read() -> None:
    seed = draws.seed()
    check_random(random.Random(seed), 10_000 if draws.ALL else 3_000)


def check_random(chance: random.Random, count: int) -> None:
    """Compare the two evaluators on random policies and requests."""
    allowed = 0
    for _ in range(count):
        documents = [[_random(chance) for _ in range(chance.randint(1, 4))]
                     for _ in range(chance.randint(1, 3))]  # fmt: skip
        user = chance.choice(("ann", "bob", "a.b"))
        rights = policies.rights(user, {str(n): each for n, each in enumerate(documents)})
        for _ in range(3):
            action = chance.choice(_NAMES)
            resource = _resource(chance, "ab/.", "")
            address = chance.choice(("", "10.0.0.1", "11.0.0.1", "2001:db8::1"))
            below = chance.random() < 0.3
            decided = may(rights, resource, action, address, below)
            allowed += decided
            wanted = naive.allows(documents, user, action, resource, address, below)
            assert decided is wanted, (documents, user, action, resource, address, below)
    assert allowed > count // 50  # the comparison is about something


_NAMES = ("fs:ReadObject", "fs:WriteObject", "fs:ListObjects", "auth:ReadUser")
_PATTERNS = (*_NAMES, "fs:*", "fs:Read*", "*", "auth:*")


def _random(chance: random.Random) -> dict[str, Any]:
    resources = [_resource(chance, "ab/*?.", "*") for _ in range(chance.randint(1, 3))]
    resource = resources[0] if len(resources) == 1 else json.dumps(resources)
    names = chance.choices(_PATTERNS, k=chance.randint(1, 3))
    built = statement(chance.choice(("allow", "allow", "deny")), names, resource)
    if chance.random() < 0.3:
        built["condition"] = chance.choice(
            (
                INSIDE,
                OUTSIDE,
                EITHER,
                {**INSIDE, **OUTSIDE},
                {},
                {"IpAddress": {}},
                {"Later": {}, **INSIDE},
            )
        )
    return built


def _resource(chance: random.Random, letters: str, star: str) -> str:
    if star and chance.random() < 0.2:
        return star
    service = chance.choice(("fs", "fs", "auth"))
    account = chance.choice(("", "", "", "1"))
    path = "".join(chance.choices(letters, k=chance.randint(1, 6)))
    if star and chance.random() < 0.2:
        path += "${user}*"
    elif chance.random() < 0.2:
        path += chance.choice(("ann", "bob", "a.b:c"))
    return f"arn:lakefs:{service}::{account}:{path}"


def test_every_action_has_a_service_and_a_name() -> None:
    assert all(action.partition(":")[1] for action in ACTIONS)
    assert named("*") == ACTIONS and not named("") and not named("fs:")
    assert named("fs:Read*") < named("fs:*") < ACTIONS
    assert limits.policy_statements_count_max == 100
