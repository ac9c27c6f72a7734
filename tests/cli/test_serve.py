"""`graveler serve`: ready, served, stopped in order, and refused in one line."""

import http.client
import os
import re
import shlex
import signal
import socket
import time
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import httpx
import pytest

from graveler.core import limits
from tests.cli.commands import Client
from tests.cli.service import KEY, SECRET, repository, run, serving, started
from tests.waiting import PATIENCE_SECONDS, until

HOST = "127.0.0.1"


def test_serves_until_a_signal_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    branch = ""
    acknowledged: list[str] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM):
        with serving(tmp_path / "store") as service, service.client() as client:
            assert httpx.get(f"{service.url}/_health").status_code == 200
            assert httpx.get(f"{service.url}/healthcheck").status_code == 200
            assert "Graveler is running" in httpx.get(service.url).text
            for path in acknowledged:
                got = client.get("/repositories/lake/refs/main/objects", params={"path": path})
                assert (got.status_code, got.text) == (200, path)
            path = f"after {len(acknowledged)} stops"
            branch = branch or repository(client)
            put = client.post(f"{branch}/objects", params={"path": path}, content=path.encode())
            assert put.status_code == 201
            acknowledged.append(path)
            assert service.end(number) == (0, "graveler: stopped\n", "")


def test_a_stop_waits_for_the_body_of_a_request_that_has_begun(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as service, service.client() as client:
        branch = repository(client)
        where = urlsplit(service.url)
        assert where.hostname and where.port
        connection = http.client.HTTPConnection(
            where.hostname, where.port, timeout=PATIENCE_SECONDS
        )
        path = f"/api/v1{branch}/objects?path=slow"
        connection.putrequest("POST", path)
        connection.putheader("Authorization", httpx.BasicAuth(KEY, SECRET)._auth_header)
        connection.putheader("Content-Length", "6")
        connection.endheaders(b"abc")
        assert client.get("/config").status_code == 200  # so the first bytes have arrived, too
        service.process.send_signal(signal.SIGTERM)
        until(lambda: _refused(where), "it listens no more")
        connection.send(b"def")
        answer = connection.getresponse()
        assert answer.status == 201
        answer.read()
        connection.close()
        code, _, err = service.ended()
        assert (code, err) == (0, "")


def _refused(where: SplitResult) -> bool:
    try:
        socket.create_connection((where.hostname, where.port), timeout=PATIENCE_SECONDS).close()
    except OSError:
        return True
    return False


def test_credentials_of_the_environment_are_those_of_the_administrator(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serving(store) as service, service.client() as client:
        assert client.get("/user").json()["user"]["id"] == "admin"
        assert client.post("/setup_lakefs", json={"username": "other"}).status_code == 409
        assert service.end()[0] == 0
    with serving(
        store, credentials=("OTHERKEY", "other-secret-of-at-least-32-characters")
    ) as service:
        with service.client(("OTHERKEY", "other-secret-of-at-least-32-characters")) as client:
            assert client.get("/user").status_code == 200
        with service.client() as client:
            assert client.get("/user").status_code == 401


def test_a_secret_that_can_be_guessed_is_refused(tmp_path: Path) -> None:
    """Also where the administrator of an earlier version has it."""
    short = "s" * 31
    keys = {"GRAVELER_ACCESS_KEY_ID": "MYKEY", "GRAVELER_SECRET_ACCESS_KEY": short}
    found = run("serve", "--store", str(tmp_path / "store"), "--listen", f"{HOST}:0", **keys)
    assert found.returncode == 1
    said = _only_line(found.stderr)
    assert "secret_access_key invalid: it must be 32 to 128" in said and short not in said


def test_a_folder_of_somebody_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    found = run("serve", "--store", str(tmp_path), "--listen", f"{HOST}:0")
    assert found.returncode == 1
    said = _only_line(found.stderr)
    assert "choose a new or an empty folder" in said and "notes.txt" in said
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_without_credentials_the_service_waits_for_the_set_up_call(tmp_path: Path) -> None:
    with serving(tmp_path / "store", credentials=None) as service:
        with httpx.Client(base_url=f"{service.url}/api/v1") as client:
            assert client.get("/setup_lakefs").json()["state"] == "not_initialized"
            assert client.post("/setup_lakefs", json={"username": "eve"}).status_code == 403
            token = {"X-Graveler-Setup-Token": _token(service.said())}
            made = client.post("/setup_lakefs", json={"username": "me"}, headers=token).json()
            keys = (made["access_key_id"], made["secret_access_key"])
            assert client.get("/user", auth=keys).json()["user"]["id"] == "me"
        assert service.end()[0] == 0


def test_a_service_that_writes_much_to_its_log_goes_on(tmp_path: Path) -> None:
    prelude = "import sys; print('x' * 200_000, file=sys.stderr); "
    with serving(tmp_path / "store", prelude=prelude) as service:
        assert len(service.end()[2]) > 200_000


def _token(log: str) -> str:
    told, asked, *_ = log.splitlines()
    login = r"in another terminal: graveler login http://127\.0\.0\.1:\d+ --setup$"
    assert re.search(login, told)
    found = re.search(r"it asks for this setup token: (\S+)", asked)
    assert found is not None
    return found[1]


def test_a_second_process_on_the_store_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serving(store) as service:
        second = run("serve", "--store", str(store), "--listen", f"{HOST}:0")
        assert second.returncode == 1
        assert _only_line(second.stderr).startswith("graveler serve: ")
        assert "another process uses the folder; stop that process" in second.stderr
        assert str(service.process.pid) in second.stderr
        for command in (("verify",), ("credentials", "reset")):
            assert run(*command, "--store", str(store)).returncode == 6
        assert httpx.get(f"{service.url}/_health").status_code == 200


def test_a_port_in_use_is_refused_before_the_store_is_touched(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        where = f"{HOST}:{taken.getsockname()[1]}"
        for command in ("serve", "demo"):
            found = run(command, "--store", str(tmp_path / "store"), "--listen", where)
            assert found.returncode == 1
            assert "the port is in use; stop who uses it" in _only_line(found.stderr)
            assert where in found.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_the_store_may_be_named_by_a_variable(tmp_path: Path, command: str) -> None:
    """The folder that is chosen is seen in the refusal of its content."""
    chosen, other = tmp_path / "chosen", tmp_path / "other"
    for folder in (chosen, other):
        folder.mkdir()
        (folder / "file").touch()
    listen = ("--listen", f"{HOST}:0")
    found = run(command, *listen, GRAVELER_STORE=str(chosen))
    assert found.returncode == 1 and str(chosen) in _only_line(found.stderr)
    found = run(command, *listen, "--store", str(other), GRAVELER_STORE=str(chosen))
    assert found.returncode == 1 and str(other) in _only_line(found.stderr)
    missing = run(command, *listen, GRAVELER_STORE="")
    assert missing.returncode == 2 and "--store" in missing.stderr


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    folder = Path("/proc/graveler-store")  # where not even root can
    if os.geteuid() != 0:
        tmp_path.chmod(0o555)
        folder = tmp_path / "store"
    found = run("serve", "--store", str(folder), "--listen", f"{HOST}:0")
    tmp_path.chmod(0o755)
    assert found.returncode == 1
    assert "is not writable: make it writable or choose another" in _only_line(found.stderr)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--listen", "192.0.2.1:8000"), "this machine has no such address; try 127.0.0.1"),
        (("--listen", "127.0.0.1:0", "--import-root", "nowhere/at/all"), "must be a folder"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(
    tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    found = run("serve", "--store", str(tmp_path / "store"), *more)
    assert found.returncode == 1
    assert said in _only_line(found.stderr)


def test_behind_a_proxy_urls_and_cookies_are_those_of_the_public_side(tmp_path: Path) -> None:
    login = {"access_key_id": KEY, "secret_access_key": SECRET}
    front = ("--public-url", "https://lake.example/", "--trusted-proxy", "127.0.0.0/8")
    with serving(tmp_path / "store", *front) as service, service.client() as client:
        repository(client)
        assert client.get("/config/storage").json()["pre_sign_support"] is True
        where, query = "/repositories/lake/branches/main/staging/backing", {"path": "a"}
        given = client.get(where, params={**query, "presign": "true"}).json()
        assert given["presigned_url"].startswith("https://lake.example/_presigned/")
        assert "Secure" in client.post("/auth/login", json=login).headers["set-cookie"]
    proxy = ("--trusted-proxy", "127.0.0.1", "--trusted-proxy", "::1")
    with serving(tmp_path / "store", *proxy) as service, service.client() as client:
        plain = client.post("/auth/login", json=login)
        over_tls = client.post("/auth/login", json=login, headers={"X-Forwarded-Proto": "https"})
        assert "Secure" not in plain.headers["set-cookie"]
        assert over_tls.headers["set-cookie"].startswith("__Host-")


def test_other_machines_are_served_by_tls_alone(tmp_path: Path) -> None:
    """The address of every interface is that of other machines too."""
    where = ("--store", str(tmp_path / "store"), "--listen", "0.0.0.0:0")
    for command in ("serve", "demo"):
        refused = run(command, *where)
        assert refused.returncode == 1
        assert "credentials would cross the network by plain HTTP" in _only_line(refused.stderr)
    for more in (("--insecure-http",), ("--trusted-proxy", "192.0.2.1")):
        with started("serve", *where, *more) as service, service.client() as client:
            assert client.get("/config").status_code == 200  # from this machine


def test_logins_come_by_a_host_name_that_is_known(tmp_path: Path) -> None:
    login = {"access_key_id": KEY, "secret_access_key": SECRET}
    with serving(tmp_path / "store", "--allowed-host", "lake") as service:
        where = f"{service.url}/api/v1/auth/login"
        statuses = {
            host: httpx.post(where, json=login, headers={"Host": host}).status_code
            for host in ("lake:8000", "localhost", "evil.example")
        }
    assert statuses == {"lake:8000": 200, "localhost": 200, "evil.example": 403}


def test_one_of_two_credentials_in_the_environment_is_refused(tmp_path: Path) -> None:
    where = ("--store", str(tmp_path / "store"), "--listen", f"{HOST}:0")
    found = run("serve", *where, GRAVELER_ACCESS_KEY_ID="KEY")
    assert found.returncode == 1
    assert "set both" in _only_line(found.stderr)


def test_commits_of_more_rows_than_it_is_told_are_left_to_spark(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--commit-rows-max", "1") as service:
        with service.client() as client:
            where = repository(client)
            told = []
            for path in ("a", "b"):
                assert client.post(f"{where}/objects", params={"path": path}).status_code == 201
                told.append(client.post(f"{where}/commits", json={"message": "m"}).status_code)
            for path in ("c", "d"):
                assert client.post(f"{where}/objects", params={"path": path}).status_code == 201
            refused = client.post(f"{where}/commits", json={"message": "m"})
        assert told == [201, 201]
        assert refused.status_code == 503 and "handed over" in refused.json()["message"]


def test_without_syncs_it_warns_and_a_kill_loses_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--sync", "off") as service, service.client() as client:
        put = client.post(f"{repository(client)}/objects", params={"path": "a"}, content=b"one")
        assert put.status_code == 201
        _, _, err = service.end(signal.SIGKILL)
        line = _only_line(err)
        assert "warning: sync is off" in line and "acknowledged uploads, commits" in line
    with serving(tmp_path / "store") as service, service.client() as client:
        got = client.get("/repositories/lake/refs/main/objects", params={"path": "a"})
        assert (got.status_code, got.content) == (200, b"one")
        code, _, err = service.end(signal.SIGTERM)
        assert (code, err) == (0, "")


def _only_line(text: str) -> str:
    assert text.count("\n") == 1, text
    return text


def test_the_audit_trail_outlasts_the_service(tmp_path: Path) -> None:
    """What was changed right before a stop is on record after it; and only the owner may look."""
    with serving(tmp_path / "store") as service, service.client() as client:
        branch = repository(client)
        put = client.post(f"{branch}/objects", params={"path": "a"}, content=b"one")
        assert put.status_code == 201
        assert service.end(signal.SIGTERM)[0] == 0
    (file,) = (tmp_path / "store" / "audit").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert SECRET not in file.read_text() and put.headers["x-request-id"] in file.read_text()
    with serving(tmp_path / "store") as service, service.client() as client:
        found = client.get("/audit", params={"operation": "uploadObject"}).json()["results"]
        assert [each["request_id"] for each in found] == [put.headers["x-request-id"]]
        assert found[0]["resources"] == ["arn:lakefs:fs:::repository/lake/object/a"]


def test_the_audit_trail_has_the_size_that_it_is_given(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "audit"
    folder.mkdir(parents=True)
    now = time.time_ns() // 1_000_000
    files = [folder / f"{now - age:015}.jsonl" for age in (6, 5, 4, 3, 2, 1)]
    for file in files:  # full: the next line begins another one
        with file.open("wb") as written:
            written.seek(limits.audit_file_bytes_max - 1)
            written.write(b"\n")
    with serving(tmp_path / "store", "--audit-mib-max", "16") as service:
        with service.client() as client:
            repository(client)
        assert service.end(signal.SIGTERM)[0] == 0
    kept = sorted(folder.iterdir())
    assert kept[:-1] == files[2:] and b"createRepository" in kept[-1].read_bytes()


def test_s3_clients_are_served_at_a_domain_and_by_their_signature(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--s3-domain", "S3.lake.test") as service:
        answers = {
            host: httpx.get(service.url, headers={"Host": host}).headers["content-type"]
            for host in ("s3.lake.test", "b.s3.lake.test:80", "lake.test")
        }
        signed = httpx.get(service.url, headers={"Authorization": "AWS4-HMAC-SHA256 x"})
    assert answers == {
        "s3.lake.test": "application/xml",
        "b.s3.lake.test:80": "application/xml",
        "lake.test": "text/html; charset=utf-8",
    }
    assert (signed.status_code, b"AuthorizationHeaderMalformed" in signed.content) == (400, True)
    where = ("--store", str(tmp_path / "store"), "--listen", f"{HOST}:0")
    public = ("--public-url", "https://api.lake.test")
    for names in (
        ("--s3-domain", "api.lake.test", *public),
        ("--s3-domain", "s3.lake.test", "--s3-domain", "lake.test", *public),
        ("--s3-domain", "Other.test", "--allowed-host", "other.test"),
    ):
        refused = run("serve", *where, *names)
        assert refused.returncode != 0
        assert "--s3-domain must not cover a host name of the API" in refused.stderr
    refused = run("serve", *where, "--s3-domain", "s3.lake.test:80")
    assert refused.returncode == 2
    assert "domain invalid" in refused.stderr


def test_a_newcomer_gets_from_nothing_to_a_merged_branch(user: Client, tmp_path: Path) -> None:
    """The first steps of `graveler --help`, as they stand there."""
    steps = user.run("--help").out.partition("First steps")[2].splitlines()[1:]
    lines = [step.partition("  #")[0].strip() for step in steps if "  graveler " in step]
    assert lines[0] == "graveler serve --store DIR" and len(lines) == 7
    file = tmp_path / "prices.csv"
    file.write_bytes(b"id,price\n1,10\n")
    with serving(tmp_path / "store", credentials=None) as service:
        told, asked, *_ = service.said().splitlines()
        assert told.endswith(f"in another terminal: graveler login {service.url} --setup")
        token = asked.rpartition(" ")[2].encode()
        words = shlex.split(lines[1].replace("http://127.0.0.1:8000", service.url))[1:]
        refused = user.run(*words, input=b"another\n")
        assert refused.code == 4 and "setup token missing or wrong" in refused.err
        signed_in = user.run(*words, input=token)
        assert signed_in.out == f"signed in to {service.url} as admin: profile default\n"
        for line in lines[2:]:
            done = user.run(*shlex.split(line.replace("FILE", str(file)))[1:])
            assert done.code == 0, (line, done)
        assert user.run("cat", "lake/main/prices.csv").out == "id,price\n1,10\n"
        again = user.run(*words, input=token)
        assert again.code == 5 and user.run("whoami").code == 0
