"""`graveler doctor`: why a client command would fail, and the remedy.

    configuration ─► URL ─► proxy ─► connection ─► TLS ─► clock ─► key ─► API ─► version
        ─► signed URLs

Each check needs those before it; after a failure, the checks that need it are left out.  Costs
three requests, and at most six more for a signed URL.  None of them writes.
"""

import re
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from graveler.cli.support.command import client
from graveler.cli.support.failures import DONE, FAILED, NOT_REACHED
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.output import Styles, field
from graveler.core.clock import Clock, SystemClock
from graveler.core.errors import Code, GravelerError, Invalid, Unauthenticated, Unavailable
from graveler.core.settings import environment
from graveler.lake import profiles
from graveler.lake.connections import Connections, Request, proxy_of
from graveler.lake.lake import Lake
from graveler.lake.profiles import Profile
from graveler.lake.session import api_url

T = TypeVar("T")
_APART_SECONDS_MAX: Final = 300  # of two clocks: beyond it, S3 clients' signatures are refused
_WIDE: Final = 0o077
_ANSWER_BYTES_MAX: Final = 1 << 20
_VERSION_MIN: Final = (1, 0)  # of lakeFS: it keeps its API compatible from there on
_REPOSITORIES_TRIED: Final = 3  # for an object whose signed URL can be read
_SIGNED: Final = "signed URLs"
_BYTE_STATUSES: Final = (200, 206, 416)  # 416: of an object without bytes
_COLUMNS: Final = (field("check"), field("result"), field("found"), field("remedy"))
_STYLES: Final[Styles] = (
    "result",
    {"ok": {"fg": "green"}, "note": {"fg": "yellow"}, "failed": {"fg": "red", "bold": True}},
)


class Finding(NamedTuple):
    """What a check found.  `remedy`: what to do; empty if nothing."""

    check: str
    result: Literal["ok", "note", "failed"]
    found: str
    remedy: str = ""


class _Ended(Exception):
    """A check failed, and what follows needs it."""


@client("doctor", examples=("graveler doctor", "graveler doctor --profile prod --json"))
def doctor(invocation: Invocation) -> int:
    """Find out why commands fail: URL, proxy, TLS, clock, version, key, signed URLs.

    Ends with 1 if a check fails.  Nothing is changed.
    """
    findings: list[Finding] = []

    def noted() -> Iterator[dict[str, str]]:
        for finding in examined(invocation):
            findings.append(finding)
            yield finding._asdict()

    invocation.output.items(_COLUMNS, noted(), _STYLES)
    return FAILED if any(each.result == "failed" for each in findings) else DONE


def examined(invocation: Invocation, clock: Clock | None = None) -> Iterator[Finding]:
    """The findings, one after the other.  `clock`: that of this machine."""
    try:
        profile, finding = _tried(
            "configuration", lambda: invocation.profile, "graveler config list"
        )
        yield finding._replace(found=profile.source)
        yield from _files()
        api, finding = _tried("URL", lambda: _url(profile), "graveler login URL")
        yield finding._replace(found=api)
        yield from _proxy(api)
        connections = Connections()
        date, finding = _tried("connection", lambda: _date(connections, api), NOT_REACHED)
        yield finding
        if api.startswith("https:"):
            yield Finding("TLS", "ok", "the certificate is trusted")
        yield _apart(date, clock or SystemClock())
        lake, finding = _tried(
            "credentials", lambda: Lake(profiles.session(profile, connections)), ""
        )
        yield finding._replace(found=profile.access_key_id or "a session token")
        user, finding = _tried(
            "key",
            lambda: _user(lake, profile),
            f"make another key, then: graveler login {profile.server}",
        )
        yield finding._replace(found=f"user {user}")
        settings, finding = _tried("API", lambda: lake.config(), "is this the URL of the API?")
        yield finding._replace(found=f"speaks lakeFS {_version(settings) or '?'}")
        yield _judged(_version(settings))
        yield _signed(settings, lake, connections)
    except _Ended as ended:
        yield ended.args[0]


def _tried(check: str, act: Callable[[], T], remedy: str) -> tuple[T, Finding]:
    try:
        return act(), Finding(check, "ok", "")
    except GravelerError as error:
        reason = error.fields.get("reason", "") or str(error)
        remedy = error.fields.get("remedy", remedy)
        if error.code is Code.CERTIFICATE_REFUSED:
            check = "TLS"
        raise _Ended(Finding(check, "failed", reason, remedy)) from error


def _files() -> Iterator[Finding]:
    """Whether others can read our secrets."""
    path = profiles.folder(environment()) / "credentials.toml"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    if mode & _WIDE:
        words = f"{path} has mode {mode:04o}: other users can read it"
        yield Finding("secrets", "failed", words, f"chmod 600 {path}; then change the key")


def _url(profile: Profile) -> str:
    profile.check_server()
    return api_url(profile.server)


def _proxy(api: str) -> Iterator[Finding]:
    proxy = proxy_of(api)
    if proxy is not None:
        yield Finding(
            "proxy", "note", f"requests go through {proxy}", "NO_PROXY=HOST leaves it out"
        )


def _date(connections: Connections, api: str) -> str:
    """The time that the server tells with its answer."""
    with connections.send(Request("GET", f"{api}/healthcheck")) as answer:
        answer.read_all(_ANSWER_BYTES_MAX)
        if answer.status >= 500:
            raise Unavailable(f"the server answers with status {answer.status}")
        if answer.status >= 300:
            raise Invalid(f"this is no server with the API of lakeFS: status {answer.status}")
        return answer.headers.get("Date", "")


def _apart(date: str, clock: Clock) -> Finding:
    try:
        server_time = parsedate_to_datetime(date)
    except ValueError:
        return Finding("clock", "note", "the server tells no time")
    if server_time.tzinfo is None:  # "-0000": UTC, without a place
        server_time = server_time.replace(tzinfo=UTC)
    here = datetime.fromtimestamp(clock.now_ns() / 1e9, UTC)
    seconds = round((here - server_time).total_seconds())
    if abs(seconds) <= _APART_SECONDS_MAX:
        return Finding("clock", "ok", "as the server's")
    words = f"{abs(seconds):,} s {'ahead of' if seconds > 0 else 'behind'} the server's"
    return Finding("clock", "failed", words, "set the time of this machine, or of the server")


def _user(lake: Lake, profile: Profile) -> str:
    try:
        return lake.whoami()
    except Unauthenticated as error:
        reason = profile.not_accepted()["reason"]
        error.fields = {**error.fields, "reason": reason}
        raise


def _version(settings: Any) -> str:
    version = settings.get("version_config") if isinstance(settings, dict) else None
    return str(version.get("version", "")) if isinstance(version, dict) else ""


def _judged(version: str) -> Finding:
    """Whether the server is new enough."""
    least = ".".join(map(str, _VERSION_MIN))
    numbers = re.match(r"v?(\d{1,6})\.(\d{1,6})", version)
    if numbers is None:
        remedy = f"its owner knows whether its API is that of lakeFS {least} or later"
        return Finding("version", "note", "the server tells no version", remedy)
    if (int(numbers[1]), int(numbers[2])) < _VERSION_MIN:
        words = f"the server is too old: its API is that of lakeFS {version}"
        return Finding("version", "failed", words, f"use a server with lakeFS {least} or later")
    return Finding("version", "ok", f"lakeFS {least} or later")


def _signed(settings: Any, lake: Lake, connections: Connections) -> Finding:
    storage = settings.get("storage_config") if isinstance(settings, dict) else None
    if not (isinstance(storage, dict) and storage.get("pre_sign_support")):
        remedy = "if it is yours: serve --public-url URL"
        return Finding(_SIGNED, "note", "contents go through the server", remedy)
    try:
        url = _signed_url(lake)
    except GravelerError as error:
        reason = error.fields.get("reason", "") or str(error)
        return Finding(_SIGNED, "note", f"not tried: {reason}", "may this user read objects?")
    if not url:
        return Finding(_SIGNED, "ok", "offered; not tried, because no object was found")
    return _tried_url(connections, url)


def _signed_url(lake: Lake) -> str:
    """A URL with which an object can be read; empty if the first repositories have none."""
    for repository in lake.repositories(limit=_REPOSITORIES_TRIED):
        branch = repository.default_branch
        for known in branch.list(limit=1):
            return branch.stat(known.path, presign=True).address
    return ""


def _tried_url(connections: Connections, url: str) -> Finding:
    """Read one byte by a signed URL.  Its query is a secret, so only its host is named."""
    host = "the object store"
    try:
        host = urlsplit(url).hostname or host
        with connections.send(Request("GET", url, headers={"Range": "bytes=0-0"})) as answer:
            status = answer.status
    except (Invalid, ValueError):
        return Finding(_SIGNED, "failed", "a signed URL of the server is none", "tell its owner")
    except GravelerError as error:
        words = f"{host} does not answer: {error.fields.get('reason', '') or error}"
        remedy = f"may this machine reach {host}? --no-pre-sign, where a command has it, avoids it"
        return Finding(_SIGNED, "failed", words, remedy)
    if status not in _BYTE_STATUSES:
        words = f"{host} refuses a signed URL: status {status}"
        return Finding(_SIGNED, "failed", words, "is the clock of the server right? may it read?")
    return Finding(_SIGNED, "ok", f"contents go directly to and from {host}; one was read")
