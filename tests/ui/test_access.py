"""Users, groups, policies, keys, effective rights, the audit trail."""

import json
import re

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from graveler.auth.permissions import ACTIONS
from tests.api.serving import Client, Served, basic
from tests.ui.scene import Scene, good, lake, person, scene

HOSTILE = "<img src=x onerror=alert(1)>"
OBJECTS = "arn:lakefs:fs:::repository/lake/object/"
# Deny, allow, wildcards, a list of resources, `${user}`, everything below a name.
STATEMENTS = [
    {"effect": "allow", "action": ["fs:Read*", "fs:ListObjects"], "resource": OBJECTS + "*"},
    {"effect": "allow", "action": ["fs:WriteObject"], "resource": OBJECTS + "${user}/?.csv"},
    {"effect": "deny", "action": ["fs:*"], "resource": OBJECTS + "secret/*"},
    {
        "effect": "allow",
        "action": ["fs:DeleteObject"],
        "resource": json.dumps([OBJECTS + "tmp/*", OBJECTS + "old/*/x"]),
    },
]
QUESTIONS = [
    ("fs:ReadObject", OBJECTS + "a/b"),
    ("fs:ReadObject", OBJECTS + "secret/b"),
    ("fs:ReadObject", "arn:lakefs:fs:::repository/other/object/a"),
    ("fs:ReadObject", "*"),
    ("fs:WriteObject", OBJECTS + "judged/1.csv"),
    ("fs:WriteObject", OBJECTS + "judged/12.csv"),
    ("fs:WriteObject", OBJECTS + "other/1.csv"),
    ("fs:DeleteObject", OBJECTS + "tmp/a"),
    ("fs:DeleteObject", OBJECTS + "old/1/2/x"),
    ("fs:DeleteObject", OBJECTS + "old/x"),
    ("fs:CreateBranch", "arn:lakefs:fs:::repository/lake/branch/x"),
]


def test_a_user_is_made_gets_rights_and_goes(shown: Scene, live: Served) -> None:
    client = live.client
    page = shown.open("/auth/users")
    page.get_by_role("button", name="New user").click()
    page.get_by_label("User id").fill("ada")
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    page.get_by_role("button", name="Create the user").click()
    expect(page.get_by_role("heading", name="ada", exact=True)).to_be_visible()
    page.get_by_role("button", name="Add to a group").click()
    page.get_by_role("button", name="Viewers").click()
    expect(page.get_by_role("link", name="Viewers")).to_be_visible()
    page.get_by_role("button", name="Attach a policy").click()
    page.get_by_label("Prefix of the name").fill("FSReadW")
    page.get_by_role("button", name="FSReadWriteAll").click()
    expect(page.get_by_role("link", name="FSReadWriteAll")).to_be_visible()
    groups = good(client.send("GET", "/auth/users/ada/groups"))["results"]
    assert [group["id"] for group in groups] == ["Viewers"]
    page.get_by_role("button", name="Remove Viewers").click()
    expect(page.get_by_text("In no group.")).to_be_visible()
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_text("are refused. They are kept.")).to_be_visible()
    assert good(client.send("GET", "/auth/users/ada"))["disabled"] is True
    page.get_by_role("button", name="Enable").click()
    expect(page.get_by_role("button", name="Disable")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_label("Type ada to confirm").fill("ada")
    page.get_by_role("button", name="Delete the user").click()
    expect(page.get_by_text("User ada is deleted.")).to_be_visible()
    assert client.send("GET", "/auth/users/ada").status == 404


def test_nobody_locks_itself_out(shown: Scene) -> None:
    page = shown.open("/auth/users/administrator")
    for name in ("Disable", "Delete"):
        button = page.get_by_role("button", name=name, exact=False).first
        expect(button).to_have_attribute("title", "you cannot do this to yourself")


def test_a_secret_is_shown_once_and_kept_nowhere(shown: Scene, live: Served) -> None:
    page = shown.open("/auth/credentials")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create the key").click()
    shows = page.get_by_role("dialog").locator(".command code")
    expect(shows).to_have_count(2)
    id, secret = shows.all_text_contents()
    logged_in = Client(live.client.host, live.client.port, basic(id, secret))
    assert good(logged_in.send("GET", "/user"))["user"]["id"] == "administrator"
    page.get_by_role("button", name="I have kept it").click()
    everything = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, history.state, location.href])"
        " + document.documentElement.outerHTML"
    )
    assert secret not in everything
    page.get_by_role("button", name=f"Delete {id}").click()
    page.get_by_role("button", name="Delete the key").click()
    expect(page.get_by_text(id)).to_have_count(0)
    assert logged_in.send("GET", "/user").status == 401


def test_a_group_gives_its_members_policies(shown: Scene, live: Served) -> None:
    page = shown.open("/auth/groups")
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name", exact=True).fill("Analysts")
    page.get_by_label("Description").fill(HOSTILE)
    page.get_by_role("button", name="Create the group").click()
    page.get_by_role("button", name="Add a member").click()
    page.get_by_role("button", name="administrator").click()
    expect(page.get_by_role("link", name="administrator")).to_be_visible()
    page.get_by_role("button", name="Attach a policy").click()
    page.get_by_role("button", name="FSReadAll").click()
    expect(page.get_by_role("link", name="FSReadAll")).to_be_visible()
    held = good(live.client.send("GET", "/auth/groups/Analysts/policies"))["results"]
    assert [policy["id"] for policy in held] == ["FSReadAll"]
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete the group").click()
    expect(page.get_by_text("Group Analysts is deleted.")).to_be_visible()
    assert live.client.send("GET", "/auth/groups/Analysts").status == 404


def test_a_policy_with_a_mistake_cannot_be_sent(shown: Scene, live: Served) -> None:
    page = shown.open("/auth/policies")
    page.get_by_role("button", name="New policy").click()
    create = page.get_by_role("button", name="Create the policy")
    page.get_by_label("Name", exact=True).fill("ReadLake")
    for text, mistake in (
        ("[", "No JSON"),
        ("[]", "a list of statements"),
        ('[{"effect": "may"}]', "Statement 1: effect must be"),
        ('[{"effect": "allow", "action": ["fs:*"], "resource": "lake"}]', "arn:lakefs:"),
        ('[{"effect": "allow", "action": ["fs:*"], "resource": "*", "if": 1}]', "no field if"),
    ):
        page.get_by_label("Statements").fill(text)
        expect(page.get_by_role("status").filter(has_text=mistake)).to_be_visible()
        expect(create).to_have_attribute("aria-disabled", "true")
    page.get_by_label("Statements").fill(
        '[{"effect": "allow", "action": ["fs:NoSuchAction"], "resource": "*"}]'
    )
    create.click()
    expect(page.get_by_role("alert")).to_contain_text("NoSuchAction")
    page.get_by_label("Statements").fill(json.dumps(STATEMENTS))
    create.click()
    expect(page.get_by_role("heading", name="ReadLake")).to_be_visible()
    assert good(live.client.send("GET", "/auth/policies/ReadLake"))["statement"] == STATEMENTS
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Statements").fill(json.dumps(STATEMENTS[:1]))
    page.get_by_role("button", name="Save the policy").click()
    expect(page.locator(".statement")).to_have_count(1)
    assert len(good(live.client.send("GET", "/auth/policies/ReadLake"))["statement"]) == 1


def test_the_page_decides_as_the_service_does(shown: Scene, live: Served) -> None:
    client = live.client
    key = person(client, "judged")
    good(client.send("POST", "/auth/policies", body={"id": "Judged", "statement": STATEMENTS}))
    good(client.send("PUT", "/auth/users/judged/policies/Judged"))
    judged = Client(client.host, client.port, basic(key.access_key_id, key.secret_access_key))
    pairs = [{"action": action, "resource": name} for action, name in QUESTIONS]
    rights = good(judged.send("POST", "/auth/may-i", body={"pairs": pairs}))["results"]
    assert {right["allowed"] for right in rights} == {True, False}
    for right in rights:
        page = shown.open(
            "/auth/users/judged/policies/effective",
            action=right["action"],
            resource=right["resource"],
        )
        title = "Allowed" if right["allowed"] else "Denied"
        decision = page.get_by_role("region", name="Decision")
        expect(decision.get_by_role("heading")).to_have_text(title)


def test_the_statement_that_decides_is_named(shown: Scene, live: Served) -> None:
    client = live.client
    person(client, "asked", "Developers")
    deny = [{"effect": "deny", "action": ["fs:Write*"], "resource": OBJECTS + "secret/*"}]
    allow = [
        {
            "effect": "allow",
            "action": ["auth:ReadAudit"],
            "resource": "*",
            "condition": {"IpAddress": {"SourceIp": ["10.0.0.0/8"]}},
        }
    ]
    good(client.send("POST", "/auth/policies", body={"id": "Asked", "statement": deny + allow}))
    good(client.send("PUT", "/auth/users/asked/policies/Asked"))
    page = shown.open("/auth/users/asked/policies/effective")
    page.get_by_label("Action").fill("fs:WriteObject")
    page.get_by_label("Resource").fill("lakefs://lake/main/secret/x")
    page.get_by_role("button", name="Why?").click()
    decision = page.get_by_role("region", name="Decision")
    expect(decision).to_contain_text("Statement 1 of Asked, attached to the user")
    page.get_by_label("Resource").fill("lakefs://lake/main/open/x")
    page.get_by_role("button", name="Why?").click()
    expect(decision).to_contain_text("of FSReadWriteAll, by Developers")
    page.get_by_label("Action").fill("auth:ReadAudit")
    page.get_by_label("Resource").fill("*")
    page.get_by_role("button", name="Why?").click()
    expect(decision).to_contain_text("depends on the address")


def test_a_denial_leads_from_the_trail_to_its_statement(shown: Scene, live: Served) -> None:
    client = live.client
    key = person(client, "refused", "Viewers")
    repo = live.fresh_repository()
    assert (
        Client(client.host, client.port, basic(key.access_key_id, key.secret_access_key))
        .upload(repo, "x", b"x")
        .status
        == 403
    )
    page = shown.open("/auth/audit")
    page.get_by_label("User", exact=True).fill("refused")
    page.get_by_role("button", name="Find").click()
    row = page.get_by_role("row", name="uploadObject")
    expect(row).to_contain_text("denied 403")
    page.get_by_label("Outcome").select_option("done")
    expect(page.get_by_role("heading", name="No line")).to_be_visible()
    page.get_by_label("Outcome").select_option("denied")
    row.get_by_role("link", name="Why denied?").click()
    decision = page.get_by_role("region", name="Decision")
    expect(decision).to_contain_text("Denied")
    assert "fs%3AWriteObject" in page.url


def test_a_viewer_sees_its_keys_and_no_button_that_is_refused(
    browser: Browser, live: Served
) -> None:
    key = person(live.client, "viewer", "Viewers")
    with scene(browser, live, key=key) as shown:
        page = shown.open("/auth/credentials")
        expect(page.get_by_text(key.access_key_id)).to_be_visible()
        expect(page.get_by_role("button", name="New key")).not_to_have_attribute(
            "aria-disabled", "true"
        )
        page.get_by_label("Action").fill("auth:CreateUser")
        page.get_by_label("Resource").fill("*")
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_role("status").filter(has_text="Denied")).to_be_visible()
        for place, name in (("users", "New user"), ("groups", "New group"), ("audit", "")):
            page = shown.open(f"/auth/{place}")
            expect(page.get_by_role("alert")).to_contain_text("permission missing")
            if name:
                button = page.get_by_role("button", name=name)
                expect(button).to_have_attribute("aria-disabled", "true")


def test_a_press_while_rights_are_looked_up_is_not_lost(shown: Scene, repo: str) -> None:
    held: list[Route] = []
    shown.page.route("**/auth/may-i", lambda route: held.append(route))
    shown.page.goto(f"{shown.client.url}/repositories/{repo}/branches")
    button = shown.page.get_by_role("button", name="New branch (the service is being asked)")
    button.click(force=True)  # as a hand does it, that does not wait
    expect(shown.page.get_by_role("dialog")).to_have_count(0)
    for route in held:
        route.continue_()
    expect(shown.page.get_by_role("dialog", name="New branch")).to_be_visible()


def test_a_branch_waits_for_the_name_of_its_source(shown: Scene, repo: str) -> None:
    held: list[Route] = []
    page = shown.page
    page.route(f"**/api/v1/repositories/{repo}", lambda route: held.append(route))
    page.goto(f"{shown.client.url}/repositories/{repo}/branches?create=true")
    page.get_by_label("Name").fill("early")
    page.get_by_role("button", name="Create the branch").click(force=True)
    for route in held:
        route.continue_()
    expect(page.get_by_text("Branch early is created.")).to_be_visible()


def test_every_action_is_offered(shown: Scene) -> None:
    page = shown.open("/auth/credentials")
    options = page.locator("#actions option")
    assert {option.get_attribute("value") for option in options.all()} == set(ACTIONS)


@pytest.mark.parametrize("place", ["users", "groups", "policies"])
def test_a_filter_that_finds_nothing_says_so(shown: Scene, place: str) -> None:
    page = shown.open(f"/auth/{place}", search=HOSTILE)
    expect(page.get_by_role("heading", name="begins with")).to_be_visible()


def test_no_button_of_a_reader_is_answered_with_403(browser: Browser, live: Served) -> None:
    """Each button that changes something is off, and says what it needs."""
    repo, client = lake(live), live.client
    client.upload(repo, "new.txt", b"x")
    head = good(client.send("GET", f"/repositories/{repo}/branches/main"))["commit_id"]
    own = f"/repositories/{repo}"
    buttons: dict[str, tuple[str, ...]] = {
        "/repositories": ("New repository",),
        f"{own}/objects?ref=main": ("Upload", "Import"),
        f"{own}/changes?ref=main": ("Commit to main", "Reset all", "Reset new.txt"),
        f"{own}/branches": ("New branch", "Delete prices"),
        f"{own}/tags": ("New tag", "Delete v1"),
        f"{own}/compare?ref=main&compare=prices": ("Merge into main",),
        f"{own}/pulls/create?ref=main&compare=prices": ("Open it",),
        "/auth/users": ("New user",),
    }
    key = person(client, f"looker-{repo}", "Viewers")
    with scene(browser, live, key=key) as shown:
        page = shown.open("/repositories")
        for place, names in buttons.items():
            shown.go(place)
            for name in names:
                _is_off(page, name)
        shown.go(f"{own}/commits/{head}")
        page.get_by_role("button", name="Undo").click()
        _is_off(page, "Undo on main")


def _is_off(page: Page, name: str) -> None:
    button = page.get_by_role("button", name=re.compile(rf"^{name}( \(.*)?$"))
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", re.compile("^it needs "))
