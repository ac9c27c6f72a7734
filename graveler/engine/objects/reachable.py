"""Where the bytes of an entry may be read: checked whenever a read resolves its address.

    relative    inside the repository's namespace, but for the repository's own files
    full        the same inside the namespace; outside of every other repository's namespace; the
                block store itself serves only the buckets and import roots of the deployment

Ranges may be written by others (a cluster, lakeFS), and only a sample of their records is judged
before they land (check.py).  This check is what keeps one repository from reading another: every
read of bytes and every signed URL passes here.  For the verbs of objects, verify.py and the API.
"""

from graveler.block import address
from graveler.engine.gc.candidates import FILES
from graveler.engine.ports import Ports
from graveler.errors import Refused
from graveler.records import ABSENT, Entry, Repository
from graveler.refs.names import repositories

OWN_FILES = (FILES, "_graveler/")  # ranges, metaranges, and what jobs and collection keep


def address_of(ports: Ports, repo: Repository, entry: Entry) -> str:
    """The full address of an entry's bytes.

    Errors: `Refused` for an address that is not the repository's to read, `Invalid` for one that
    is none.  Cost: none inside the namespace; outside, 1 KV request for each 1,000 repositories,
    whose answers are kept for `limits.repository_cache_seconds_max`.
    """
    full = address.resolve(repo.namespace, entry.address, entry.address_type)
    relative = address.relative_to(repo.namespace, full)
    if relative is ABSENT:
        _check_outside(ports, full)
    elif f"{relative}/".startswith(OWN_FILES):
        raise Refused("object's address lies among the repository's own files")
    return full


def lies_inside(repo: Repository, entry: Entry) -> bool:
    """Whether `address_of` answers without a request.  `Invalid`.  Pure."""
    full = address.resolve(repo.namespace, entry.address, entry.address_type)
    return address.relative_to(repo.namespace, full) is not ABSENT


def _check_outside(ports: Ports, full: str) -> None:
    taken = ports.cache.namespaces()
    if taken is ABSENT:
        taken = frozenset(address.normalise(r.namespace) for r in repositories.every(ports.kv))
        ports.cache.put_namespaces(taken)
    spelled = address.spelling(full)
    at = spelled.rfind("/")
    while at > 0:
        if spelled[:at] in taken:
            raise Refused("object's address lies in another repository")
        at = spelled.rfind("/", 0, at)
