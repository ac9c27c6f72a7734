"""Whatever arrives: a 4xx whose message names the field and the rule, and nothing changes."""

import http.client
import socket
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from graveler.core import limits
from tests.api.serving import API, Client, Served
from tests.waiting import PATIENCE_SECONDS

LONG = "x" * 5_000
FORBIDDEN_IN_TAGS = " ~^:?*[]\\/%@$\x00\x7f\n"


@dataclass(frozen=True)
class Bad:
    """A request that must be refused, and what its message must say."""

    says: tuple[str, ...]
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    status: int = 400
    headers: dict[str, str] = field(default_factory=dict)


def _repository(**body: Any) -> dict[str, Any]:
    return {"name": "fine", "storage_namespace": "local://fine/x", **body}


_NAMES = ["Bad_Name", "ab", "a" * 64, "-abc", "a.b.c", "a b c", "a/b/c", "ABC", "äöü", "abc\n", ""]
_NAMESPACES = [
    "nowhere",
    "",
    "s3://bucket/x",
    "gs://bucket/x",
    "ftp://x/y",
    "local://",
    "local:///",
    "local:////etc",
    "local:///../etc",
    "local://a/../b",
    "local://a/./b",
    "local://a/_lakefs",
    "local://a/_graveler/b",
    "local://a//b",
    "local://a b/c",
    "local://a\\b/c",
    "local://a/%2e%2e",
    "local://a/b?c",
    "local://a/b#c",
    "local://" + LONG,
]
_BRANCHES = ["a b", "a/b", "-a", "a.b", "a~1", "a^", "a@", "a$", "ä", "a\n", "x" * 256, ""]
_TAGS = ["a..b", ".a", "-a", "a.", "a.lock", "ä", "", "x" * 256] + [
    f"a{each}b" for each in FORBIDDEN_IN_TAGS
]
_PATHS = ["", LONG, "a\0b", "ä" * 513]
_REFS = ["main^x", "main~x", "~1", "^", "main$~1", "main~" + "9" * 40, "a" * 1_025]
_AMOUNTS = ["x", "", "1001", "-2", "1.5", "1e3", "٣", "9" * 40, " 1", "0x10"]
_BOOLEANS = ["maybe", "2", "", "yes", "truE"]

R = "/repositories/{repo}"
B = R + "/branches/main"
M = R + "/refs/main"

TABLE: list[Bad] = [
    *(Bad(("name",), "POST", "/repositories", body=_repository(name=each)) for each in _NAMES),
    *(
        Bad(("namespace",), "POST", "/repositories", body=_repository(storage_namespace=each))
        for each in _NAMESPACES
    ),
    *(
        Bad(("branch",), "POST", "/repositories", body=_repository(default_branch=each))
        for each in _BRANCHES
        if each
    ),
    Bad(("storage_id",), "POST", "/repositories", body=_repository(storage_id="other")),
    Bad(("name", "missing"), "POST", "/repositories", body={"storage_namespace": "local://a/b"}),
    Bad(("name", "string"), "POST", "/repositories", body=_repository(name=7)),
    Bad(("read_only", "boolean"), "POST", "/repositories", body=_repository(read_only="no")),
    Bad(("request body", "object"), "POST", "/repositories", body=[]),
    Bad(("request body", "JSON"), "POST", "/repositories", body=b"{"),
    Bad(("request body", "JSON"), "POST", "/repositories", body=b'{"name": "\xff"}'),
    Bad(("request body", "JSON"), "POST", "/repositories", body=b"[" * 100_000),
    Bad(("request body", "missing"), "POST", "/repositories", body=b""),
    Bad(
        ("request body", str(limits.json_body_length_bytes_max)),
        "POST",
        "/repositories",
        body=b" " * (limits.json_body_length_bytes_max + 1),
        status=413,
    ),
    *(Bad(("branch", "letters"), "POST", R + "/branches", body={"name": each, "source": "main"})
      for each in _BRANCHES),
    *(Bad(("tag",), "POST", R + "/tags", body={"id": each, "ref": "main"}) for each in _TAGS),
    *(Bad(("path",), "POST", B + "/objects", {"path": each}, b"x") for each in _PATHS),
    *(Bad(("path",), "GET", M + "/objects/stat", {"path": each}) for each in _PATHS),
    *(Bad(("path",), "GET", M + "/objects", {"path": each}) for each in _PATHS),
    *(Bad(("path",), "DELETE", B + "/objects", {"path": each}) for each in _PATHS),
    *(Bad(("dest_path",), "POST", B + "/objects/copy", {"dest_path": each}, {"src_path": "a"})
      for each in ("",)),
    *(Bad(("prefix",), "GET", M + "/objects/ls", {"prefix": each}) for each in _PATHS if each),
    *(Bad(("ref",), "GET", R + "/commits/" + each) for each in _REFS),
    *(Bad(("ref",), "POST", R + "/branches", body={"name": "b", "source": each})
      for each in _REFS if "$" not in each),
    *(Bad(("amount",), "GET", "/repositories", {"amount": each}) for each in _AMOUNTS),
    *(Bad(("amount",), "GET", M + "/objects/ls", {"amount": each}) for each in _AMOUNTS),
    *(Bad(("presign",), "GET", M + "/objects/stat", {"path": "a", "presign": each})
      for each in _BOOLEANS),
    Bad(("type", "two_dot"), "GET", M + "/diff/main", {"type": "four_dot"}),
    Bad(("since", "RFC 3339"), "GET", M + "/commits", {"since": "yesterday"}),
    Bad(("metadata", "object"), "POST", B + "/commits", body={"message": "m", "metadata": []}),
    Bad(("metadata/k", "string"), "POST", B + "/commits",
        body={"message": "m", "metadata": {"k": 1}}),
    Bad(("metadata", "bytes"), "POST", B + "/commits",
        body={"message": "m", "metadata": {"k": "v" * 70_000}}),
    Bad(("metadata", "empty key"), "POST", B + "/commits",
        body={"message": "m", "metadata": {"": "v"}}),
    Bad(("metadata", "pairs"), "POST", B + "/commits",
        body={"message": "m", "metadata": {str(each): "" for each in range(1_001)}}),
    Bad(("message", "characters"), "POST", B + "/commits", body={"message": "m" * 70_000}),
    Bad(("message", "bytes"), "POST", B + "/commits", body={"message": "ä" * 40_000}),
    Bad(("date", "integer"), "POST", B + "/commits", body={"message": "m", "date": "now"}),
    Bad(("date", "at most"), "POST", B + "/commits", body={"message": "m", "date": 10**30}),
    Bad(("source_metarange", "64"), "POST", B + "/commits", {"source_metarange": "../x"},
        {"message": "m"}),
    Bad(("source_metarange", "64"), "POST", B + "/commits", {"source_metarange": ""},
        {"message": "m"}),
    Bad(("source_metarange", "64"), "POST", B + "/commits/async", {"source_metarange": ""},
        {"message": "m"}),
    Bad(("strategy",), "POST", M + "/merge/main", body={"strategy": "mine"}),
    Bad(("type", "reset"), "PUT", B, body={"type": "sideways"}),
    Bad(("path", "missing"), "PUT", B, body={"type": "object"}),
    Bad(("parent_number",), "POST", B + "/revert", body={"ref": "main", "parent_number": -1}),
    Bad(("parent_number",), "POST", B + "/revert", body={"ref": "main", "parent_number": 99}),
    Bad(("paths", "1000"), "POST", B + "/objects/delete", body={"paths": ["a"] * 1_001}),
    Bad(("paths/0", "string"), "POST", B + "/objects/delete", body={"paths": [1]}),
    Bad(("metadata",), "PUT", B + "/objects/stat/user_metadata", {"path": "a"},
        {"set": {"k": "v" * 9_000}}),
    Bad(("metadata",), "POST", B + "/objects", {"path": "a"}, b"x",
        headers={"x-lakefs-meta-k": "v" * 9_000}),
    Bad(("content type",), "POST", B + "/objects", {"path": "a"}, b"x",
        headers={"Content-Type": "a/" + "b" * 600}),
    Bad(("boundary",), "POST", B + "/objects", {"path": "a"}, b"x",
        headers={"Content-Type": "multipart/form-data"}),
    Bad(("content", "missing"), "POST", B + "/objects", {"path": "a"}, b"--x--\r\n",
        headers={"Content-Type": "multipart/form-data; boundary=x"}),
    Bad(("size_bytes", "at least"), "PUT", B + "/staging/backing", {"path": "a"},
        {"staging": {"physical_address": "local://x/y"}, "checksum": "c", "size_bytes": -1}),
    Bad(("physical_address",), "PUT", B + "/staging/backing", {"path": "a"},
        {"staging": {}, "checksum": "c", "size_bytes": 1}),
    Bad(("address",), "PUT", B + "/staging/backing", {"path": "a"},
        {"staging": {"physical_address": "local://x/../y"}, "checksum": "c", "size_bytes": 1}),
    Bad(("checksum",), "PUT", B + "/staging/backing", {"path": "a"},
        {"staging": {"physical_address": "local://x/y"}, "checksum": "", "size_bytes": 1}),
    Bad(("meta_range",), "GET", R + "/metadata/meta_range/" + "x" * 64),
    Bad(("range",), "GET", R + "/metadata/range/..%2F..%2Fetc"),
    Bad(("paths",), "POST", B + "/import", body={"paths": [], "commit": {"message": "m"}}),
    Bad(("paths/0/type",), "POST", B + "/import",
        body={"paths": [{"type": "thing", "path": "local:///x", "destination": "d"}],
              "commit": {"message": "m"}}),
    Bad(("UTF-8", "path"), "GET", M + "/objects/stat?path=%ff"),
]  # fmt: skip


def _ids(bad: Bad) -> str:
    return f"{bad.method} {bad.path} {'/'.join(bad.says)}"


@pytest.fixture(scope="module")
def target(live: Served) -> str:
    return live.fresh_repository()


@pytest.mark.parametrize("bad", TABLE, ids=_ids)
def test_bad_input_is_refused_by_field_and_rule(live: Served, target: str, bad: Bad) -> None:
    before = _state(live.client, target)
    path = bad.path.replace("{repo}", target)
    if "%" in path or "?" in path:
        reply = live.client.raw(bad.method, API + path, bad.body, bad.headers)
    else:
        reply = live.client.send(bad.method, path, bad.query, body=bad.body, headers=bad.headers)
    assert reply.status == bad.status, reply.body
    assert reply.headers["content-type"] == "application/json"
    for word in bad.says:
        assert word in reply.message
    assert len(reply.message) < 1_000
    assert _state(live.client, target) == before


def _state(client: Client, repo: str) -> list[bytes]:
    where = f"/repositories/{repo}"
    paths = ("/branches", "/tags", "/branches/main/diff", "/refs/main/commits")
    return [client.send("GET", where + each).body for each in paths]


def test_a_name_that_is_taken_is_a_conflict(client: Client, repo: str) -> None:
    again = {"name": repo, "storage_namespace": "local://somewhere/else"}
    assert client.send("POST", "/repositories", body=again).status == 409
    branch = {"name": "main", "source": "main"}
    assert client.send("POST", f"/repositories/{repo}/branches", body=branch).status == 409


def test_a_namespace_in_use_is_refused(client: Client, repo: str) -> None:
    for namespace in (f"local://{repo}/x", f"local://{repo}/x/", f"local://{repo}/x/y"):
        body = {"name": "other-name", "storage_namespace": namespace}
        reply = client.send("POST", "/repositories", body=body)
        assert reply.status == 400
        assert "namespace already in use" in reply.message


def test_the_id_of_a_range_is_no_metarange(live: Served, client: Client, repo: str) -> None:
    """A range lies in the same folder, under an id of the same form."""
    client.upload(repo, "a", b"x")
    where = f"/repositories/{repo}/branches/main/commits"
    head = client.send("POST", where, body={"message": "m"}).json
    listed = live.embedded.ports.blocks.list(f"local://{repo}/x/_lakefs/", "", 100).lines
    names = {each.address.rpartition("/")[2] for each in listed}
    [id] = names - {"dummy", head["meta_range_id"]}
    reply = client.send("POST", where, {"source_metarange": id}, body={"message": "m"})
    assert reply.status == 400 and "not the id of a sound metarange" in reply.message
    assert client.send("GET", f"/repositories/{repo}/branches/main").json["commit_id"] == head["id"]


@pytest.mark.parametrize(
    ("path", "method"),
    [("/nothing/here", "GET"), ("/repositories", "PATCH"), ("/", "GET"), ("//repositories", "GET"),
     ("/repositories/", "GET"), ("/repositories/a/branches/b/c/d", "GET")],
)  # fmt: skip
def test_an_unknown_route_is_json(client: Client, path: str, method: str) -> None:
    reply = client.raw(method, API + path)
    assert reply.status == 404
    assert reply.json == {"message": "invalid API endpoint"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/auth/groups/admins/acl"), ("POST", "/auth/groups/admins/acl"),
     ("GET", "/auth/get-token/start"), ("GET", "/auth/get-token/mailboxes/m"),
     ("GET", "/oidc/callback"), ("GET", "/license"), ("POST", "/iceberg/remotes/c/pull"),
     ("POST", "/iceberg/remotes/c/push"),
     ("GET", "/repositories/r/otf/refs/a/diff/b")],
)  # fmt: skip
def test_an_operation_of_lakefs_that_is_not_served_is_not_implemented(
    client: Client, method: str, path: str
) -> None:
    """Those that a release of its client for Python up to 1.86 calls."""
    reply = client.raw(method, API + path)
    assert reply.status == 501
    assert reply.json["message"].startswith("not implemented: ")


@pytest.mark.parametrize("path", ["/api/v11/config", "/api", "/nothing", "/favicon.ico", "/.git"])
def test_what_lies_elsewhere_is_a_page(client: Client, path: str) -> None:
    reply = client.raw("GET", path)
    assert reply.status == 404
    assert reply.headers["content-type"].startswith("text/html")


def test_unknown_parameters_and_properties_are_ignored(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}"
    assert client.send("GET", where, {"nonsense": "1"}).status == 200
    body = {"name": "b", "source": "main", "nonsense": {"a": [1]}, "hidden": None}
    assert client.send("POST", where + "/branches", body=body).status == 201


@pytest.mark.parametrize("text", ["True", "true", "TRUE", "t", "T", "1"])
def test_booleans_are_read_in_every_form_of_the_clients(
    client: Client, repo: str, text: str
) -> None:
    where = f"/repositories/{repo}"
    client.send("POST", where + "/branches", body={"name": "b", "source": "main", "hidden": True})
    shown = client.send("GET", where + "/branches", {"show_hidden": text}).json
    assert [line["id"] for line in shown["results"]] == ["b", "main"]


def test_a_space_in_a_path_has_two_spellings(client: Client, repo: str) -> None:
    assert client.upload(repo, "a b+c", b"x").status == 201
    where = f"{API}/repositories/{repo}/refs/main/objects/stat?path="
    for spelling in ("a+b%2Bc", "a%20b%2Bc"):
        assert client.raw("GET", where + spelling).json["path"] == "a b+c"


def test_an_endless_head_is_refused(live: Served) -> None:
    with socket.create_connection(
        (live.client.host, live.client.port), timeout=PATIENCE_SECONDS
    ) as raw:
        raw.sendall(b"GET /_health HTTP/1.1\r\nHost: x\r\n")
        raw.sendall(b"X-Endless: " + b"a" * 70_000)
        with closing(http.client.HTTPResponse(raw)) as answer:
            answer.begin()
            assert answer.status == 431
            assert b"head" in answer.read()


def test_garbage_on_the_line_is_refused(live: Served) -> None:
    with socket.create_connection(
        (live.client.host, live.client.port), timeout=PATIENCE_SECONDS
    ) as raw:
        raw.sendall(b"\x16\x03\x01 not http at all\r\n\r\n")
        with closing(http.client.HTTPResponse(raw)) as answer:
            answer.begin()
            assert answer.status == 400
