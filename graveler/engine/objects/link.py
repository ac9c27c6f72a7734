"""An object staged by an address that the caller names: bytes that lie somewhere already.

    inside the namespace     names that this system gives: only if handed out for this very path and
                             written with the size named;
                             other names below it: yes; the repository's own files: never
    outside of it            what an import of that one object may take in: a place that the
                             deployment serves, in no repository's namespace, with an object there

Denied unless one of these allows it: the service could be made to read for its caller what the
caller may not.  A name of ours that was not handed out may be one that garbage collection is about
to delete.  For the API.
"""

from graveler.block import address
from graveler.engine.gc.candidates import FILES, is_ours
from graveler.engine.imports import sources
from graveler.engine.imports.sources import ImportPath
from graveler.engine.objects.addresses import Link, check_written, checked, described
from graveler.engine.objects.objects import stage
from graveler.engine.ports import Ports, check_writable
from graveler.errors import Invalid
from graveler.ids import parse_branch_id, parse_path
from graveler.records import ABSENT, AddressType, Entry, Repository


def place(
    ports: Ports, repo: Repository, branch: str, path: str, link: Link, *, force: bool = False
) -> Entry:
    """Stage `path` with the address that `link` names; nothing is copied.

    Errors: `Invalid` for an address that is not allowed, and those of `objects.stage`; nothing is
    staged then.  Cost: those of a write; inside, 1 KV request and 1 head at most; outside,
    1 block request and one KV request for each 1,000 repositories.
    """
    parse_path(path)
    parse_branch_id(branch)
    check_writable(repo, force)
    canonical = address.split(link.address).address
    relative = address.relative_to(repo.namespace, canonical)
    if relative is ABSENT:
        sources.check(ports, ImportPath("object", canonical, path))
        entry = described(ports, link, canonical)._replace(address_type=AddressType.FULL)
    else:
        _check_inside(repo, canonical, relative)
        entry = described(ports, link, relative)
        if is_ours(relative):
            checked(ports, repo, branch, path, canonical)
            check_written(ports, repo, entry)
    return stage(ports, repo, branch, path, entry, force=force)


def _check_inside(repo: Repository, canonical: str, relative: str) -> None:
    if address.join(repo.namespace, relative) != canonical:
        raise Invalid(f"address must name an object of the namespace: address={canonical}")
    if f"{relative}/".startswith(FILES):
        raise Invalid(f"address lies among the repository's own files: address={canonical}")
