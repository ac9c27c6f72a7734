"""Pull requests over HTTP, and by the unmodified generated client."""

from dataclasses import replace
from datetime import datetime

import lakefs_sdk
import pytest
from lakefs_sdk import PullRequestBasic, PullRequestCreation

from tests.api.serving import USER, Client, Reply, basic


class Pulls:
    """A repository whose branch `dev` is ahead of `main`."""

    def __init__(self, client: Client, repo: str) -> None:
        self.client, self.repo = client, repo
        self.commit("main", "a")
        for branch in ("dev", "other"):
            order = {"name": branch, "source": "main"}
            assert self.call("POST", "/branches", order).status == 201
        self.commit("dev", "b")

    def call(self, method: str, where: str, body: object = None, **query: str) -> Reply:
        return self.client.send(method, f"/repositories/{self.repo}{where}", query, body=body)

    def commit(self, branch: str, path: str, body: bytes = b"x") -> str:
        assert self.client.upload(self.repo, path, body, branch).status == 201
        reply = self.call("POST", f"/branches/{branch}/commits", {"message": path})
        assert reply.status == 201
        commit: str = reply.json["id"]
        return commit

    def create(self, title: str = "t", source: str = "dev", into: str = "main") -> str:
        body = {"title": title, "source_branch": source, "destination_branch": into}
        reply = self.call("POST", "/pulls", body)
        assert reply.status == 201, reply.body
        pull: str = reply.json["id"]
        return pull

    def listed(self, **query: str) -> list[str]:
        return [line["id"] for line in self.call("GET", "/pulls", **query).json["results"]]


@pytest.fixture
def pulls(client: Client, repo: str) -> Pulls:
    return Pulls(client, repo)


def test_the_states_of_listings(pulls: Pulls) -> None:
    merged, closed, opened = pulls.create("1"), pulls.create("2"), pulls.create("3")
    assert pulls.call("PUT", f"/pulls/{merged}/merge").status == 200
    assert pulls.call("PATCH", f"/pulls/{closed}", {"status": "closed"}).status == 204
    assert pulls.listed() == pulls.listed(status="all") == [opened, closed, merged]
    assert pulls.listed(status="open") == [opened]
    assert pulls.listed(status="closed") == [closed, merged]
    assert pulls.listed(status="merged") == [merged]
    assert pulls.call("GET", "/pulls", status="lost").status == 400
    page = pulls.call("GET", "/pulls", amount="1").json
    assert page["pagination"]["next_offset"] == opened == page["results"][0]["id"]
    assert page["results"][0]["description"] == ""
    assert pulls.listed(after=opened, amount="1") == [closed]
    assert pulls.call("GET", "/pulls", after="yesterday").status == 400


def test_a_conflict_says_where_and_leaves_the_request_open(pulls: Pulls) -> None:
    pull = pulls.create()
    pulls.commit("main", "b", b"other")
    reply = pulls.call("PUT", f"/pulls/{pull}/merge")
    assert reply.status == 409
    assert reply.json == {
        "reference": "",
        "message": "update branch: conflict found",
        "conflicts": ["b"],
    }
    assert pulls.call("GET", f"/pulls/{pull}").json["status"] == "open"


def test_a_deleted_branch_closes_its_requests(pulls: Pulls) -> None:
    gone, kept = pulls.create(), pulls.create(source="other")
    assert pulls.call("DELETE", "/branches/dev").status == 204
    assert pulls.listed(status="open") == [kept]
    assert pulls.call("GET", f"/pulls/{gone}").json["status"] == "closed"
    again = pulls.call("PATCH", f"/pulls/{gone}", {"status": "open"})
    assert (again.status, again.message) == (404, "branch 'dev' not found")


def test_what_is_refused(pulls: Pulls) -> None:
    pull = pulls.create()
    bad = [
        pulls.call("POST", "/pulls", {"title": "t", "source_branch": "dev"}),
        pulls.call("PATCH", f"/pulls/{pull}", {"status": "merged"}),
        pulls.call("PATCH", f"/pulls/{pull}", {"status": "lost"}),
        pulls.call("PATCH", f"/pulls/{pull}", {"title": "x" * 1_025}),
        pulls.call("GET", "/pulls/UPPERCASE00000000000"),
    ]
    assert [reply.status for reply in bad] == [400] * len(bad)
    unknown = "0" * 20
    missing = [
        pulls.call("GET", f"/pulls/{unknown}"),
        pulls.call("PATCH", f"/pulls/{unknown}", {"title": "x"}),
        pulls.call("PUT", f"/pulls/{unknown}/merge"),
    ]
    assert {(reply.status, reply.message) for reply in missing} == {(404, "pull request not found")}
    assert pulls.call("PATCH", f"/pulls/{pull}", {"title": None}).status == 204
    assert pulls.call("GET", f"/pulls/{pull}").json["title"] == "t"


def test_the_generated_client(sdk: lakefs_sdk.ApiClient, pulls: Pulls) -> None:
    api, repo = lakefs_sdk.PullsApi(sdk), pulls.repo
    order = PullRequestCreation(
        title="t", description="d", source_branch="dev", destination_branch="main"
    )
    pull = api.create_pull_request(repo, order).id
    api.update_pull_request(repo, pull, PullRequestBasic(title="better"))
    seen = api.get_pull_request(repo, pull)
    assert (seen.title, seen.description, seen.status, seen.author) == ("better", "d", "open", USER)
    assert isinstance(seen.creation_date, datetime) and seen.closed_date is None
    reference = api.merge_pull_request(repo, pull).reference
    merged = api.get_pull_request(repo, pull)
    assert (merged.status, merged.merged_commit_id) == ("merged", reference)
    assert merged.closed_date is not None and merged.closed_date >= merged.creation_date
    commit = lakefs_sdk.CommitsApi(sdk).get_commit(repo, "main")
    assert (commit.id, commit.message) == (reference, "Merge 'dev' into 'main'")
    assert commit.metadata == {".lakefs.merge.strategy": "default"}
    with pytest.raises(lakefs_sdk.ApiException) as again:
        api.merge_pull_request(repo, pull)
    assert again.value.status == 400
    listing = pulls.call("GET", "/pulls").json["results"]
    assert [line["merged_commit_id"] for line in listing] == [reference]


def test_a_request_is_no_way_around_a_denied_branch(client: Client, pulls: Pulls) -> None:
    """The permission to commit is that of the destination, whatever the path of the request is."""
    every = {"effect": "allow", "resource": "*", "action": ["fs:*", "pr:*"]}
    main = f"arn:lakefs:fs:::repository/{pulls.repo}/branch/main"
    never = {"effect": "deny", "resource": main, "action": ["fs:CreateCommit"]}
    user = f"developer-{pulls.repo}"
    for where, body in (
        ("/auth/users", {"id": user}),
        ("/auth/policies", {"id": user, "statement": [every, never]}),
    ):
        assert client.send("POST", where, body=body).status == 201
    attached = client.send("PUT", f"/auth/users/{user}/policies/{user}")
    assert attached.status == 201
    keys = client.send("POST", f"/auth/users/{user}/credentials").json
    own = replace(client, authorization=basic(keys["access_key_id"], keys["secret_access_key"]))
    into_main, into_other = pulls.create(), pulls.create(into="other")
    merge = f"/repositories/{pulls.repo}/pulls/{{}}/merge"
    denied = own.send("PUT", merge.format(into_main))
    assert denied.status == 403
    assert main in denied.message
    assert pulls.call("GET", f"/pulls/{into_main}").json["status"] == "open"
    assert own.send("PUT", merge.format(into_other)).status == 200


# ---- comments ------------------------------------------------------------------------------------


def test_comments_over_http(pulls: Pulls) -> None:
    pull = pulls.create()
    where = f"/pulls/{pull}/comments"
    assert pulls.call("GET", where).json["results"] == []
    made = pulls.call("POST", where, {"text": "why **10**?", "path": "b", "row": "id 2"})
    assert made.status == 201
    datetime.fromisoformat(made.json["creation_date"])
    said = {
        "id": "1",
        "author": USER,
        "user": USER,
        "text": "why **10**?",
        "path": "b",
        "row": "id 2",
    }
    assert made.json == said | {
        "creation_date": made.json["creation_date"],
        "resolved": False,
    }
    assert pulls.call("POST", where, {"text": "second"}).json["id"] == "2"
    page = pulls.call("GET", where, amount="1").json
    assert page["results"] == [made.json]
    assert page["pagination"]["next_offset"] == "1" and page["pagination"]["has_more"]
    rest = pulls.call("GET", where, after="1").json
    assert [each["id"] for each in rest["results"]] == ["2"]
    assert pulls.call("PATCH", where + "/1", {"resolved": True}).status == 204
    assert pulls.call("PATCH", where + "/2", {"text": "third"}).status == 204
    first, second = pulls.call("GET", where).json["results"]
    assert (first["resolved"], first["resolved_by"]) == (True, USER)
    assert second["text"] == "third" and second["edit_date"] >= second["creation_date"]
    for text, status in (("", 400), ("x" * 17_000, 400), (7, 400)):
        assert pulls.call("POST", where, {"text": text}).status == status
    for number in ("0", "3", "x", "9" * 30):
        assert pulls.call("PATCH", f"{where}/{number}", {"resolved": True}).status == 404
    for wrong in ({"after": "x"}, {"amount": "101"}):
        assert pulls.call("GET", where, **wrong).status == 400
    assert pulls.call("GET", f"/pulls/{'0' * 20}/comments").status == 404
