"""The limit of open files: raised to what connections need, or fewer connections."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from graveler.cli.support.host import allow_many, lowered
from graveler.http.connections import ConnectionLimits
from tests.cli.service import Service, serving

LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({}, {}));"


def _status(service: Service, held: ExitStack) -> int:
    """What a new connection, which stays open, is answered."""
    url = urlsplit(service.url)
    raw = held.enter_context(socket.create_connection((url.hostname, url.port), timeout=60))
    raw.sendall(b"GET /_health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return int(raw.recv(12, socket.MSG_WAITALL).split()[1])


def test_a_low_soft_limit_is_raised(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "store", prelude=LIMIT.format(200, 8_192)) as service,
        ExitStack() as held,
    ):
        assert [_status(service, held) for _ in range(300)] == [200] * 300
        code, _, err = service.end()
        assert (code, err) == (0, "")


def test_a_low_hard_limit_means_fewer_connections(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "store", prelude=LIMIT.format(300, 300)) as service,
        ExitStack() as held,
    ):
        assert [_status(service, held) for _ in range(18)] == [200] * 18
        assert _status(service, held) == 429
        code, _, err = service.end()
        assert code == 0 and "serves at most 75 connections instead of 2000" in err


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (1_000_000, (2_000, 500, 100)),
        (4_512, (2_000, 500, 100)),
        (4_511, (1_999, 499, 100)),
        (1_024, (256, 64, 64)),
        (256, (64, 16, 16)),
        (4, (1, 1, 0)),
    ],
)
def test_connections_fit_into_the_files(files: int, expected: tuple[int, int, int]) -> None:
    found = lowered(ConnectionLimits(), files)
    assert (found.connections_max, found.per_address_max, found.refused_max) == expected


@pytest.mark.parametrize(
    ("limit", "raised"),
    [
        ((1_024, 1_048_576), [(16_384, 1_048_576)]),
        ((1_024, 4_096), [(4_096, 4_096)]),
        ((1_024, resource.RLIM_INFINITY), [(16_384, resource.RLIM_INFINITY)]),
        ((65_536, 65_536), []),
        ((resource.RLIM_INFINITY,) * 2, []),
    ],
)
def test_the_store_gets_many_files_where_the_system_allows_them(
    monkeypatch: pytest.MonkeyPatch, limit: tuple[int, int], raised: list[tuple[int, int]]
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limit)
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: asked.append(pair))
    allow_many()
    assert asked == raised
