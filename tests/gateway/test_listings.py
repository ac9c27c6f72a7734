"""Listings through a real server: refs, objects, pages, odd names."""

from typing import Any
from xml.etree import ElementTree

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graveler.core.identity import commit_id
from graveler.core.ids import MetarangeId
from graveler.core.records import Commit
from graveler.engine.repositories import repository
from graveler.refs import commits
from tests.gateway.serving import Gateway, S3Client, code_of

_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
BRANCHES = ["a", "a-", "a-b", "a-b-c", "a-b0", "a0", "a_", "A", "b-", "main"]


@pytest.fixture(scope="module")
def branched(served_gateway: Gateway) -> str:
    """A repository with branches whose order is not that of their names, and a hidden one."""
    repo = served_gateway.live.fresh_repository()
    send = served_gateway.live.client.send
    for name in (*BRANCHES, "a-hidden"):
        if name != "main":
            body = {"name": name, "source": "main", "hidden": name == "a-hidden"}
            assert send("POST", f"/repositories/{repo}/branches", body=body).status == 201
    return repo


SCATTERED = {
    "a": ["0", "b/c", "\u00fc"],
    "a-": ["z"],
    "a-b": [],
    "a0": ["x", "y"],
    "b": [],
    "main": ["in/x"],
}


@pytest.fixture(scope="module")
def scattered(served_gateway: Gateway) -> str:
    """A repository with a few objects on several branches."""
    live = served_gateway.live
    repo = live.fresh_repository()
    for branch in SCATTERED:
        if branch != "main":
            body = {"name": branch, "source": "main"}
            made = live.client.send("POST", f"/repositories/{repo}/branches", body=body)
            assert made.status == 201
    for branch, paths in SCATTERED.items():
        for path in paths:
            assert live.client.upload(repo, path, b"x", branch=branch).status == 201
    return repo


PATHS = sorted(
    [
        *("a", "a b", "a+b", "a/", "a/1", "a/2", "a/b/3", "a%2F", "b&<>", "c\rd", "d\x01e"),
        *("\u00fc/x", "//y", "/z", "q\"'"),
    ],
    key=str.encode,
)


@pytest.fixture(scope="module")
def filled(served_gateway: Gateway) -> str:
    """A repository with odd names on its branch `main`."""
    repo = served_gateway.live.fresh_repository()
    for path in PATHS:
        assert served_gateway.live.client.upload(repo, path, b"x").status == 201
    return repo


def _refs(boto: Any, repo: str, version: str, **parameters: Any) -> list[str]:
    pages = boto.get_paginator(version).paginate(Bucket=repo, **parameters)
    return [each["Prefix"] for page in pages for each in page.get("CommonPrefixes", [])]


@pytest.mark.parametrize("version", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_branches_are_listed_in_the_order_of_their_names_with_a_slash(
    boto: Any, branched: str, version: str, size: int
) -> None:
    config = {"PageSize": size}
    expected = sorted(f"{name}/" for name in BRANCHES)
    listed = _refs(boto, branched, version, Delimiter="/", PaginationConfig=config)
    assert listed == expected
    assert listed != [f"{name}/" for name in sorted(BRANCHES)]
    below = _refs(boto, branched, version, Prefix="a-", Delimiter="/", PaginationConfig=config)
    assert below == [name for name in expected if name.startswith("a-")]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(after=st.text("ab-/0_.A", max_size=5), prefix=st.sampled_from(["", "a", "a-", "b"]))
def test_a_page_of_branches_begins_behind_any_text(
    boto: Any, branched: str, after: str, prefix: str
) -> None:
    page = boto.list_objects_v2(Bucket=branched, Prefix=prefix, Delimiter="/", StartAfter=after)
    listed = [each["Prefix"] for each in page.get("CommonPrefixes", [])]
    names = sorted(f"{name}/" for name in BRANCHES)
    assert listed == [name for name in names if name > after and name.startswith(prefix)]
    assert page["KeyCount"] == len(listed)


@pytest.mark.parametrize("version", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_every_name_is_listed_once_in_pages_of_any_size(
    boto: Any, filled: str, version: str, size: int
) -> None:
    pages = boto.get_paginator(version).paginate(
        Bucket=filled, Prefix="main/", PaginationConfig={"PageSize": size}
    )
    keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
    assert keys == [f"main/{path}" for path in PATHS]


@pytest.mark.parametrize("version", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("delimiter", ["/", "b", "//"])
@pytest.mark.parametrize("prefix", ["main/", "main/a", "main/a/", "main//"])
def test_common_prefixes_are_listed_once_in_pages_of_any_size(
    boto: Any, filled: str, version: str, delimiter: str, prefix: str
) -> None:
    expected: list[str] = []
    for key in (f"main/{path}" for path in PATHS):
        if key.startswith(prefix):
            cut = key.find(delimiter, len(prefix))
            expected.append(key if cut < 0 else key[: cut + len(delimiter)])
    expected = list(dict.fromkeys(expected))
    for size in (1, 1000):
        pages = boto.get_paginator(version).paginate(
            Bucket=filled, Prefix=prefix, Delimiter=delimiter, PaginationConfig={"PageSize": size}
        )
        lines = [
            each.get("Key") or each["Prefix"]
            for page in pages
            for each in [*page.get("Contents", []), *page.get("CommonPrefixes", [])]
        ]
        assert sorted(lines, key=str.encode) == sorted(expected, key=str.encode)
        assert len(lines) == len(expected)


def test_names_without_encoding_keep_what_xml_can_say(s3: S3Client, filled: str) -> None:
    """The one control character that XML cannot say becomes a mark; its token is exact."""
    token, keys = "", []
    while True:
        query = {"list-type": "2", "prefix": "main/", "max-keys": "1"}
        reply = s3.send(
            "GET", f"/{filled}", query | ({"continuation-token": token} if token else {})
        )
        root = ElementTree.fromstring(reply.body)
        keys += [each.text for each in root.iter(f"{_NAMESPACE}Key")]
        token = root.findtext(f"{_NAMESPACE}NextContinuationToken", "")
        if not token:
            break
    assert keys == [f"main/{path}".replace("\x01", "\ufffd") for path in PATHS]


def test_names_are_encoded_on_request_and_tokens_are_not(s3: S3Client, filled: str) -> None:
    query = {
        "encoding-type": "url",
        "prefix": "main/a ",
        "marker": "main/\u00fc +",
        "delimiter": "+",
    }
    root = ElementTree.fromstring(s3.send("GET", f"/{filled}", query).body)
    texts = {child.tag.removeprefix(_NAMESPACE): child.text for child in root}
    assert texts["Prefix"] == "main/a+"
    assert texts["Marker"] == "main/%C3%BC+%2B"
    assert texts["Delimiter"] == "%2B"
    assert texts["EncodingType"] == "url"
    query = {"encoding-type": "url", "prefix": "main/a", "list-type": "2", "max-keys": "2"}
    root = ElementTree.fromstring(s3.send("GET", f"/{filled}", query).body)
    token = root.findtext(f"{_NAMESPACE}NextContinuationToken", "")
    following = s3.send("GET", f"/{filled}", query | {"continuation-token": token}).body
    assert f"<ContinuationToken>{token}</ContinuationToken>".encode() in following
    assert [each.text for each in root.iter(f"{_NAMESPACE}Key")] == ["main/a", "main/a+b"]


def test_a_token_beats_start_after_which_may_lie_outside_the_prefix(boto: Any, filled: str) -> None:
    def keys(**parameters: Any) -> list[str]:
        page = boto.list_objects_v2(Bucket=filled, Prefix="main/a/", **parameters)
        return [each["Key"] for each in page.get("Contents", [])]

    everything = ["main/a/", "main/a/1", "main/a/2", "main/a/b/3"]
    assert keys() == keys(StartAfter="a") == keys(StartAfter="main/a ") == everything
    assert keys(StartAfter="main") == keys(StartAfter="main/") == everything
    assert keys(StartAfter="main/b") == keys(StartAfter="main0") == keys(StartAfter="z") == []
    assert keys(StartAfter="main/a/1") == everything[2:]
    page = boto.list_objects_v2(Bucket=filled, Prefix="main/a/", MaxKeys=2)
    token = page["NextContinuationToken"]
    assert keys(StartAfter="main/a/b", ContinuationToken=token) == everything[2:]


def test_a_page_says_how_many_lines_it_has_and_where_it_ends(boto: Any, filled: str) -> None:
    page = boto.list_objects_v2(Bucket=filled, Prefix="main/a/", Delimiter="/", MaxKeys=5000)
    assert (page["KeyCount"], page["MaxKeys"], page["IsTruncated"]) == (4, 1000, False)
    assert page["Contents"][0]["StorageClass"] == "STANDARD"
    nothing = boto.list_objects_v2(Bucket=filled, Prefix="main/", MaxKeys=0)
    assert (nothing["KeyCount"], nothing["IsTruncated"]) == (0, False)
    first = boto.list_objects(Bucket=filled, Prefix="main/", MaxKeys=1)
    assert (first["IsTruncated"], "NextMarker" in first) == (True, False)
    first = boto.list_objects(Bucket=filled, Prefix="main/", MaxKeys=1, Delimiter="/")
    assert first["NextMarker"] == "main//"


def test_times_in_listings_are_those_of_the_object(boto: Any, filled: str) -> None:
    line = boto.list_objects_v2(Bucket=filled, Prefix="main/a/1")["Contents"][0]
    head = boto.head_object(Bucket=filled, Key="main/a/1")
    assert line["LastModified"] == head["LastModified"]
    assert (line["ETag"], line["Size"]) == (head["ETag"], 1)


def _refused(call: Any, **arguments: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as error:
        call(**arguments)
    response = error.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


@pytest.mark.parametrize("version", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("prefix", ["none/", "none/a", "/", "ma in/", "main~99/", "main$@/", "%/x"])
def test_a_ref_that_does_not_exist_is_refused(
    boto: Any, filled: str, version: str, prefix: str
) -> None:
    """Clients that synchronise would delete everything at the other side."""
    call = getattr(boto, version)
    after = "Marker" if version == "list_objects" else "StartAfter"
    for more in ({}, {"MaxKeys": 0}, {"Delimiter": "/"}, {after: "~"}):
        assert _refused(call, Bucket=filled, Prefix=prefix, **more) == (404, "NoSuchBucket")


@pytest.mark.parametrize("version", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("prefix", ["", "a", "a-", "x"])
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_flat_listing_has_the_objects_of_all_branches(
    boto: Any, scattered: str, version: str, prefix: str, size: int
) -> None:
    listed = _flat(boto, scattered, version, prefix, size)
    keys = sorted(f"{branch}/{path}" for branch in SCATTERED for path in SCATTERED[branch])
    assert listed == [key for key in keys if key.startswith(prefix)]


def _flat(boto: Any, repo: str, version: str, prefix: str, size: int) -> list[str]:
    config = {"PageSize": size}
    found: list[str] = []
    pages = boto.get_paginator(version)
    for page in pages.paginate(Bucket=repo, Prefix=prefix, PaginationConfig=config):
        found += [line["Key"] for line in page.get("Contents", [])]
        assert "CommonPrefixes" not in page
    return found


@pytest.mark.parametrize("version", ["list_objects", "list_objects_v2"])
def test_a_flat_listing_goes_on_behind_many_empty_branches(
    served_gateway: Gateway, boto: Any, repo: str, version: str
) -> None:
    live = served_gateway.live
    for number in range(130):
        body = {"name": f"b{number:03}", "source": "main"}
        assert live.client.send("POST", f"/repositories/{repo}/branches", body=body).status == 201
    assert live.client.upload(repo, "x", b"x").status == 201
    assert live.client.upload(repo, "y", b"x", branch="b001").status == 201
    assert _flat(boto, repo, version, "", 1000) == ["b001/y", "main/x"]


def test_branches_are_grouped_by_no_other_delimiter(boto: Any, filled: str) -> None:
    call = boto.list_objects_v2
    assert _refused(call, Bucket=filled, Delimiter="i") == (400, "InvalidArgument")


@pytest.mark.parametrize("version", ["list_objects", "list_objects_v2"])
def test_content_that_is_gone_is_not_listed_as_empty(
    served_gateway: Gateway, boto: Any, repo: str, version: str
) -> None:
    """A client that makes another place equal to the listing would delete everything there."""
    embedded = served_gateway.live.embedded
    record = repository.get(embedded.ports, repo)
    lost = Commit("somebody", "m", 1, generation=1, metarange=MetarangeId("ab" * 32))
    id = commit_id(lost)
    commits.put(embedded.ports.kv, record, id, lost, embedded.ports.ids.stamp())
    call = getattr(boto, version)
    assert _refused(call, Bucket=repo, Prefix=f"{id}/") == (404, "NoSuchVersion")


@pytest.mark.parametrize(
    ("version", "token", "given"),
    [("list_objects", "NextMarker", "Marker"),
     ("list_objects_v2", "NextContinuationToken", "ContinuationToken")],
)  # fmt: skip
def test_a_listing_whose_ref_goes_away_is_not_taken_for_complete(
    served_gateway: Gateway, boto: Any, repo: str, version: str, token: str, given: str
) -> None:
    live = served_gateway.live
    body = {"name": "tmp", "source": "main"}
    assert live.client.send("POST", f"/repositories/{repo}/branches", body=body).status == 201
    for path in "abc":
        boto.put_object(Bucket=repo, Key=f"tmp/{path}", Body=b"x")
    call = getattr(boto, version)
    page = call(Bucket=repo, Prefix="tmp/", Delimiter="/", MaxKeys=2)
    assert page["IsTruncated"]
    where = f"/repositories/{repo}/branches/tmp"
    assert live.client.send("DELETE", where).status == 204
    more = {"Bucket": repo, "Prefix": "tmp/", "Delimiter": "/", given: page[token]}
    assert _refused(call, **more) == (404, "NoSuchBucket")
    assert _refused(call, Bucket=repo, Prefix="tmp/") == (404, "NoSuchBucket")


def test_every_kind_of_ref_is_listed(served_gateway: Gateway, boto: Any) -> None:
    live = served_gateway.live
    repo = live.fresh_repository()
    live.client.upload(repo, "old", b"x")
    where = f"/repositories/{repo}"
    commit = live.client.send("POST", f"{where}/branches/main/commits", body={"message": "m"})
    commit_id = commit.json["id"]
    live.client.send("POST", f"{where}/tags", body={"id": "v1", "ref": "main"})
    live.client.upload(repo, "new", b"x")

    def names(ref: str) -> list[str]:
        page = boto.list_objects_v2(Bucket=repo, Prefix=f"{ref}/")
        return [each["Key"].removeprefix(f"{ref}/") for each in page.get("Contents", [])]

    assert names("main") == names("main$") == ["new", "old"]
    assert names("v1") == names("main@") == names(commit_id) == names(commit_id[:12]) == ["old"]
    assert names("main~1") == names("v1~1") == []


@pytest.mark.parametrize(
    "query",
    [
        {"list-type": "1"},
        {"list-type": ""},
        {"max-keys": "-1"},
        {"max-keys": "x"},
        {"encoding-type": "base64"},
        {"list-type": "2", "continuation-token": "%%FF"},
        {"list-type": "2", "continuation-token": "main/a"},
        {"list-type": "2", "prefix": "main/", "continuation-token": "bWFpbi9h"},
        {"uploads": "", "key-marker": "main/a", "upload-id-marker": "main"},
        {"uploads": "", "key-marker": "main/a", "upload-id-marker": "0" * 19},
        {"prefix": "main/\0"},
    ],
)
def test_a_parameter_that_is_wrong_is_refused(
    s3: S3Client, repo: str, query: dict[str, str]
) -> None:
    reply = s3.send("GET", f"/{repo}", query)
    assert (reply.status, code_of(reply)) == (400, "InvalidArgument")
