"""Opens object storage by a URI; a driver is imported at first use.

mem:            memory; nothing is kept (memory.py)
local:FOLDER    files below a folder (local.py)
s3:NAME,NAME    the named buckets, with AWS's own chain of configuration (s3.py)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from graveler.block.adapter import Blocks
from graveler.block.signature import NoPresigner, Presigner
from graveler.core.clock import Clock, Ids
from graveler.core.errors import Invalid


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Further arguments of drivers; each driver takes those that it needs."""

    clock: Clock
    ids: Ids
    signer: Presigner = field(default_factory=NoPresigner)
    import_roots: tuple[Path, ...] = ()
    closed: tuple[Path, ...] = ()


def open_blocks(uri: str, surroundings: Surroundings) -> Blocks:
    """Open the storage that `uri` names.  Errors: `Invalid` for a URI outside the table above;
    those of the driver."""
    scheme, colon, place = uri.partition(":")
    driver = _DRIVERS.get(scheme) if colon else None
    if driver is None:
        raise Invalid(f"block uri must begin with one of {', '.join(_FORMS)}: {uri=}")
    return driver(place, surroundings)


def _open_memory(place: str, surroundings: Surroundings) -> Blocks:
    from graveler.block.memory import MemoryBlocks

    if place:
        raise Invalid(f"block uri mem: must have nothing after the colon: {place=}")
    return MemoryBlocks(surroundings.clock)


def _open_local(place: str, surroundings: Surroundings) -> Blocks:
    from graveler.block.local import ImportRules, LocalBlocks

    if not place:
        raise Invalid("block uri local: needs a folder after the colon")
    return LocalBlocks(
        Path(place),
        clock=surroundings.clock,
        ids=surroundings.ids,
        signer=surroundings.signer,
        imports=ImportRules(surroundings.import_roots, surroundings.closed),
    )


def _open_s3(place: str, surroundings: Surroundings) -> Blocks:
    from graveler.block.s3 import S3Blocks
    from graveler.core.aws import AwsSession

    buckets = [name for name in place.split(",") if name]
    if not buckets:
        raise Invalid("block uri s3: needs buckets after the colon")
    return S3Blocks(AwsSession(), surroundings.clock, buckets)


_FORMS = ("mem:", "local:FOLDER", "s3:NAME,NAME")
_DRIVERS: dict[str, Callable[[str, Surroundings], Blocks]] = {
    "mem": _open_memory,
    "local": _open_local,
    "s3": _open_s3,
}
