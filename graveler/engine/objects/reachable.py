"""Reachable addresses: checks, at each read, that a repository may read the address of an entry.

An entry's bytes may be at these addresses only:

    relative    in the repository's namespace, except among the repository's own files
    full        the same in the namespace; outside it, in no namespace of another repository, also
                of a deleted one that is not purged yet.  The block store itself serves only the
                buckets and import roots of the deployment

A cluster or lakeFS may write ranges, and only a sample of their records is checked before they land
(`bulk/check.py`).  So this check keeps one repository from reading another: every read of bytes and
every signed URL goes through it.  Used by the verbs of objects, `verify.py` and the API.
"""

from graveler.block import address
from graveler.block.address import OWN_FILES
from graveler.engine import namespaces
from graveler.engine.ports import OpenRepository, Ports
from graveler.errors import Refused
from graveler.records import ABSENT, Absent, AddressType, Entry, Repository


def address_of(repo: OpenRepository, entry: Entry) -> str:
    """The full address of an entry's bytes.

    Errors: `Refused` for an address that the repository may not read, `Invalid` for a text that is
    not an address.  Cost: none inside the namespace; outside, that of `namespaces.holders`.  The
    answers are cached for `limits.repository_cache_seconds_max`.
    """
    full = address.resolve(repo.namespace, entry.address, entry.address_type)
    if entry.address_type is AddressType.RELATIVE:
        relative: str | Absent = entry.address  # `resolve` lets no segment lead out
    else:
        relative = address.relative_to(repo.namespace, full)
    if relative is ABSENT:
        _check_outside(repo, full)
    elif f"{relative}/".startswith(OWN_FILES):
        raise Refused("the object's address is among the repository's own files")
    return full


def lies_inside(repo: Repository, entry: Entry) -> bool:
    """Whether the address is inside the namespace, so that `address_of` sends no request.

    Errors: `Invalid`.  Pure.
    """
    if entry.address_type is AddressType.RELATIVE:
        return True  # or it is no address, as `address_of` says
    full = address.resolve(repo.namespace, entry.address, entry.address_type)
    return address.relative_to(repo.namespace, full) is not ABSENT


def _check_outside(ports: Ports, full: str) -> None:
    taken = ports.cache.namespaces()
    if taken is ABSENT:
        taken = namespaces.spellings(ports)
        ports.cache.put_namespaces(taken)
    spelled = address.spelling(full)
    at = spelled.rfind("/")
    while at > 0:
        if spelled[:at] in taken:
            raise Refused(
                "the object's address is inside another repository, or inside a deleted one that "
                "is not purged yet"
            )
        at = spelled.rfind("/", 0, at)
