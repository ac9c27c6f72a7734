"""Objects whose bytes the client has written: upload addresses, and links to any allowed address.

The signature of an upload address is an HMAC over repository, branch, path and address; the stored
record says when it expires.  No other address of the forms that this system generates is linked:
otherwise a caller could make the service read objects that it has no right to read.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from graveler.block import address
from graveler.block.adapter import OVERWRITE
from graveler.block.address import OWN_FILES, is_ours
from graveler.core import limits
from graveler.core.errors import Code, Invalid, NotFound
from graveler.core.ids import parse_branch_id, parse_path
from graveler.core.records import ABSENT, Absent, AddressType, Entry, Repository, UploadAddress
from graveler.engine import import_sources, protection
from graveler.engine.commits.heads import cached
from graveler.engine.import_sources import ImportPath
from graveler.engine.objects.rows import Condition, check_target
from graveler.engine.objects.write import DEFAULT_CONTENT_TYPE, check_described, put
from graveler.engine.ports import OpenRepository, Ports, given_or_now
from graveler.refs import uploads

_SIGNATURE_BYTES = 18
_SIGNED = re.compile(r",[A-Za-z0-9_-]+\Z", re.ASCII)


class Link(NamedTuple):
    """The client's description of the bytes that it wrote.

    `address`: the full address.  `size`: in bytes.  `modified_ns`: ABSENT means now.
    `mode`: the condition of the write.
    """

    address: str
    checksum: str
    size: int
    content_type: str = ""
    metadata: Mapping[str, str] = {}
    modified_ns: int | Literal[Absent.ABSENT] = ABSENT
    mode: Condition = OVERWRITE


def hand_out(repo: OpenRepository, branch: str, path: str) -> str:
    """A fresh full address for `path`, valid for `limits.link_address_seconds`.

    Errors: `NotFound` (branch), `Invalid`.  Cost: 1 KV request, and 1 if the branch is not cached.
    """
    name = parse_branch_id(branch)
    parse_path(path)
    cached(repo, name)
    relative = repo.partitions.new_address(repo.clock, repo.ids, repo.record.uid)
    claim = _said(repo.record, name, path, relative)
    check_signature = f"{relative},{_signed(repo.settings.signing_key, claim).decode()}"
    expires_ns = repo.clock.now_ns() + limits.link_address_seconds * limits.SECOND_NS
    note = UploadAddress(name, path, expires_ns)
    uploads.put_address(repo.kv, repo.record, check_signature, note, repo.ids.stamp())
    return address.join(repo.namespace, check_signature)


def link(repo: OpenRepository, branch: str, path: str, link: Link, *, force: bool = False) -> Entry:
    """Stage `path` with an address that was handed out for it.

    Errors: `Invalid` for an address that was not handed out for this path, that has expired, or
    that has no object or an object of another size; and those of `write.stage`.
    Cost: 1 KV request, 1 head, and those of a write.
    """
    name, key = check_target(repo, branch, path, force=force)
    protection.check_staging(repo, name)
    entry = described_link(repo, link, check_address(repo, name, path, link.address))
    _check_written(repo, entry)
    check_described(entry.metadata, entry.content_type)
    put(repo, name, key, entry, link.mode)
    return entry


def described_link(ports: Ports, link: Link, place: str) -> Entry:
    """The entry that `link` describes, with the address `place`.  `Invalid`.  No request."""
    checksum = link.checksum.strip('"')
    if not checksum or len(checksum) > limits.checksum_length_bytes_max:
        raise Invalid(f"checksum must have 1 to {limits.checksum_length_bytes_max} characters")
    if not 0 <= link.size <= limits.object_size_bytes_max:
        raise Invalid(f"size_bytes must be 0 to {limits.object_size_bytes_max}: {link.size}")
    return Entry(
        address=place,
        size=link.size,
        checksum=checksum,
        modified_ns=given_or_now(ports, link.modified_ns),
        metadata=dict(link.metadata),
        content_type=link.content_type or DEFAULT_CONTENT_TYPE,
    )


def _check_written(repo: OpenRepository, entry: Entry) -> None:
    """Raises `Invalid` unless an object of the entry's size is at its address.  1 head."""
    try:
        head = repo.blocks.head(address.join(repo.namespace, entry.address))
    except NotFound as error:
        raise Invalid("link address has no object: write the bytes there first") from error
    if head.size != entry.size:
        raise Invalid(f"size_bytes must equal the size of the object: {entry.size=} {head.size=}")


def check_address(repo: OpenRepository, branch: str, path: str, text: str) -> str:
    """The relative form of the address `text`, if it was handed out for this path and is valid now.

    Errors: `Invalid`.  Cost: 1 KV request.
    """
    relative = check_signature(repo, branch, path, text)
    note = uploads.find_address(repo.kv, repo.record, relative)
    if note is ABSENT or repo.clock.now_ns() > note.expires_ns:
        raise Invalid("link address expired: request a new one")
    return relative


def check_signature(repo: OpenRepository, branch: str, path: str, text: str) -> str:
    """The relative form of the address `text`, if it was handed out for this path at any time."""
    bad = Invalid(
        "link address invalid: it was issued for another path or branch",
        Code.ADDRESS_INVALID,
    )
    if _SIGNED.search(text) is None:
        raise Invalid("link address not signed: request an address first", Code.ADDRESS_NOT_SIGNED)
    if len(text) > limits.address_length_bytes_max:
        raise bad
    relative = address.relative_to(repo.namespace, text)
    if relative is ABSENT:
        raise bad
    plain, _, signature = relative.rpartition(",")
    claim = _said(repo.record, branch, path, plain)
    before = repo.settings.signing_key_before
    keys = [repo.settings.signing_key, *([before] if before else [])]
    matches = [hmac.compare_digest(signature.encode(), _signed(key, claim)) for key in keys]
    if not any(matches):
        raise bad
    return relative


def _said(repo: Repository, branch: str, path: str, relative: str) -> bytes:
    return "\0".join((repo.id, repo.uid, branch, relative, path)).encode()


def _signed(key: bytes, claim: bytes) -> bytes:
    digest = hmac.new(key, claim, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest[:_SIGNATURE_BYTES]).rstrip(b"=")


def link_any(
    repo: OpenRepository, branch: str, path: str, link: Link, *, force: bool = False
) -> Entry:
    """Stage `path` with the address that `link` names.

    Errors: `Invalid` for an address that is not allowed, and those of `write.stage`; nothing is
    staged then, except perhaps after `OutcomeUnknown`.
    Cost: that of a write; inside the namespace at most 1 KV request and 1 head more; outside, 1
    block request and the cost of `namespaces.holders` more.
    """
    name, key = check_target(repo, branch, path, force=force)
    protection.check_staging(repo, name)
    canonical = address.split(link.address).address
    relative = address.relative_to(repo.namespace, canonical)
    if relative is ABSENT:
        import_sources.check_no_action(key)
        import_sources.check(repo, ImportPath("object", canonical, path))
        entry = described_link(repo, link, canonical)._replace(address_type=AddressType.FULL)
    else:
        _check_inside(repo.record, canonical, relative)
        entry = described_link(repo, link, relative)
        if is_ours(relative):
            check_address(repo, name, path, canonical)
            _check_written(repo, entry)
    check_described(entry.metadata, entry.content_type)
    put(repo, name, key, entry)
    return entry


def _check_inside(repo: Repository, canonical: str, relative: str) -> None:
    if address.join(repo.namespace, relative) != canonical:
        raise Invalid(f"address must name an object inside the namespace: address={canonical}")
    if f"{relative}/".startswith(OWN_FILES):
        raise Invalid(f"address is among the repository's own files: address={canonical}")
