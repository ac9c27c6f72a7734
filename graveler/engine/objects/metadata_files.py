"""Range and metarange files by their ids, for clients that read them themselves.

An id is looked for inside the repository's own namespace, never elsewhere.  For the API.
"""

from typing import NamedTuple

from graveler.block import address
from graveler.block.adapter import Body
from graveler.engine.ports import Ports
from graveler.errors import Gone, Invalid, NotFound
from graveler.ids import is_hex64
from graveler.records import Repository

KINDS = ("range", "meta_range")


class Located(NamedTuple):
    """A file of the repository that is there."""

    address: str
    size: int


def locate(ports: Ports, repo: Repository, kind: str, name: str) -> Located:
    """Where the file `name` lies.  `Invalid`; `Gone` if it is not there.  Cost: 1 head.

    Both kinds lie in one folder, and nothing but opening a file tells them apart: `kind` is only
    checked to be one of the two.
    """
    if kind not in KINDS:
        raise Invalid(f"type invalid: it must be one of {', '.join(KINDS)}: type={kind[:80]!r}")
    if not is_hex64(name):
        raise Invalid(f"object_id invalid: it must be 64 hexadecimal digits: id={name[:80]!r}")
    place = address.range_file(repo.namespace, name)
    try:
        return Located(place, ports.blocks.head(place).size)
    except NotFound as error:
        raise Gone(f"no data: {kind}={name}") from error


def open_file(ports: Ports, located: Located) -> Body:
    """The bytes; `Gone`.  1 get."""
    try:
        return ports.blocks.get(located.address)
    except NotFound as error:
        raise Gone(f"no data: address={located.address}") from error
