"""`graveler doctor`: each thing that can be wrong is named, with a remedy."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graveler.cli.commands.doctor import examined
from graveler.cli.support.invocation import Invocation
from graveler.lake import profiles
from graveler.lake.profiles import Profile, Profiles
from tests.api.serving import ADMINISTRATOR
from tests.cli.commands import Client
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted
from tests.http_server import QuietHandler, http_server
from tests.support.clockwork import TickingClock
from tests.tls import secured

KEY, SECRET = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key


def findings(user: Client, code: int, **variables: str) -> dict[str, dict[str, str]]:
    user.variables |= variables
    result = user.run("doctor", "--json")
    assert (result.code, result.err) == (code, "")
    return {each["check"]: each for each in json.loads(result.out)}


def signed_in(user: Client, url: str, key: str = KEY, secret: str = SECRET) -> Client:
    profiles.write(Profiles("test", {"test": Profile("test", url, key, secret)}), user.variables)
    return user


def test_nothing_is_wrong(lake: Lake) -> None:
    found = findings(lake.user, 0)
    checks = "configuration URL connection clock credentials key API version"
    assert [*found] == [*checks.split(), "signed URLs"]
    assert {each["result"] for each in found.values()} <= {"ok", "note"}
    assert found["configuration"]["found"] == "profile test"
    assert found["key"]["found"] == "user administrator"
    assert found["API"]["found"].startswith("speaks lakeFS 1.")
    assert SECRET not in str(found)


def test_nothing_is_configured(user: Client) -> None:
    found = findings(user, 1)
    assert found["URL"]["result"] == "failed"
    assert found["URL"]["remedy"].startswith("graveler login URL, or ")
    assert "connection" not in found


def test_a_url_that_is_none(user: Client) -> None:
    found = findings(signed_in(user, "lake.example"), 1)
    assert "must look like" in found["URL"]["found"]


def test_a_host_that_dns_cannot_name(user: Client) -> None:
    found = findings(signed_in(user, "http://a..b"), 1)
    assert found["connection"]["found"].startswith("URL invalid")


def test_nobody_answers(user: Client) -> None:
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        found = findings(signed_in(user, url), 1)
    assert "does not answer" in found["connection"]["found"]
    assert "key" not in found


def test_a_key_that_the_server_does_not_know(lake: Lake) -> None:
    url = lake.live.client.url
    found = findings(signed_in(lake.user, url, "AKIAOTHER"), 1)
    assert found["connection"]["result"] == "ok"
    assert found["key"]["result"] == "failed"
    assert found["key"]["remedy"].endswith(f"graveler login {url}")


def test_there_is_no_key(lake: Lake) -> None:
    found = findings(signed_in(lake.user, lake.live.client.url, "", ""), 1)
    assert found["credentials"]["found"].startswith("no credentials for http://127.0.0.1:")
    assert found["credentials"]["remedy"].startswith("graveler login http://127.0.0.1:")


@pytest.mark.parametrize(
    ("days", "host", "trusted", "fault", "remedy"),
    [
        (range(-1, 1), "127.0.0.1", False, "signed certificate", "SSL_CERT_FILE=FILE"),
        (range(-9, -1), "127.0.0.1", True, "certificate has expired", "renew the certificate"),
        (range(1, 9), "127.0.0.1", True, "not yet valid", "is the clock of this machine right?"),
        (range(-1, 1), "localhost", True, "Hostname mismatch", "is the URL right?"),
    ],
)
def test_a_certificate_that_is_refused(
    lake: Lake, tmp_path: Path, days: range, host: str, trusted: bool, fault: str, remedy: str
) -> None:
    with secured(lake.live.server, tmp_path, days) as tls:
        user = signed_in(lake.user, tls.url.replace("127.0.0.1", host))
        if trusted:
            user.variables["SSL_CERT_FILE"] = str(tls.certificate)
        tried = user.run("repo", "list", "--json")
        found = findings(user, 1)
    assert fault in found["TLS"]["found"] and remedy in found["TLS"]["remedy"]
    assert "connection" not in found and "key" not in found
    error = json.loads(tried.err)["error"]
    assert (tried.code, error["code"]) == (6, "certificate_refused") and remedy in error["hint"]


def test_a_certificate_that_is_trusted(lake: Lake, tmp_path: Path) -> None:
    with secured(lake.live.server, tmp_path) as tls:
        found = findings(signed_in(lake.user, tls.url), 0, SSL_CERT_FILE=str(tls.certificate))
    assert found["TLS"]["result"] == "ok" and found["key"]["result"] == "ok"


def said(document: object) -> Said:
    return Said(200, json.dumps(document).encode())


def listed(*rows: object) -> Said:
    return said({"results": rows, "pagination": {"has_more": False, "next_offset": ""}})


def settings(version: str, signs: bool) -> list[Said]:
    """The answers to all checks before those of the version and of a signed URL."""
    storage = {"pre_sign_support": signs}
    config = {"version_config": {"version": version}, "storage_config": storage}
    return [Said(204, b""), said({"user": {"id": "ann", "creation_date": 1}}), said(config)]


@pytest.mark.parametrize(
    ("version", "result"),
    [
        *(("0.113.0", "failed"), ("1.0.0", "ok"), ("v1.84.0-rc", "ok"), ("2.0", "ok")),
        *(("", "note"), ("dev", "note")),
    ],
)
def test_a_server_that_is_too_old(user: Client, version: str, result: str) -> None:
    with scripted(settings(version, False)) as server:
        found = findings(signed_in(user, server.url), 1 if result == "failed" else 0)
    assert found["version"]["result"] == result
    assert result != "failed" or f"too old: its API is that of lakeFS {version}" in str(found)
    assert found["signed URLs"]["result"] == "note"  # the other checks go on


def test_a_signed_url_is_tried(user: Client) -> None:
    repository = {"id": "lake", "default_branch": "main", "storage_namespace": "s3://b/lake"}
    stats = {"path": "a", "path_type": "object", "checksum": "", "mtime": 1}
    lists = [listed({**repository, "id": "empty"}, repository), listed(), listed(stats)]
    for status, result in ((206, "ok"), (416, "ok"), (403, "failed"), (0, "failed")):
        with scripted([Said(status, b"")] * 3) as store:
            signed = {**stats, "physical_address": f"{store.url}/a?signature=hidden"}
            with scripted([*settings("1.80.0", True), *lists, said(signed)]) as server:
                found = findings(signed_in(user, server.url), 0 if result == "ok" else 1)
            first = store.asked[0]
        assert (first.method, first.path, first.authorization) == ("GET", "/a?signature=hidden", "")
        assert found["signed URLs"]["result"] == result and "hidden" not in str(found)
        assert "127.0.0.1" in found["signed URLs"]["found"]


def test_a_signed_url_that_cannot_be_tried(user: Client) -> None:
    with scripted([*settings("1.80.0", True), listed()]) as server:
        found = findings(signed_in(user, server.url), 0)
    assert found["signed URLs"]["found"] == "offered; not tried, because no object was found"
    refused = Said(403, b'{"message": "not allowed"}')
    with scripted([*settings("1.80.0", True), refused]) as server:
        found = findings(signed_in(user, server.url), 0)
    assert found["signed URLs"]["result"] == "note"
    assert found["signed URLs"]["found"].startswith("not tried: ")


def test_others_can_read_the_secrets(lake: Lake) -> None:
    path = profiles.folder(lake.user.variables) / "credentials.toml"
    path.chmod(0o644)
    found = findings(lake.user, 1)
    assert "0644" in found["secrets"]["found"] and "chmod 600" in found["secrets"]["remedy"]
    assert found["key"]["result"] == "ok"  # the other checks go on


@contextmanager
def answering(status: int, **headers: str) -> Iterator[str]:
    """A server that is none of ours."""

    class Other(QuietHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

    with http_server(Other) as url:
        yield url


@pytest.mark.parametrize(
    ("status", "words"), [(404, "no server with the API"), (502, "answers with status 502")]
)
def test_another_server(user: Client, status: int, words: str) -> None:
    with answering(status) as url:
        found = findings(signed_in(user, url), 1)
    assert words in found["connection"]["found"]


def test_a_proxy_is_named_without_its_password(user: Client) -> None:
    with answering(204) as url:
        proxy = url.replace("//", "//me:hidden@")
        found = findings(signed_in(user, "http://lake.example"), 1, HTTP_PROXY="", http_proxy=proxy)
    assert found["proxy"]["found"] == f"requests go through {url}"
    assert found["clock"]["found"] == "the server tells no time"


@pytest.mark.parametrize(
    ("apart", "result", "words"),
    [(299, "ok", ""), (-299, "ok", ""), (301, "failed", "301 s ahead"), (-999, "failed", "behind")],
)
def test_clocks_that_are_apart(
    user: Client, apart: int, result: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in user.variables.items():
        monkeypatch.setenv(name, value)
    with answering(200, Date="Thu, 01 Jan 2026 00:00:00 GMT") as url:
        signed_in(user, url)
        clock = TickingClock((1_767_225_600 + apart) * 10**9)
        found = {each.check: each for each in examined(Invocation(), clock)}
    assert found["clock"].result == result and words in found["clock"].found
