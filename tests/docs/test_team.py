"""The walk-through of a team runs against `graveler serve`."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import lakefs
import pytest
from lakefs.exceptions import NotAuthorizedException, ServerException

from tests.cli.service import serving
from tests.docs import examples, team

KEYS = ("MYKEY", "a-secret-of-at-least-32-characters")


def test_a_team_of_five(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = team.free_port()
    allowed = ("--hooks-allow", f"127.0.0.1:{port}", "--hooks-allow-loopback")
    secret = {"GRAVELER_HOOKS_SECRET": team.SIGNING_KEY}
    with serving(tmp_path / "store", *allowed, credentials=KEYS, variables=secret) as service:
        place = team.Place(service.url, *KEYS, "local://sales/", port)
        names = team.follow(place, pause=False)
        assert team.printed(capsys.readouterr().out) == team.EXPECTED
        assert team.rights(place, names["dora"]) == [True]
        assert team.rights(place, names["cleo"]) == [False]
        _cannot_pick_past_the_check(names)
        with pytest.raises(NotAuthorizedException):
            names["main_of_ben"].object("2026/01.csv").stat()
        assert service.end()[0] == 0


def _cannot_pick_past_the_check(names: dict[str, Any]) -> None:
    """Dora may cherry-pick and revert on `main`; the check judges that too."""
    receiver = ThreadingHTTPServer(names["receiver"].server_address, names["Check"])
    Thread(target=receiver.serve_forever, daemon=True).start()
    with _ended(receiver):
        sales = lakefs.Repository("sales", client=names["dora"])
        bad = sales.branch("bad").create("main")
        bad.object("2026/03.csv").upload("3,30\n")
        commit = bad.commit("Without a header").id
        good = sales.branch("good").create("main")
        good.object("2026/03.csv").upload("id,amount\n3,30\n")
        with pytest.raises(ServerException, match="pre-cherry-pick hook aborted"):
            sales.branch("main").cherry_pick(commit)
        picked = sales.branch("main").cherry_pick(good.commit("With a header").id)
        assert sales.branch("main").revert(picked.id).id == sales.branch("main").head.id


@contextmanager
def _ended(server: ThreadingHTTPServer) -> Iterator[None]:
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def test_the_commands_of_the_document_allow_what_its_blocks_use() -> None:
    text = (examples.ROOT / team.DOCUMENT).read_text(encoding="utf-8")
    assert text.count(f"export GRAVELER_HOOKS_SECRET={team.SIGNING_KEY}\n") == 2
    assert 'LOCAL=1 ARGS="HooksAllow=127.0.0.1:8001"\n' in text
    assert "--hooks-allow 127.0.0.1:8001 --hooks-allow-loopback\n" in text
