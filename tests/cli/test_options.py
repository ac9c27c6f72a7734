"""Arguments, help, and what importing the commands costs."""

import subprocess
import sys

import pytest

from graveler.cli.main import main
from graveler.cli.options import Listen, parse_listen
from graveler.errors import Invalid

HEAVY = ("fastapi", "uvicorn", "rocksdict", "lakefs", "airportsdata", "jwt", "google.protobuf")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("unknown",),
        ("serve",),
        ("serve", "--store"),
        ("serve", "--store", "x", "--unknown"),
        ("serve", "--store", "x", "--listen", "8000"),
        ("serve", "--store", "x", "--listen", "127.0.0.1:"),
        ("serve", "--store", "x", "--listen", ":8000"),
        ("serve", "--store", "x", "--listen", "127.0.0.1:65536"),
        ("serve", "--store", "x", "--listen", "127.0.0.1:-1"),
        ("serve", "--store", "x", "--listen", "::1:8000"),
        ("serve", "--store", "x", "--public-url", "lake.example"),
        ("serve", "--store", "x", "--public-url", "https://lake.example/path"),
        ("serve", "--store", "x", "--trusted-proxy", "10.0.0.1/8"),
        ("serve", "--store", "x", "--audit-mib-max", "15"),
        ("serve", "--store", "x", "--audit-mib-max", "102401"),
        ("serve", "--store", "x", "--audit-mib-max", "1e3"),
        ("demo", "--once"),
        ("verify",),
        ("credentials",),
        ("credentials", "reset"),
        ("gc", "--repository", "lake"),
        ("gc", "--store", "x", "--server", "http://127.0.0.1:1"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_how(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: graveler")


@pytest.mark.parametrize(
    ("text", "listen", "url"),
    [
        ("127.0.0.1:80", Listen("127.0.0.1", 80), "http://127.0.0.1:80"),
        ("localhost:0", Listen("localhost", 0), "http://localhost:0"),
        ("[::1]:8000", Listen("::1", 8000), "http://[::1]:8000"),
        ("0.0.0.0:8000", Listen("0.0.0.0", 8000), "http://127.0.0.1:8000"),
        ("[::]:8000", Listen("::", 8000), "http://[::1]:8000"),
    ],
)
def test_listen_addresses(text: str, listen: Listen, url: str) -> None:
    assert parse_listen(text) == listen
    assert listen.url == url


@pytest.mark.parametrize("text", ["", ":", "a", "a:b", "a:1:2", "a:\u0661"])
def test_listen_addresses_that_are_none(text: str) -> None:
    with pytest.raises(Invalid, match="listen address invalid"):
        parse_listen(text)


@pytest.mark.parametrize("command", ["serve", "demo", "verify", "credentials"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main((command, "--help"))
    assert ended.value.code == 0
    assert f"usage: graveler {command}" in capsys.readouterr().out


def test_reading_the_arguments_loads_nothing_heavy() -> None:
    script = "import sys, graveler.cli.main as m; m.parser(); print('\\n'.join(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "graveler.cli.main" in found.stdout.split()
    assert set(found.stdout.split()) & set(HEAVY) == set()
