"""Branch protection over HTTP: the rules, and what every path answers on a protected branch and in
a read-only repository.  The table of docs/reference/branch-protection.md is measured here."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lakefs
import lakefs_sdk
import pytest
from lakefs.client import Client as LakeFS
from lakefs.exceptions import ForbiddenException
from lakefs_spec import LakeFSFileSystem

from graveler.api.errors import text_for
from graveler.core.errors import Refused
from graveler.core.ids import BranchId
from graveler.engine.events import take_in
from graveler.engine.objects import addresses
from graveler.engine.ports import OpenRepository, open_repository
from graveler.engine.repositories import repository
from graveler.refs.event_rules import EventRule
from tests.api.serving import ADMINISTRATOR, Client, Reply, Served
from tests.engine.events.test_take_in import told

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "branch-protection.md"
RULES = "/repositories/{}/settings/branch_protection"
OLDER = "/repositories/{}/branch_protection"


def protect(client: Client, repo: str, *patterns: str, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = [{"pattern": pattern} for pattern in patterns]
    return client.send("PUT", RULES.format(repo), body=body, headers=named)


# ---- the rules -----------------------------------------------------------------------------------


def test_rules_are_replaced_on_condition_of_their_tag(client: Client, repo: str) -> None:
    empty = client.send("GET", RULES.format(repo))
    assert (empty.json, empty.headers["etag"]) == ([], "")
    assert protect(client, repo, "main", If_Match="").status == 204
    assert protect(client, repo, "other", If_Match="").status == 412
    tag = client.send("GET", RULES.format(repo)).headers["etag"]
    assert protect(client, repo, "other", If_Match=f'"{tag}"').status == 204
    assert protect(client, repo, "more", If_Match=tag).status == 412
    assert client.send("GET", RULES.format(repo)).json == [{"pattern": "other"}]
    assert protect(client, repo).status == 204
    assert client.send("GET", RULES.format(repo)).headers["etag"] == ""


def test_a_pattern_that_can_match_no_branch_is_refused(client: Client, repo: str) -> None:
    for pattern in ("", "[a", "a/b", "x" * 256):
        assert protect(client, repo, "main", pattern).status == 400
    assert protect(client, repo, *(f"b{n}" for n in range(101))).status == 400
    assert client.send("PUT", RULES.format(repo), body={"pattern": "main"}).status == 400
    assert client.send("GET", RULES.format(repo)).json == []


def test_the_calls_of_older_clients(client: Client, repo: str) -> None:
    where = OLDER.format(repo)
    assert client.send("GET", where + "/set_allowed").status == 204
    assert client.send("POST", where, body={"pattern": "main"}).status == 204
    assert client.send("POST", where, body={"pattern": "main"}).status == 409
    assert client.send("GET", where).json == [{"pattern": "main"}]
    assert client.send("DELETE", where, body={"pattern": "main"}).status == 204
    assert client.send("DELETE", where, body={"pattern": "main"}).status == 404
    assert client.send("GET", OLDER.format("nowhere") + "/set_allowed").status == 404


def test_the_generated_client_sets_and_reads_rules(sdk: lakefs_sdk.ApiClient, repo: str) -> None:
    api = lakefs_sdk.RepositoriesApi(sdk)
    rule = lakefs_sdk.BranchProtectionRule(pattern="ma?n")
    api.set_branch_protection_rules(repo, [rule])
    answer = api.get_branch_protection_rules_with_http_info(repo)
    assert answer.data == [rule]
    etag = answer.headers["ETag"]
    api.set_branch_protection_rules(repo, [rule], if_match=etag)
    with pytest.raises(lakefs_sdk.ApiException) as stale:
        api.set_branch_protection_rules(repo, [], if_match="0" * 64)
    assert stale.value.status == 412
    internal = lakefs_sdk.InternalApi(sdk)
    internal.create_branch_protection_rule_preflight(repo)
    with pytest.warns(DeprecationWarning):
        assert internal.internal_get_branch_protection_rules(repo) == [rule]


def test_the_wrapper_and_the_file_system_may_not_write(live: Served, repo: str) -> None:
    protect(live.client, repo, "main")
    access = {
        "host": live.client.url,
        "username": ADMINISTRATOR.access_key_id,
        "password": ADMINISTRATOR.secret_access_key,
    }
    main = lakefs.Repository(repo, client=LakeFS(**access)).branch("main")
    with pytest.raises(ForbiddenException, match="cannot write to protected branch"):
        main.object("p").upload("x")
    with pytest.raises(ForbiddenException, match="cannot commit to protected branch"):
        main.commit("m")
    files = LakeFSFileSystem(**access)
    with pytest.raises(PermissionError), files.open(f"lakefs://{repo}/main/p", "wb") as file:
        file.write(b"x")
    work = lakefs.Repository(repo, client=LakeFS(**access)).branch("work")
    work.create("main")
    work.object("p").upload("x")
    work.commit("m")
    work.merge_into(main)
    assert main.object("p").exists()


def test_sample_data_protects_the_default_branch(client: Client) -> None:
    body = {"name": "samples-kept", "storage_namespace": "local://samples-kept/x"}
    made = client.send("POST", "/repositories", body={**body, "sample_data": True})
    assert made.status == 201
    assert client.send("GET", RULES.format("samples-kept")).json == [{"pattern": "main"}]
    assert client.upload("samples-kept", "p", b"x").status == 403


# ---- every path ----------------------------------------------------------------------------------


class Place(NamedTuple):
    """A repository whose `main` and `doomed` have two commits, and `ahead` one commit more."""

    served: Served
    repo: str
    source: Path

    def call(self, method: str, where: str, body: Any = None, **query: str) -> Reply:
        return self.served.client.send(
            method, f"/repositories/{self.repo}{where}", query, body=body
        )

    def on_main(self, method: str, where: str, body: Any = None, **query: str) -> Reply:
        return self.call(method, f"/branches/main{where}", body, **query)

    @property
    def opened(self) -> OpenRepository:
        ports = self.served.service.ports
        return open_repository(ports, repository.get(ports, self.repo))


def prepared(live: Served, source: Path, number: int, state: str) -> Place:
    """A repository in one of the `STATES`; even a read-only one takes what is forced."""
    name = f"place-{number}"
    body = {"name": name, "storage_namespace": f"local://{name}/x"}
    made = live.client.send("POST", "/repositories", body={**body, "read_only": state == READ_ONLY})
    assert made.status == 201
    place = Place(live, name, source)
    for branch, path in (("main", "a"), ("main", "b"), ("ahead", "c")):
        if branch == "ahead":
            for new in ("ahead", "doomed"):
                order = {"name": new, "source": "main", "force": True}
                assert place.call("POST", "/branches", order).status == 201
        where = f"/branches/{branch}"
        assert place.call("POST", f"{where}/objects", b"x", path=path, force="true").status == 201
        order = {"message": path, "force": True}
        assert place.call("POST", f"{where}/commits", order).status == 201
    if state == PROTECTED:
        assert protect(live.client, name, "main", "doomed").status == 204
    return place


def _linked(place: Place) -> Reply:
    address = addresses.hand_out(place.opened, "main", "linked")  # signed before the protection
    place.opened.blocks.put(address, [b"hello"])
    body = {
        "staging": {"physical_address": address},
        "checksum": "5d41402abc4b2a76b9719d911017c592",
        "size_bytes": 5,
    }
    return place.on_main("PUT", "/staging/backing", body, path="linked")


def _staged(place: Place) -> Reply:
    body = {
        "physical_address": f"local://{place.source}/in/one",
        "checksum": "sum",
        "size_bytes": 5,
    }
    return place.on_main("PUT", "/objects", body, path="staged-elsewhere")


def _copied(place: Place) -> Reply:
    body = {"src_ref": "main", "src_path": "a"}
    return place.on_main("POST", "/objects/copy", body, dest_path="copied")


def _deleted_many(place: Place) -> Reply:
    reply = place.on_main("POST", "/objects/delete", {"paths": ["a"]})
    if reply.status != 200 or not reply.json["errors"]:
        return reply
    error = reply.json["errors"][0]
    assert error["path"] == "a"
    message = f'{{"message": "{error["message"]}"}}'.encode()
    return Reply(error["status_code"], {}, message)


def _imported(place: Place) -> Reply:
    source = {"type": "common_prefix", "path": f"local://{place.source}/in/", "destination": "i/"}
    return place.on_main("POST", "/import", {"paths": [source], "commit": {"message": "i"}})


def _commit_async(place: Place) -> Reply:
    return place.on_main("POST", "/commits/async", {"message": "m"})


def _metarange(place: Place) -> Reply:
    ahead = place.call("GET", "/commits/ahead").json
    return place.on_main(
        "POST", "/commits", {"message": "m"}, source_metarange=ahead["meta_range_id"]
    )


def _landed(place: Place) -> Reply:
    """A bulk job that was begun before the rules, or by force."""
    rules = place.call("GET", "/settings/branch_protection").json
    place.call("PUT", "/settings/branch_protection", [])
    begun = place.on_main("POST", "/bulk", {"mode": "replace", "force": True})
    assert begun.status == 201
    place.call("PUT", "/settings/branch_protection", rules)
    ahead = place.call("GET", "/commits/ahead").json
    order = {"metarange": ahead["meta_range_id"], "request_id": "r", "message": "m"}
    return place.on_main("PUT", f"/bulk/{begun.json['id']}/finish", order)


def _pull_merged(place: Place) -> Reply:
    order = {"title": "t", "source_branch": "ahead", "destination_branch": "main"}
    opened = place.call("POST", "/pulls", order)
    if opened.status != 201:
        return opened
    return place.call("PUT", f"/pulls/{opened.json['id']}/merge")


def _watched(place: Place) -> Reply:
    return place.call("POST", "/events/rules", {"branch": "main", "bucket": "landing"})


def _arrived(place: Place) -> Reply:
    """No request: the intake gives the message back to the queue if this verb refuses."""
    repo = place.opened
    rule = EventRule("rule", repo.id, repo.record.uid, BranchId("main"), "bucket")
    try:
        take_in.take_in(repo, rule, [told("e", "1", "1")])
    except Refused as error:
        return Reply(403, {}, json.dumps({"message": text_for(error)}).encode())
    return Reply(204, {}, b"")


def _reset(kind: str, path: str = "") -> Callable[[Place], Reply]:
    return lambda place: place.on_main("PUT", "", {"type": kind, "path": path})


PATHS: dict[str, Callable[[Place], Reply]] = {
    "upload": lambda place: place.on_main("POST", "/objects", b"x", path="p"),
    "upload, asked before the body": lambda place: place.on_main(
        "GET", "/objects/stage_allowed", path="p"
    ),
    "physical address": lambda place: place.on_main("GET", "/staging/backing", path="x"),
    "link": _linked,
    "stage an address": _staged,
    "copy": _copied,
    "user metadata": lambda place: place.on_main(
        "PUT", "/objects/stat/user_metadata", {"set": {"k": "v"}}, path="a"
    ),
    "delete": lambda place: place.on_main("DELETE", "/objects", path="a"),
    "delete many": _deleted_many,
    "commit": lambda place: place.on_main(
        "POST", "/commits", {"message": "m", "allow_empty": True}
    ),
    "commit of a metarange": _metarange,
    "commit in the background": _commit_async,
    "import": _imported,
    "bulk job": lambda place: place.on_main("POST", "/bulk", {"mode": "replace"}),
    "bulk job, landing": _landed,
    "event rule": _watched,
    "event": _arrived,
    "reset": _reset("reset"),
    "reset a path": _reset("object", "staged"),
    "reset a prefix": _reset("common_prefix", "st"),
    "hard reset": lambda place: place.on_main("PUT", "/hard_reset", ref="main~"),
    "merge": lambda place: place.call("POST", "/refs/ahead/merge/main", {}),
    "merge in the background": lambda place: place.call("POST", "/refs/ahead/merge/main/async", {}),
    "merge of a pull request": _pull_merged,
    "revert": lambda place: place.on_main("POST", "/revert", {"ref": "main", "parent_number": 1}),
    "cherry-pick": lambda place: place.on_main("POST", "/cherry-pick", {"ref": "ahead"}),
    "create a branch": lambda place: place.call(
        "POST", "/branches", {"name": "new", "source": "main"}
    ),
    "delete the branch": lambda place: place.call("DELETE", "/branches/doomed"),
}


FREE, PROTECTED, READ_ONLY = "free", "protected", "read-only"
STATES = (PROTECTED, READ_ONLY)


@pytest.fixture(scope="module")
def measured(live: Served, import_root: Path) -> Iterator[dict[str, dict[str, Reply]]]:
    """What each path answers in each state."""
    (import_root / "in").mkdir(exist_ok=True)
    (import_root / "in" / "one").write_bytes(b"hello")
    numbers = iter(range(1_000))
    yield {
        name: {
            state: path(prepared(live, import_root, next(numbers), state))
            for state in (FREE, *STATES)
        }
        for name, path in PATHS.items()
    }


def test_every_path_is_open_without_rules(measured: dict[str, dict[str, Reply]]) -> None:
    closed = {name: said for name, replies in measured.items() if (said := _said(replies[FREE]))}
    assert not closed


def _said(reply: Reply) -> str:
    """The answer as the page has it; empty for a success."""
    return f"{reply.status} `{reply.message}`" if reply.status >= 400 else ""


def test_the_page_says_what_every_path_answers(measured: dict[str, dict[str, Reply]]) -> None:
    """Paths with the same answers stand in one line."""
    paths: dict[str, list[str]] = {}
    for name, replies in measured.items():
        answers = " | ".join(_said(replies[state]) or "allowed" for state in STATES)
        paths.setdefault(answers, []).append(name)
    lines = [f"| {', '.join(names)} | {answers} |" for answers, names in paths.items()]
    page = PAGE.read_text(encoding="utf-8").splitlines()
    start = page.index("|---|---|---|") + 1
    assert page[start : page.index("", start)] == lines, "\n".join(["", *lines])
