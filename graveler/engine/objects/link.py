"""Link: stages an object whose bytes are at an address that the caller names.  Nothing is copied.

An address is allowed in these cases only:

    in the namespace, name of the form      it was handed out for this path, and an object of the
    that this system generates              named size is there
    in the namespace, among ranges and      never
    metaranges (`_lakefs/`)
    in the namespace, any other name        always
    outside the namespace                   an import of this one object would be allowed: the
                                            deployment serves the address, no repository's namespace
                                            contains it (nor that of a deleted one that is not
                                            purged yet), and an object is there

Every other address is refused: otherwise a caller could make the service read objects that the
caller has no right to read.  Garbage collection may be about to delete a generated name that was
not handed out.  Used by the API.
"""

from graveler.block import address
from graveler.block.address import OWN_FILES, is_ours
from graveler.engine import protection
from graveler.engine.imports import sources
from graveler.engine.imports.sources import ImportPath
from graveler.engine.objects.addresses import Link, check_written, checked, described
from graveler.engine.objects.write import check_described, put
from graveler.engine.ports import OpenRepository, check_writable
from graveler.errors import Invalid
from graveler.ids import parse_branch_id, parse_path
from graveler.records import ABSENT, AddressType, Entry, Repository


def place(
    repo: OpenRepository, branch: str, path: str, link: Link, *, force: bool = False
) -> Entry:
    """Stage `path` with the address that `link` names.

    Errors: `Invalid` for an address that is not allowed, and those of `write.stage`; nothing is
    staged then, except perhaps after `OutcomeUnknown`.
    Cost: that of a write; inside the namespace at most 1 KV request and 1 head more; outside, 1
    block request and the cost of `namespaces.holders` more.
    """
    key, name = parse_path(path), parse_branch_id(branch)
    check_writable(repo.record, force)
    protection.check_staging(repo, name)
    canonical = address.split(link.address).address
    relative = address.relative_to(repo.namespace, canonical)
    if relative is ABSENT:
        sources.check_no_action(key)
        sources.check(repo, ImportPath("object", canonical, path))
        entry = described(repo, link, canonical)._replace(address_type=AddressType.FULL)
    else:
        _check_inside(repo.record, canonical, relative)
        entry = described(repo, link, relative)
        if is_ours(relative):
            checked(repo, name, path, canonical)
            check_written(repo, entry)
    check_described(entry.metadata, entry.content_type)
    put(repo, name, key, entry)
    return entry


def _check_inside(repo: Repository, canonical: str, relative: str) -> None:
    if address.join(repo.namespace, relative) != canonical:
        raise Invalid(f"address must name an object inside the namespace: address={canonical}")
    if f"{relative}/".startswith(OWN_FILES):
        raise Invalid(f"address is among the repository's own files: address={canonical}")
