"""Rules of event ingestion through the API: made, shown, refused, ended."""

from dataclasses import replace
from typing import Any

import pytest

from tests.api.serving import Client, basic


def _rules(repo: str) -> str:
    return f"/repositories/{repo}/events/rules"


def test_a_rule_is_made_shown_and_ended(client: Client, repo: str) -> None:
    said = {"branch": "main", "bucket": "landing", "prefix": "in/", "marker": "_SUCCESS"}
    made = client.send("POST", _rules(repo), body=said)
    assert made.status == 201
    rule = made.json
    expected = said | {"suffix": "", "path": "{key}", "objects": 0, "seconds": 300}
    assert {name: rule[name] for name in expected} == expected
    again = client.send("POST", _rules(repo), body=said)
    assert again.status == 409 and rule["id"] in again.message
    assert client.send("GET", _rules(repo)).json == {"results": [rule]}
    one = f"{_rules(repo)}/{rule['id']}"
    assert client.send("GET", one).json == rule
    assert client.send("DELETE", one).status == 204
    assert client.send("DELETE", one).status == client.send("GET", one).status == 404
    assert client.send("GET", _rules(repo)).json == {"results": []}


def test_a_rule_outlives_the_rights_of_who_created_it(client: Client, repo: str) -> None:
    """It shows whose it was, so that an administrator can find and delete it."""
    user = f"author-{repo}"
    assert client.send("POST", "/auth/users", body={"id": user}).status == 201
    assert client.send("PUT", f"/auth/groups/Admins/members/{user}").status == 201
    keys = client.send("POST", f"/auth/users/{user}/credentials").json
    author = replace(client, authorization=basic(keys["access_key_id"], keys["secret_access_key"]))
    rule = author.send("POST", _rules(repo), body={"branch": "main", "bucket": "landing"}).json
    assert client.send("DELETE", f"/auth/users/{user}").status == 204
    assert author.send("GET", _rules(repo)).status == 401
    assert rule["committer"] == user
    assert client.send("GET", _rules(repo)).json == {"results": [rule]}
    assert client.send("DELETE", f"{_rules(repo)}/{rule['id']}").status == 204


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"branch": "nowhere"}, 404),
        ({"bucket": "No Bucket"}, 400),
        ({"path": "{unknown}"}, 400),
        ({"objects": -1}, 400),
        ({"seconds": 0}, 400),
        ({"marker": 7}, 400),
    ],
)
def test_a_rule_that_cannot_work_is_refused(
    client: Client, repo: str, changed: dict[str, Any], status: int
) -> None:
    said = {"branch": "main", "bucket": "landing", **changed}
    refused = client.send("POST", _rules(repo), body=said)
    assert refused.status == status, refused.message
    assert client.send("GET", _rules(repo)).json == {"results": []}
