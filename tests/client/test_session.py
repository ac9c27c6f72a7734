"""Sessions over real sockets: what is sent, asked again, raised, and never shown."""

import base64
import gzip
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from graveler.core import errors
from graveler.core.errors import GravelerError, Internal, Invalid, OutcomeUnknown, Unavailable
from graveler.lake.admin import set_up
from graveler.lake.session import Session, below, connect, paged, with_query
from tests.architecture.imports import OWNERS
from tests.client.scripted import Said, scripted
from tests.support.clockwork import TickingClock

KEY, SECRET = "AKIAKEY", "do-not-show"
BUSY = Said(503, b'{"message": "not now"}', (("Retry-After", "3"),))
DONE = Said(200, b'{"a": 1}')


class Waiting(TickingClock):
    """Notes the pauses, and makes none."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def session(url: str) -> tuple[Session, Waiting]:
    clock = Waiting()
    return replace(connect(url, KEY, SECRET), clock=clock), clock


def said(text: str, status: int) -> Said:
    return Said(status, json.dumps({"message": text}).encode())


def test_a_call_carries_the_credentials_and_json() -> None:
    with scripted([DONE, Said(204, b"")]) as server:
        assert session(server.url + "/")[0].call("POST", below("a b", "c/d"), {"x": "é"}) == {
            "a": 1
        }
        assert session(server.url + "/api/v1")[0].call("DELETE", below("a")) == {}
    first, second = server.asked
    assert (first.method, first.path) == ("POST", "/api/v1/a%20b/c%2Fd")
    assert json.loads(first.body) == {"x": "é"}
    assert (
        base64.b64decode(first.authorization.removeprefix("Basic ")).decode() == f"{KEY}:{SECRET}"
    )
    assert (second.method, second.path, second.body) == ("DELETE", "/api/v1/a", b"")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Invalid),
        (401, errors.Unauthenticated),
        (403, errors.Refused),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (418, errors.Invalid),
        (500, errors.Internal),
        (501, errors.Unsupported),
        (504, errors.OutcomeUnknown),
        (507, errors.StorageFull),
        (599, errors.Internal),
    ],
)
def test_a_status_becomes_its_kind_with_the_words_of_the_server(
    status: int, kind: type[GravelerError]
) -> None:
    match = f"because of it: {status=}"
    with scripted([said("because of it", status)]) as server:
        asking, _ = session(server.url)
        with pytest.raises(GravelerError, match=match) as caught:
            asking.call("GET", "/x")
    assert type(caught.value) is kind and len(server.asked) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"other": 1}', b"\xff"])
def test_an_error_without_a_reason_is_one_all_the_same(body: bytes) -> None:
    with scripted([Said(403, body)]) as server, pytest.raises(errors.Refused, match="no reason"):
        session(server.url)[0].call("GET", "/x")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("commit: no changes", errors.NoChanges),
        ("uncommitted changes (dirty branch)", errors.DirtyBranch),
        ("no changes are allowed", errors.Invalid),
    ],
)
def test_the_kinds_of_a_wrong_call(text: str, kind: type[GravelerError]) -> None:
    with scripted([said(text, 400)]) as server, pytest.raises(GravelerError) as caught:
        session(server.url)[0].call("POST", "/x", {})
    assert type(caught.value) is kind


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"detail": "Not Found"}'])
def test_a_url_without_an_api_is_said_to_have_none(status: int, body: bytes) -> None:
    with scripted([Said(status, body)]) as server:
        with pytest.raises(GravelerError) as caught:
            set_up(f"{server.url}/wrong", "a token", "admin")
        reason = f"no API of Graveler or lakeFS at this URL: {server.url}/wrong/api/v1"
        assert caught.value.fields["reason"] == reason
        assert server.asked[0].authorization == ""


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_busy_server_is_asked_again_after_the_pause_that_it_names(method: str) -> None:
    dated = Said(503, b"{}", (("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"),))
    with scripted([BUSY, dated, DONE]) as server:
        asking, clock = session(server.url)
        assert asking.call(method, "/x") == {"a": 1}
    assert clock.pauses == [3, 1] and len(server.asked) == 3


def test_a_server_that_stays_busy_is_asked_five_times() -> None:
    with scripted([BUSY] * 6) as server:
        asking, clock = session(server.url)
        with pytest.raises(Unavailable, match="not now"):
            asking.call("GET", "/x")
    assert clock.pauses == [3] * 4 and len(server.asked) == 5


def test_nobody_waits_for_longer_than_is_bearable() -> None:
    with scripted([Said(503, b"{}", (("Retry-After", "3600"),))]) as server:
        asking, clock = session(server.url)
        with pytest.raises(Unavailable):
            asking.call("GET", "/x")
    assert clock.pauses == [] and len(server.asked) == 1


def test_what_may_not_be_repeated_is_asked_once() -> None:
    with scripted([BUSY]) as server, pytest.raises(Unavailable) as caught:
        session(server.url)[0].call("POST", "/x", {})
    assert type(caught.value) is Unavailable
    with scripted([said("lost; outcome unknown", 503)]) as server, pytest.raises(OutcomeUnknown):
        session(server.url)[0].call("POST", "/x", {})


def test_a_removal_that_finds_nothing_the_second_time_was_done_the_first() -> None:
    gone = said("not found", 404)
    with scripted([said("outcome unknown", 503), gone, gone]) as server:
        asking, _ = session(server.url)
        assert asking.call("DELETE", "/x") == {}
        with pytest.raises(errors.NotFound):
            asking.call("DELETE", "/x")


def test_a_lost_answer_leaves_a_write_unknown_and_a_read_unavailable() -> None:
    with scripted([Said(0), Said(0)]) as server:
        asking, _ = session(server.url)
        with pytest.raises(OutcomeUnknown, match="answer was lost"):
            asking.call("POST", "/x", {})
        with pytest.raises(Unavailable) as caught:
            asking.call("GET", "/x")
        assert type(caught.value) is Unavailable


def test_an_answer_that_is_cut_short_is_a_lost_one() -> None:
    short = Said(200, b"{}", (("Content-Length", "100"),))
    with scripted([short]) as server, pytest.raises(Unavailable, match="answer was lost"):
        session(server.url)[0].call("GET", "/x")


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Session]:
    """A session with a server that another machine has, behind a proxy at the URL given."""

    def made(url: str) -> Session:
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.delenv("no_proxy", raising=False)
        return session("http://lake.example")[0]

    return made


def in_gzip(body: bytes) -> Said:
    return Said(200, body, (("Content-Encoding", "gzip"),))


def test_answers_of_a_server_far_away_come_in_gzip(far: Callable[[str], Session]) -> None:
    names = [f"orders/day={day}" for day in range(5_000)]
    with scripted([in_gzip(gzip.compress(json.dumps(names).encode())), DONE, DONE]) as proxy:
        asked = far(proxy.url)
        assert asked.call("GET", "/a") == names
        assert asked.call("GET", "/a") == asked.call("POST", "/a") == {"a": 1}
    assert proxy.codings == ["gzip", "gzip", "identity"]


def test_answers_of_this_machine_come_as_they_are() -> None:
    """Packing takes longer than sending."""
    with scripted([DONE]) as server:
        session(server.url)[0].call("GET", "/a")
    assert server.codings == ["identity"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"a": 1}', "is not"),
        (gzip.compress(b'{"a": 1}')[:-4], "does not end"),
        (gzip.compress(b'{"a": 1}') + b"more", "does not end"),
        (gzip.compress(bytes(17 << 20)), "longer than"),
    ],
    ids=["plain", "cut", "more", "endless"],
)
def test_a_damaged_or_endless_gzip_is_no_answer(
    far: Callable[[str], Session], body: bytes, reason: str
) -> None:
    with scripted([in_gzip(body)]) as proxy, pytest.raises(Internal, match=reason):
        far(proxy.url).call("GET", "/a")


def test_an_error_whose_gzip_is_damaged_keeps_its_status(far: Callable[[str], Session]) -> None:
    damaged = in_gzip(b"{}")._replace(status=503)
    with scripted([damaged, DONE]) as proxy:
        assert far(proxy.url).call("GET", "/a") == {"a": 1}


def test_credentials_follow_nobody_to_another_address() -> None:
    with scripted([DONE]) as elsewhere:
        there = Said(307, b"", (("Location", elsewhere.url + "/api/v1/x"),))
        with scripted([there]) as server, pytest.raises(Invalid, match="the server redirects"):
            session(server.url)[0].call("GET", "/x")
        assert elsewhere.asked == []


def test_what_is_no_json_is_no_answer() -> None:
    with scripted([Said(200, b"<html>")]) as server, pytest.raises(Invalid, match="not JSON"):
        session(server.url)[0].call("GET", "/x")


@pytest.mark.parametrize("pagination", [None, [], {}, {"has_more": False}])
def test_a_list_that_does_not_say_whether_it_goes_on_is_no_list(pagination: object) -> None:
    body = json.dumps({"results": [{"id": "a"}], "pagination": pagination}).encode()
    with scripted([Said(200, body)]) as server:
        items = paged(session(server.url)[0], "/x", 10)
        assert next(items) == {"id": "a"}
        with pytest.raises(Internal):
            next(items)


def test_pages_that_lead_in_a_circle_are_refused() -> None:
    pages = [
        Said(200, json.dumps({"results": [], "pagination": each}).encode())
        for each in ({"has_more": True, "next_offset": name} for name in ("a", "b", "a"))
    ]
    with scripted(pages) as server, pytest.raises(Internal, match="repeats a page"):
        list(paged(session(server.url)[0], "/x", 10))


def test_the_secret_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts = []
    with scripted([said("no", 401), Said(0), Said(200, b"x")]) as server:
        asking, _ = session(server.url)
        for _ in range(3):
            with pytest.raises(GravelerError) as caught:
                asking.call("POST", "/x", {})
            texts += [repr(caught.value), repr(caught.value.__cause__)]
    token = base64.b64encode(f"{KEY}:{SECRET}".encode()).decode()
    shown = "\n".join([repr(asking), str(asking), caplog.text, *texts])
    assert KEY in repr(asking) and SECRET not in shown and token not in shown


@pytest.mark.parametrize(
    "url",
    ["", "host:8000", "ftp://host", "http://", "http://host:port", "http://h/a b", "http://h?a=b"],
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="server URL invalid"):
        connect(url, KEY, SECRET)


def test_credentials_are_given_whole_and_apart_from_the_url() -> None:
    with pytest.raises(Invalid, match="credentials separately") as caught:
        connect(f"http://{KEY}:{SECRET}@host", KEY, SECRET)
    assert SECRET not in str(caught.value)
    for key, secret in (("", SECRET), (KEY, "")):
        with pytest.raises(Invalid, match="no credentials"):
            connect("http://host", key, secret)


def test_names_and_values_of_a_query_are_quoted() -> None:
    """A user gives the names that `graveler api --field` sends."""
    assert with_query("/x", **{"a &b": "1=2", "ü": "/#"}) == "/x?a+%26b=1%3D2&%C3%BC=%2F%23"
    several = with_query("/x?y=1", a=True, b=False, c="", d=["1", 2], e=0)
    assert several == "/x?y=1&a=true&d=1&d=2&e=0"
    assert with_query("/x", a="") == "/x"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="name invalid"):
        below("repositories", name, "events")


def test_the_package_needs_the_standard_library_alone() -> None:
    # What is loaded before belongs to whoever measures this process.
    script = (
        "import sys; before = set(sys.modules); import graveler.lake.session; "
        "print(chr(10).join(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "graveler.lake.session" in loaded and not loaded & set(OWNERS)


class Pressed(TickingClock):
    """Ctrl-C is pressed during the first pause."""

    def sleep(self, seconds: float) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(("method", "text"), [("PUT", "look whether it was done"), ("GET", "^$")])
def test_an_interrupt_between_the_attempts_of_a_write_says_that_its_outcome_is_unknown(
    method: str, text: str
) -> None:
    with scripted([BUSY]) as server:
        asking = replace(connect(server.url, KEY, SECRET), clock=Pressed())
        with pytest.raises(KeyboardInterrupt, match=text):
            asking.call(method, "/x")
