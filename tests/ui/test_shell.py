"""What serves the page: paths, headers, caching.  Without a browser."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from graveler.core.records import ABSENT
from graveler.http.answers import Answer
from graveler.http.service import ServiceSettings
from graveler.ui.shell import Page, policy
from tests.api.serving import Client, Served, served

LISTED = (
    "../../api/v1/repositories/lake/refs/main/objects/ls"
    "?{}amount=60&delimiter=%2F&user_metadata=false"
)
FILES = {
    "index.html": '<!doctype html><head></head><script src="./assets/main.js"></script>',
    "assets/main.js": "export {};",
    "assets/style.css": "a { color: red }",
    "licences.txt": "MIT",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def _get(page: Page, path: str, **headers: str) -> Answer:
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    answer = page.answer(path, sent)
    assert answer is not ABSENT
    return answer


def _main(page: Page) -> str:
    """The path of the script that the shell names."""
    body = _get(page, "/").body
    assert isinstance(body, bytes)
    return "/" + body.decode().split('src="')[1].split('"')[0]


@pytest.mark.parametrize(
    ("path", "base"),
    [
        ("/", "./"),
        ("/repositories", "./"),
        ("/repositories/lake/objects", "../../"),
        ("/repositories/lake/commits/abc", "../../../"),
        ("/auth/login", "../"),
        ("/setup", "./"),
    ],
)
def test_the_shell_is_served_below_any_proxy_path(folder: Path, path: str, base: str) -> None:
    answer = _get(Page(folder), path)
    assert answer.status == 200 and isinstance(answer.body, bytes)
    assert f'<base href="{base}" />'.encode() in answer.body
    assert b'src="_ui/' in answer.body


@pytest.mark.parametrize(
    "path", ["/nothing", "/repositoriesx", "/api/v1/x", "/repositories" + "/a" * 40]
)
def test_other_paths_are_not_of_the_page(folder: Path, path: str) -> None:
    assert Page(folder).answer(path, {}) is ABSENT


def test_files_are_immutable_and_compressed_if_the_client_takes_it(folder: Path) -> None:
    page = Page(folder)
    plain, packed = (
        _get(page, _main(page), accept_encoding=coding) for coding in ("br", "gzip, br")
    )
    assert plain.body == FILES["assets/main.js"].encode()
    assert isinstance(packed.body, bytes) and gzip.decompress(packed.body) == plain.body
    for answer in (plain, packed):
        headers = dict(answer.headers)
        assert headers[b"cache-control"] == b"public, max-age=31536000, immutable"
        assert headers[b"vary"] == b"Accept-Encoding"
        assert headers[b"x-content-type-options"] == b"nosniff"
    assert dict(packed.headers)[b"content-encoding"] == b"gzip"
    assert b"content-encoding" not in dict(plain.headers)
    tag = dict(packed.headers)[b"etag"].decode()
    assert tag != dict(plain.headers)[b"etag"].decode()
    assert _get(page, _main(page), accept_encoding="gzip", if_none_match=tag).status == 304


def test_another_bundle_has_another_address(folder: Path) -> None:
    before = _main(Page(folder))
    (folder / "assets" / "style.css").write_text("a { color: blue }", encoding="utf-8")
    page = Page(folder)
    assert _main(page) != before
    assert _get(page, before).status == 404


@pytest.mark.parametrize(
    "name", ["../assets.py", "../../core/records.py", "index.html", "", "assets/", "assets/none.js"]
)
def test_only_files_of_the_bundle_are_served(folder: Path, name: str) -> None:
    page = Page(folder)
    digest = _main(page).split("/")[2]
    assert _get(page, f"/_ui/{digest}/{name}").status == 404


def test_the_shell_is_asked_for_again(folder: Path) -> None:
    page = Page(folder)
    first = dict(_get(page, "/repositories").headers)
    assert first[b"cache-control"] == b"no-cache"
    again = _get(page, "/repositories", if_none_match=first[b"etag"].decode())
    assert (again.status, again.body) == (304, b"")


BOTH_OF_COMMITS = ["../../_ui/D/assets/commits.js", "../../_ui/D/assets/x.js"]


@pytest.mark.parametrize(
    ("target", "links"),
    [
        ("/", ["api/v1/repositories?amount=100"]),
        ("/repositories?search=x", []),
        ("/repositories/lake/objects", []),
        ("/repositories/lake/objects?ref=main", [LISTED.format("")]),
        ("/repositories/lake/objects?ref=main&path=a/b", [LISTED.format("prefix=a%2Fb&")]),
        ("/repositories/lake/objects?ref=main&path=%3E%0D%0Ax:", []),
        ("/repositories/lake/objects?ref=main&after=x", []),
        ("/repositories/lake/objects?" + "&".join(["a=b"] * 99), []),
        (
            "/repositories/lake/objects?ref=main&showChanges=true",
            ["../../api/v1/repositories/lake/branches/main/diff?amount=100&delimiter=%2F"],
        ),
        ("/repositories/lake/objects?ref=main,v1", []),
        (
            "/repositories/lake/compare?ref=main&compare=v1",
            [
                "../../_ui/D/assets/compare.js",
                "../../api/v1/repositories/lake/refs/main/diff/v1"
                "?amount=100&delimiter=%2F&type=three_dot",
            ],
        ),
        (
            "/repositories/lake/object?ref=main&path=a/b",
            ["../../api/v1/repositories/lake/refs/main/objects/stat?path=a%2Fb"],
        ),
        ("/repositories/lake/branches", ["../../api/v1/repositories/lake/branches?amount=50"]),
        (
            "/repositories/lake/storage?ref=main",
            ["../../api/v1/repositories/lake/refs/main/objects/summary?amount=1000"],
        ),
        ("/repositories/lake/storage/x?ref=main", []),
        ("/repositories/lake/commits?ref=,", BOTH_OF_COMMITS),
        ("/auth/lake/branches", []),
        ("/repositories/lake/objects?path+ref=x", []),
        ("/repositories/lake/compare?compare%20ref=x", ["../../_ui/D/assets/compare.js"]),
        ("/repositories/lake/objects?ref={path}&path={0}", []),
        ("/repositories/lake/commits", BOTH_OF_COMMITS),
        (
            "/repositories/lake/commits?ref=main,,v1",
            [
                *BOTH_OF_COMMITS,
                "../../api/v1/repositories/lake/graph?heads=main&heads=v1&amount=60",
            ],
        ),
        ("/repositories/lake/commits?ref=main&view=activity", BOTH_OF_COMMITS),
        ("/repositories/lake/commits/abc", ["../../../_ui/D/assets/commit.js"]),
        ("/repositories/lake/compare?file=x", ["../../_ui/D/assets/filediff.js"]),
        ("/repositories/../../x/y", []),
    ],
)
def test_the_shell_names_what_its_page_asks_for_first(
    folder: Path, target: str, links: list[str]
) -> None:
    entry = {"file": "assets/main.js", "imports": ["_all.js"]}
    manifest: dict[str, Any] = {"index.html": entry, "_all.js": {"file": "assets/all.js"}}
    manifest["_x.js"] = {"file": "assets/x.js", "imports": ["_x.js", "_all.js"]}
    for name in ("commits", "commit", "compare", "filediff"):
        inside = ["index.html", "_x.js"] if name == "commits" else ["index.html"]
        manifest[f"src/pages/{name}.tsx"] = {"file": f"assets/{name}.js", "imports": inside}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    page = Page(folder)
    path, _, query = target.partition("?")
    answer = page.answer(path, {}, query)
    assert answer is not ABSENT
    found = dict(answer.headers).get(b"link", b"").decode()
    digest = _main(page).split("/")[2]
    assert re.findall("<(.*?)>", found.replace(digest, "D")) == links
    assert _get(page, f"/_ui/{digest}/manifest.json").status == 404


def test_the_policy_allows_no_inline_script_and_no_wildcard() -> None:
    rules = dict(
        rule.split(" ", 1)
        for rule in policy(["https://lake.s3.amazonaws.com"]).decode().split("; ")
    )
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == "'self'"
    assert rules["connect-src"] == "'self' https://lake.s3.amazonaws.com"
    assert rules["frame-ancestors"] == "'none'"
    assert rules["require-trusted-types-for"] == "'script'"
    assert not any("*" in rule or "unsafe" in rule for rule in rules.values())


def test_without_a_built_page_the_service_says_how_to_build_it(tmp_path: Path) -> None:
    page = Page(tmp_path / "none")
    assert page.answer("/", {}) is ABSENT
    assert page.answer("/repositories", {}) is ABSENT
    assert _get(page, "/_ui/0123456789abcdef/assets/main.js").status == 404


def test_the_service_serves_its_page_to_anybody(live: Served) -> None:
    anonymous = Client(live.client.host, live.client.port, "")
    for path in ("/", "/repositories/x/objects?ref=main", "/auth/login?next=%2F", "/setup"):
        reply = anonymous.raw("GET", path)
        assert reply.status == 200
        assert reply.headers["content-security-policy"] == policy().decode()
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cross-origin-opener-policy"] == "same-origin"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert anonymous.raw("HEAD", path).body == b""
        assert anonymous.raw("POST", path).status == 404


def test_the_bundle_names_the_licences_of_its_packages(live: Served) -> None:
    digest = live.client.raw("GET", "/").body.decode().split("_ui/")[1].split("/")[0]
    text = live.client.raw("GET", f"/_ui/{digest}/licences.txt").body.decode()
    for package in ("preact ", "@preact/signals ", "marked ", "papaparse "):
        assert f"\n{package}" in "\n" + text
    assert "Permission is hereby granted" in text


def test_the_policy_admits_the_storage_that_signed_urls_lead_to(tmp_path: Path) -> None:
    storage = "https://lake.s3.eu-west-1.amazonaws.com"
    settings = ServiceSettings(storage_origins=(storage,))
    with served(tmp_path / "store", settings=settings) as live:
        reply = live.client.raw("GET", "/repositories")
        assert reply.headers["content-security-policy"] == policy([storage]).decode()
