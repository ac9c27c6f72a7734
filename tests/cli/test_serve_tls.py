"""`graveler serve` with a certificate: ready, served to stock clients, and refused in one line."""

import json
import shutil
import signal
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cli.commands import Client
from tests.cli.service import KEY, SECRET, WAIT_SECONDS, started
from tests.tls import certified

LISTEN = ("--listen", "127.0.0.1:0")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_clients_with_the_certificate_are_served_by_https(user: Client, tmp_path: Path) -> None:
    """On every interface, as TLS guards the credentials."""
    files = certified(tmp_path)
    store, given = tmp_path / "store", _given(files.certificate, files.key)
    with started("serve", "--store", str(store), "--listen", "0.0.0.0:0", *given) as service:
        assert service.url.startswith("https://127.0.0.1:")
        trust = ssl.create_default_context(cafile=files.certificate)
        with httpx.Client(
            base_url=f"{service.url}/api/v1", auth=(KEY, SECRET), verify=trust
        ) as api:
            body = {"name": "lake", "storage_namespace": "local://lake/"}
            assert api.post("/repositories", json=body).status_code == 201
        user.variables |= {
            "SSL_CERT_FILE": str(files.certificate),
            "LAKECTL_SERVER_ENDPOINT_URL": service.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": KEY,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET,
        }
        (tmp_path / "file").write_bytes(b"content" * 100_000)
        assert user.run("cp", str(tmp_path / "file"), "lakefs://lake/main/a").code == 0
        assert user.run("cp", "lakefs://lake/main/a", str(tmp_path / "back")).code == 0
        assert (tmp_path / "back").read_bytes() == b"content" * 100_000
        where = f"{service.url}/api/v1/repositories/lake/refs/main/objects/stat?path=a"
        curl = ["curl", "-sS", "-u", f"{KEY}:{SECRET}", "--cacert", str(files.certificate), where]
        said = subprocess.run(curl, capture_output=True, timeout=WAIT_SECONDS, check=True).stdout
        assert json.loads(said)["size_bytes"] == 700_000
        user.variables["LAKECTL_SERVER_ENDPOINT_URL"] = f"http://{urlsplit(service.url).netloc}"
        plain = user.run("repo", "list")
        assert plain.code != 0 and "only https" in plain.err
        code, _, errors = service.end(signal.SIGTERM)
    assert code == 0 and "only https" in errors


def _given(certificate: Path, key: Path) -> tuple[str, ...]:
    return ("--tls-certificate", str(certificate), "--tls-key", str(key))


@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_files_that_cannot_be_used_are_refused_before_a_store_is_touched(
    user: Client, tmp_path: Path, command: str
) -> None:
    certified(tmp_path)
    given = _given(tmp_path / "certificate.pem", tmp_path / "none.pem")
    where = ("--store", str(tmp_path / "store"))
    where = where if command == "serve" else ("--stack", "lake", "--bucket", "lake")
    result = user.run(command, *where, *LISTEN, *given)
    assert result.code == 1 and result.err.count("\n") == 1
    assert f"not read: No such file or directory: --tls-key={tmp_path / 'none.pem'}" in result.err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("--tls-certificate", "c.pem"), "needs both --tls-certificate FILE and --tls-key FILE"),
        (("--tls-key", "k.pem"), "needs both --tls-certificate FILE and --tls-key FILE"),
        (
            ("--tls-certificate", "c", "--tls-key", "k", "--public-url", "http://lake.example"),
            "it must be https://HOST[:PORT]",
        ),
    ],
)
def test_options_that_contradict_one_another_are_refused(
    user: Client, tmp_path: Path, given: tuple[str, ...], reason: str
) -> None:
    result = user.run("serve", "--store", str(tmp_path / "store"), *LISTEN, *given)
    assert result.code == 1 and reason in result.err and result.err.count("\n") == 1


def test_an_expired_certificate_is_served_with_a_warning(tmp_path: Path) -> None:
    files = certified(tmp_path, range(-9, -1))
    store, given = tmp_path / "store", _given(files.certificate, files.key)
    with started("serve", "--store", str(store), *LISTEN, *given) as service:
        assert "clients refuse the certificate: it expired at" in service.said()
        assert service.end()[0] == 0
