"""`graveler open`: the page of an address in the browser."""

from typing import Final
from urllib.parse import quote, urlencode

import click

from graveler.cli import past
from graveler.cli.address import Address, UsageMistake
from graveler.cli.arguments import address_argument, at
from graveler.cli.command import client
from graveler.cli.invocation import Invocation

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
        place = past.then(invocation, place)
    elif past.is_past(invocation):
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
