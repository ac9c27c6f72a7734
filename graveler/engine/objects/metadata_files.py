"""Range and metarange files by their ids, for clients that read these files themselves.

A file is looked up only inside the repository's own namespace.  Used by the API.
"""

from typing import NamedTuple

from graveler.block import address
from graveler.block.adapter import Body
from graveler.engine.ports import OpenRepository, Ports
from graveler.errors import Gone, Invalid, NotFound
from graveler.ids import is_hex64

KINDS = ("range", "meta_range")


class MetadataFile(NamedTuple):
    """An existing file of the repository: its full address, and its size in bytes."""

    address: str
    size: int


def locate(repo: OpenRepository, kind: str, name: str) -> MetadataFile:
    """Find the file with the id `name`.  `Invalid`; `Gone` if it does not exist.  Cost: 1 head.

    Both kinds of files are in one folder, and only the content of a file shows its kind.  So this
    function checks that `kind` is one of the two, and not that the file is of that kind.
    """
    if kind not in KINDS:
        raise Invalid(f"type invalid: it must be one of {', '.join(KINDS)}: type={kind[:80]!r}")
    if not is_hex64(name):
        raise Invalid(f"object_id invalid: it must be 64 hexadecimal digits: id={name[:80]!r}")
    place = address.range_file(repo.namespace, name)
    try:
        return MetadataFile(place, repo.blocks.head(place).size)
    except NotFound as error:
        raise Gone(f"no data: {kind}={name}") from error


def open_file(ports: Ports, located: MetadataFile) -> Body:
    """The bytes of the file.  `Gone`.  1 get."""
    try:
        return ports.blocks.get(located.address)
    except NotFound as error:
        raise Gone(f"no data: address={located.address}") from error
