"""Arguments of the commands that run and tend a store."""

import pytest

from graveler.cli.main import main
from graveler.cli.support.serve_options import Listen, parse_listen
from graveler.core.errors import Invalid


@pytest.mark.parametrize(
    "arguments",
    [
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
        ("credentials", "reset"),
        ("gc", "--repository", "lake"),
        ("gc", "--store", "x", "--server", "http://127.0.0.1:1"),
        ("gc", "--store", "x", "--delete", "--undo", "RUN"),
        ("credentials", "reset", "--store", "x", "--stack", "y"),
        ("credentials", "rotate"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_how(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    message, hint = capsys.readouterr().err.splitlines()[:2]
    assert message.startswith("graveler: ") and hint.startswith("try: graveler")


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
