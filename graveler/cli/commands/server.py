"""`graveler api`: any request to the API with the key of the profile."""

import json
import re
from collections import deque
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

import click

from graveler.cli.support import times
from graveler.cli.support.address import Address
from graveler.cli.support.command import client
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, at, count
from graveler.cli.support.output import Column, Styles, dumped, field, print_content
from graveler.core.errors import UsageMistake
from graveler.lake.connections import Response
from graveler.lake.session import error_of, with_query

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_CONSTANTS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_JSON_BYTES_MAX: Final = 16 << 20  # that are shown with indents
_BODY: Final = click.Path(dir_okay=False)


@client(
    "api",
    examples=(
        "graveler api GET repositories",
        "graveler api GET repositories/lake/refs/main/commits --field amount=1",
        "graveler api POST repositories/lake/branches --field name=dev --field source=main",
        "graveler api PUT auth/policies/analysts --body analysts.json",
    ),
)
@click.argument("method", type=click.Choice(_METHODS, case_sensitive=False))
@click.argument("path")
@click.option("--body", type=_BODY, metavar="FILE", help="what is sent; - is the standard input")
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="KEY=VALUE",
    help="a field of the body, or of the query of a GET (repeatable)",
)
def api(
    invocation: Invocation, method: str, path: str, body: str | None, fields: tuple[str, ...]
) -> int:
    """Send a request to the API with the key of the profile, and print the answer.

    PATH is below /api/v1.  The values true, false, null and whole numbers of a field are sent as
    such, all others as texts.  The command asks nothing before a DELETE.  An error of the server
    ends with the code of its kind.
    """
    method, path = method.upper(), _checked(path)
    values = dict(_field(text) for text in fields)
    if body is not None and values:
        raise UsageMistake("give one of --body and --field")
    sent = b""
    if body is not None:
        with click.open_file(body, "rb") as opened:
            sent = opened.read()
    elif values and method in ("GET", "HEAD"):
        path = with_query(path, **values)
    elif values:
        sent = json.dumps(values).encode()
    headers = {"Content-Type": "application/json"} if sent else {}
    with invocation.session.open(method, path, sent, headers) as answer:
        if answer.status >= 300:
            raise error_of(answer)
        _print_answer(invocation, answer)
    return 0


def _checked(path: str) -> str:
    """The path below the API.  Raises `UsageMistake` for what could lead elsewhere."""
    name, mark, query = path.removeprefix("/").partition("?")
    segments = [unquote(segment) for segment in name.split("/")]
    plain = path.isascii() and path.isprintable() and not set(path) & set(' \\#"<>')
    if not plain or "://" in name or path.startswith("//") or {".", ".."} & set(segments):
        raise UsageMistake(
            f"path invalid: {path!r}: write a path below /api/v1, such as repositories/lake; the "
            "server is that of the profile, or --server"
        )
    return f"/{name}{mark}{query}"


def _field(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageMistake(f"field invalid: it must be KEY=VALUE: {text!r}")
    if value in _CONSTANTS:
        return key, _CONSTANTS[value]
    return key, int(value) if _WHOLE.fullmatch(value) else value


def _print_answer(invocation: Invocation, answer: Response) -> None:
    is_json = answer.headers.get("Content-Type", "").startswith("application/json")
    if invocation.output.terminal and is_json:
        text = answer.read_all(_JSON_BYTES_MAX)
        if text:
            print(dumped(json.loads(text), indent=2))
        return
    print_content(iter(answer.read, b""))


_API: Final = "/api/v1"


@client(
    "open",
    examples=(
        "graveler open lake",
        "graveler open lake/main/sales/",
        "graveler open lake/main --print",
        "graveler open lake/main/sales/ --at '2 days ago'",
    ),
)
@address_argument("address", metavar="[REPOSITORY[/REF[/PATH]]]", required=False)
@click.option("--print", "only_print", is_flag=True, help="print the URL, and open nothing")
@at
def open_command(invocation: Invocation, address: str | None, only_print: bool) -> int:
    """Open the page of a repository, a ref or an object in the browser, and print its URL.

    The URLs are those of the web interface of lakeFS.  A server without one shows a page that says
    so.  Nothing is opened where no terminal is.
    """
    place = invocation.address(address) if address else None
    if place is not None and place.ref:
        place = times.then(invocation, place)
    elif times.is_past(invocation):
        raise UsageMistake("--at needs a REF")
    url = page(invocation.session.url.removesuffix(_API), place)
    invocation.output.record({"graveler": {"url": url}}, [url])
    if not only_print and invocation.may_ask():
        import webbrowser

        webbrowser.open(url)
    return 0


def page(server: str, place: Address | None) -> str:
    """The URL of the page of an address."""
    if place is None:
        return f"{server}/repositories"
    where = f"{server}/repositories/{quote(place.repository, safe='')}"
    if not place.ref:
        return f"{where}/objects"
    if place.path and not place.path.endswith("/"):
        return f"{where}/object?{urlencode({'ref': place.ref, 'path': place.path})}"
    pairs = {"ref": place.ref, **({"path": place.path} if place.path else {})}
    return f"{where}/objects?{urlencode(pairs)}"


_AUDITED: Final = (
    field("time", "time"),
    field("user"),
    field("operation"),
    field("outcome"),
    field("status"),
    Column("RESOURCES", lambda line: " ".join(line.get("resources", ()))),
)
_STYLES: Final[Styles] = ("outcome", {"denied": {"fg": "red"}, "failed": {"fg": "yellow"}})
_OUTCOMES: Final = ("done", "denied", "failed", "unknown")


@client(
    "audit",
    examples=(
        "graveler audit -n 20                          # of the last day",
        "graveler audit --since '2 weeks ago' --user ann",
        "graveler audit --action deleteBranch --outcome done --json",
    ),
)
@click.option("--since", default="", metavar="TIME", help="default: a day before --until")
@click.option("--until", default="", metavar="TIME", help="default: now")
@click.option("--user", default="", metavar="USER", help="only what this user did")
@click.option("--action", default="", metavar="OPERATION", help="of the API, such as deleteBranch")
@click.option("--outcome", type=click.Choice(_OUTCOMES), help="only lines with it")
@click.option("--resource", default="", metavar="ARN", help="only ARNs that begin with it")
@count
def audit(
    invocation: Invocation,
    since: str,
    until: str,
    user: str,
    action: str,
    outcome: str | None,
    resource: str,
    amount: int | None,
) -> int:
    """List the changes and denials of the last days, the newest first.

    The server sends the oldest first, so the command reads the whole span of time before it prints.
    """
    found = invocation.lake.admin.audit(
        since=times.parse(since) if since else None,
        until=times.parse(until) if until else None,
        user=user,
        operation=action,
        outcome=outcome or "",
        resource=resource,
    )
    lines = deque(found, maxlen=amount)
    invocation.output.items(
        _AUDITED, reversed(lines), _STYLES, none="no lines: give --since TIME to look further back"
    )
    return 0


_MONTHS = (
    Column("MONTH", lambda month: f"{month['year']}-{month['month']:02}"),
    field("count", "count", "REQUESTS"),
)


@client("usage", examples=("graveler usage", "graveler usage --json"))
def usage(invocation: Invocation) -> int:
    """Show how many requests the server has answered, by month."""
    report = invocation.lake.admin.usage()
    if invocation.output.form == "json":
        invocation.output.record(report, ())
    elif not invocation.output.items(_MONTHS, report["reports"]):
        invocation.output.note("no requests yet")
    return 0
