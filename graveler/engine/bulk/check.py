"""The check of metaranges that a client wrote into the repository's folder, before one may land.

Every new range exists and has the stated count; a sample of ranges is read in full, and their
records are judged.  A sample finds a broken writer, because its mistakes repeat.  No secret depends
on it: an address of another repository is refused whenever it is read.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

from graveler.block import address
from graveler.block.address import FILES, OWN_FILES
from graveler.committed import seal
from graveler.committed.graft import check_below
from graveler.committed.ranges import RANGE_PROPERTIES, Keyspace, totals
from graveler.committed.reader import get, range_batches, scan
from graveler.core import limits
from graveler.core.errors import Corrupt, Invalid, NotFound
from graveler.core.identity import entry_identity, identity_of
from graveler.core.ids import MetarangeId, is_hex64, parse_path
from graveler.core.records import AddressType, Entry, RangeRef, Record
from graveler.core.wire import decode_entry
from graveler.engine import namespaces
from graveler.engine.commits.heads import check_kept
from graveler.engine.ports import OpenRepository, keyspace

_BATCH = 1_000
_JUDGED_ONE_IN = 8  # where ranges are sampled: judging records takes most of the time


def check(repo: OpenRepository, text: str, known: MetarangeId, prefix: bytes) -> MetarangeId:
    """Check a metarange whose id a client sent.  `known`: a metarange of the branch; `prefix`: all
    entries must lie below it.

    Errors: `NotFound` names the missing file, `Invalid` the violated rule.  Cost: one block request
    for the metarange, one for each range that `known` does not have, the sampled ranges in full;
    with full addresses 1 KV request for each 1,000 repositories.
    """
    if not is_hex64(text):
        raise Invalid(
            f"metarange invalid: it must be 64 hexadecimal digits: metarange={text!r:.80}"
        )
    metarange, space = MetarangeId(text), keyspace(repo)
    check_kept(repo, metarange)
    try:
        refs = space.metarange(metarange).ranges
    except NotFound as error:
        raise NotFound(f"metarange not found: write it to {FILES}{metarange}") from error
    except Corrupt as error:
        raise Invalid(f"metarange refused: {error}") from error
    check_below(refs, prefix)
    known_ids = {ref.id for ref in space.metarange(known).ranges}
    fresh = [ref for ref in refs if ref.id not in known_ids]
    for at in range(0, len(fresh), _BATCH):
        repo.fanout.map(lambda ref: _check_range(space, ref), fresh[at : at + _BATCH])
    rules, sample = (
        Rules(repo, known),
        list(_sampled(fresh, repo.settings.bulk_checked_records_max)),
    )
    every = 1 if len(sample) == len(fresh) else _JUDGED_ONE_IN
    for ref in sample:
        _check_records(space, ref, rules, every)
    return metarange


def check_same(repo: OpenRepository, written: MetarangeId, known: MetarangeId) -> None:
    """Raises `Invalid` unless two metaranges have the same content, as far as sampled ranges of
    `written` show.  Must be called after `check`."""
    space = keyspace(repo)
    refs, known_refs = space.metarange(written).ranges, space.metarange(known).ranges
    if totals(refs) != totals(known_refs):
        raise Invalid(
            "metarange refused: packing must not change entries, but its entries differ from those "
            "of its base"
        )
    ids = {ref.id for ref in known_refs}
    fresh = [ref for ref in refs if ref.id not in ids]
    for ref in _sampled(fresh, repo.settings.bulk_checked_records_max):
        records = (record for batch in range_batches(space, ref) for record in batch)
        expected = islice(scan(space, known, ref.min_key), ref.count)
        if any(one != other for one, other in zip_longest(records, expected)):
            raise Invalid(f"range refused: it differs from the range of its base: range={ref.id}")


def _check_range(space: Keyspace, ref: RangeRef) -> None:
    if not is_hex64(ref.id) or not 0 < ref.count <= limits.table_records_count_max:
        raise Invalid(
            f"range refused: its id or its count is impossible: {ref.id=!r:.80} {ref.count=}"
        )
    try:
        table = space.open(ref)
        count, marks = table.count, table.marks
    except NotFound as error:
        raise NotFound(f"range not found: write it to {FILES}{ref.id}") from error
    except Corrupt as error:
        raise Invalid(f"range refused: {error}") from error
    if count != ref.count or marks:
        raise Invalid(f"range refused: it holds {count} records instead of {ref.count}: {ref.id=}")


def _sampled(refs: Sequence[RangeRef], records_max: int) -> Iterator[RangeRef]:
    """At least one range, spread evenly, with about `records_max` records together."""
    total = sum(ref.count for ref in refs)
    passed = read = 0
    for ref in refs:
        passed += ref.count
        if read * total <= passed * records_max and (not read or read + ref.count <= records_max):
            read += ref.count
            yield ref


def _check_records(space: Keyspace, ref: RangeRef, rules: "Rules", every: int) -> None:
    try:
        records = [record for batch in range_batches(space, ref) for record in batch]
        size = sum(len(key) + len(value) for key, value in records)
        if seal.file_id(records, RANGE_PROPERTIES) != ref.id or size != ref.size:
            raise Invalid("its id or its size does not match its records")
        for record in records[::every]:
            rules.check(record)
    except (Corrupt, Invalid) as error:
        raise Invalid(f"range refused: {error}: range={ref.id}") from error


class Rules:
    """The rules for an entry of one repository."""

    def __init__(self, repo: OpenRepository, known: MetarangeId) -> None:
        self._ports = repo
        self._space = keyspace(repo)
        self._namespace = repo.namespace
        self._known = known
        self._taken: tuple[str, ...] = ()

    def check(self, record: Record) -> None:
        """Raises `Invalid` or `Corrupt`.  A record that `known` has with the same value passes."""
        try:
            self._judge(record)
        except (Corrupt, Invalid) as error:
            key, value = record
            if get(self._space, self._known, key) != value:
                raise Invalid(f"{error}: key={key!r:.200}") from error

    def _judge(self, record: Record) -> None:
        key, value = record
        try:
            parse_path(key.decode())
        except UnicodeDecodeError as error:
            raise Invalid("its path is not UTF-8") from error
        entry = decode_entry(value)
        if identity_of(value) != entry_identity(entry):
            raise Invalid("its identity does not match its fields")
        if not 0 <= entry.size <= limits.object_size_bytes_max:
            raise Invalid(f"its size is impossible: size={entry.size}")
        if not 0 < len(entry.checksum.encode()) <= limits.checksum_length_bytes_max:
            raise Invalid("its checksum is empty or too long")
        self._check_address(entry)

    def _check_address(self, entry: Entry) -> None:
        text, kind = entry.address, entry.address_type
        if kind is AddressType.BY_PREFIX:
            kind = AddressType.FULL if "://" in text else AddressType.RELATIVE
        if kind is AddressType.RELATIVE:
            address.join(self._namespace, text)
            if f"{text}/".startswith(OWN_FILES):
                raise Invalid(f"its address is among the repository's own files: address={text}")
            return
        spelled = address.spelling(text)
        if not self._taken:
            taken = {address.normalise(self._namespace), *namespaces.spellings(self._ports)}
            self._taken = tuple(f"{namespace}/" for namespace in taken)
        if spelled.startswith(self._taken):
            raise Invalid(f"its full address is inside a repository: address={text}")
