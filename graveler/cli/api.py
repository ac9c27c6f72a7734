"""`graveler api`: any request to the API with the key of the profile."""

import json
import re
from typing import Any, Final
from urllib.parse import unquote

import click

from graveler.cli.address import UsageMistake
from graveler.cli.command import client
from graveler.cli.invocation import Invocation
from graveler.cli.output import dumped, print_content
from graveler.client.connections import Response
from graveler.client.session import error_of, with_query

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
        _print(invocation, answer)
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


def _print(invocation: Invocation, answer: Response) -> None:
    is_json = answer.headers.get("Content-Type", "").startswith("application/json")
    if invocation.output.terminal and is_json:
        text = answer.read_all(_JSON_BYTES_MAX)
        if text:
            print(dumped(json.loads(text), indent=2))
        return
    print_content(iter(answer.read, b""))
