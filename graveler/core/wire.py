"""Encodes records to their stored bytes, and decodes them.

A KV value is one format byte (1), then one protobuf message of `wire.proto`.  Entries and range
descriptions in files have no format byte; they use the framing of `frame`.  Encoding is
deterministic: equal records have equal bytes.  Bytes that do not decode raise `Corrupt`.  This
module owns protobuf, together with `wire_dumps.py`; pure; layers 1 to 3 may import this.
"""

from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from graveler.core import limits
from graveler.core import wire_pb2 as pb
from graveler.core.errors import Corrupt
from graveler.core.framing import body_of, frame, unframe
from graveler.core.identity import entry_identity
from graveler.core.ids import (
    BranchId,
    CommitId,
    JobId,
    MetarangeId,
    PullId,
    RangeId,
    RepositoryId,
    RepositoryUid,
    StagingToken,
)
from graveler.core.records import (
    TOMBSTONE,
    AddressType,
    Branch,
    BranchState,
    BreakParameters,
    Cleanup,
    Commit,
    Entry,
    Fold,
    Job,
    JobState,
    MultipartUpload,
    PullRequest,
    PullState,
    RangeRef,
    Repository,
    RepositoryState,
    SentSwap,
    Staged,
    StagedValue,
    Tag,
    UploadAddress,
)

FORMAT: Final[bytes] = b"\x01"
_SECOND_NS = 1_000_000_000
_FIELDS = attrgetter(
    "address",
    "size",
    "e_tag",
    "last_modified.seconds",
    "last_modified.nanos",
    "address_type",
    "content_type",
)
_NO_METADATA: MappingProxyType[str, str] = MappingProxyType({})
_BRANCHES_KEPT = 1_024
_DELETION = FORMAT + b"\x12\x10"  # a staged row without a value, with a wid of 16 bytes
_ENTRIES_KEPT = 8_192
_ADDRESS_TYPES = {int(kind): kind for kind in AddressType}  # calling the enum takes 3 µs
_KINDS = (RepositoryState, BranchState, JobState, PullState)
_STATES: Any = {kind: {int(m): m for m in kind} for kind in _KINDS}
M = TypeVar("M", bound=Message)
T = TypeVar("T")


# ---- entries and range descriptions --------------------------------------------------------------


def encode_entry(entry: Entry) -> bytes:
    """The framed value that staging and ranges hold for `entry`."""
    # Setting the fields of the inner message takes half the time of making and copying one.
    message = pb.Entry(address=entry.address, size=entry.size, e_tag=entry.checksum)
    modified = message.last_modified
    modified.seconds, modified.nanos = divmod(entry.modified_ns, _SECOND_NS)
    modified.SetInParent()
    message.address_type = int(entry.address_type)
    message.content_type = entry.content_type
    body = message.SerializeToString()
    if entry.metadata:
        # Protobuf guarantees no order for the pairs of a map.  Even its deterministic mode has its
        # own order if one key is a prefix of another.  But encoded messages may be concatenated,
        # so each pair is encoded separately, in sorted order.
        behind = pb.Entry(address_type=message.address_type, content_type=message.content_type)
        at = len(body) - behind.ByteSize()
        pairs = (pb.Entry(metadata={key: value}) for key, value in sorted(entry.metadata.items()))
        body = b"".join([body[:at], *(pair.SerializeToString() for pair in pairs), body[at:]])
    return frame(entry_identity(entry), body)


def stored_entry(value: bytes) -> pb.Entry:
    """The decoded message of a framed value.  For scans of millions of entries that read one or two
    fields: making an `Entry` takes longer than decoding the message.  Raises `Corrupt`."""
    body = body_of(value)
    try:
        return pb.Entry.FromString(body)
    except DecodeError as error:
        raise Corrupt(f"entry does not decode: length={len(body)}") from error


def decode_entry(value: bytes) -> Entry:
    """The entry of a framed value; its metadata is a read-only view.  Raises `Corrupt`."""
    message = stored_entry(value)
    address, size, checksum, seconds, nanos, number, content_type = _FIELDS(message)
    kind = _ADDRESS_TYPES.get(number)
    if kind is None:
        raise Corrupt(f"entry has an unknown address type: address_type={number}")
    modified_ns = seconds * _SECOND_NS + nanos
    # "*" is the tag of metadata: without that byte the value has none.  Asking the message is
    # slower.
    metadata = MappingProxyType(message.metadata) if b"*" in value else _NO_METADATA
    return Entry._make((address, size, checksum, modified_ns, metadata, kind, content_type))


@lru_cache(maxsize=_ENTRIES_KEPT)
def recent_entry(value: bytes) -> Entry:
    """`decode_entry` with a cache, for reads that repeat the same entries: pages of a listing, hot
    paths."""
    return decode_entry(value)


def encode_range(ref: RangeRef) -> tuple[bytes, bytes]:
    """The metarange record (max key, framed value) of a range."""
    message = pb.RangeData(
        min_key=ref.min_key,
        max_key=ref.max_key,
        estimated_size=ref.size,
        count=ref.count,
        identity=ref.identity,
    )
    return ref.max_key, frame(ref.id.encode("ascii"), message.SerializeToString(deterministic=True))


def decode_range(value: bytes) -> RangeRef:
    """The range that a metarange record describes.  Raises `Corrupt`."""
    identity, body = unframe(value)
    m = parse(pb.RangeData, body, "range description")
    try:
        name = RangeId(identity.decode("ascii"))
    except UnicodeDecodeError as error:
        raise Corrupt("range description has an id that is not hexadecimal") from error
    return RangeRef(name, m.min_key, m.max_key, m.estimated_size, m.count, m.identity)


# ---- KV records ----------------------------------------------------------------------------------


def parse(kind: type[M], raw: bytes, subject: str) -> M:
    """A message of `wire.proto`.  Raises `Corrupt`; `subject` names it in the text."""
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise Corrupt(f"{subject} does not decode: length={len(raw)}") from error


def _record(kind: type[M], raw: bytes, subject: str) -> M:
    if raw[:1] != FORMAT:
        raise Corrupt(f"{subject} has an unknown format: format={raw[:1].hex() or 'none'}")
    return parse(kind, raw[1:], subject)


def _bytes(message: Message, rest: bytes = b"") -> bytes:
    """The stored form of `message`.  `rest`: encoded unknown fields, appended after the known
    ones."""
    return FORMAT + message.SerializeToString(deterministic=True) + rest


def _rest(message: Message) -> bytes:
    """The encoded fields that this release does not know.  Clears all known fields of `message`."""
    if not len(UnknownFieldSet(message)):
        return b""
    for field in message.DESCRIPTOR.fields:
        message.ClearField(field.name)
    return message.SerializeToString(deterministic=True)


def encode_repository(r: Repository) -> bytes:
    """See `records.Repository`."""
    breaks = pb.Breaks(
        min_size=r.breaks.min_size,
        max_size=r.breaks.max_size,
        raggedness=r.breaks.raggedness,
        salt=r.breaks.salt,
    )
    return _bytes(
        pb.Repository(
            id=r.id,
            uid=r.uid,
            namespace=r.namespace,
            default_branch=r.default_branch,
            created_ns=r.created_ns,
            state=int(r.state),
            read_only=r.read_only,
            breaks=breaks,
            staging_shards=r.staging_shards,
            collected=r.collected,
            protected=r.protected,
        ),
        r.rest,
    )


def decode_repository(raw: bytes) -> Repository:
    """Raises `Corrupt`."""
    m = _record(pb.Repository, raw, "repository record")
    b = m.breaks
    return Repository(
        RepositoryId(m.id),
        RepositoryUid(m.uid),
        m.namespace,
        BranchId(m.default_branch),
        m.created_ns,
        _enum(RepositoryState, m.state, "repository record"),
        m.read_only,
        BreakParameters(
            b.min_size,
            b.max_size or limits.range_size_bytes_default,
            b.raggedness or limits.range_raggedness_unrecorded,
            b.salt,
        ),
        m.staging_shards,
        m.collected,
        tuple(m.protected),
        _rest(m),
    )


def encode_rules(patterns: tuple[str, ...]) -> bytes:
    """The stored form of the branch protection rules, which are a field of their repository."""
    return _bytes(pb.Repository(protected=patterns))


def encode_branch(b: Branch) -> bytes:
    """See `records.Branch`."""
    return _bytes(
        pb.Branch(
            rev=b.rev,
            state=int(b.state),
            staging=b.staging,
            sealed=b.sealed,
            commit=b.commit,
            hidden=b.hidden,
            changed_ns=b.changed_ns,
            recent_rows=b.recent_rows,
            origin=b.origin,
            rewinds=b.rewinds,
        ),
        b.rest,
    )


@lru_cache(maxsize=_BRANCHES_KEPT)
def decode_branch(raw: bytes) -> Branch:
    """Raises `Corrupt`.  Cached by the raw bytes, because most reads find the record unchanged."""
    m = _record(pb.Branch, raw, "branch record")
    return Branch(
        m.rev,
        _enum(BranchState, m.state, "branch record"),
        StagingToken(m.staging),
        tuple(map(StagingToken, m.sealed)),
        CommitId(m.commit),
        m.hidden,
        m.changed_ns,
        m.recent_rows,
        m.origin,
        m.rewinds,
        _rest(m),
    )


def encode_commit(c: Commit) -> bytes:
    """See `records.Commit`."""
    return _bytes(
        pb.Commit(
            committer=c.committer,
            message=c.message,
            created_ns=c.created_ns,
            metarange=c.metarange,
            metadata=c.metadata or None,
            parents=c.parents,
            generation=c.generation,
            depth=c.depth,
            jump=c.jump,
            jump_depth=c.jump_depth,
            linear=c.linear,
            version=c.version,
            mark=c.mark,
            order_ns=0 if c.order_ns == c.created_ns else c.order_ns,
        )
    )


def decode_commit(raw: bytes) -> Commit:
    """Raises `Corrupt`."""
    m = _record(pb.Commit, raw, "commit record")
    return Commit(
        m.committer,
        m.message,
        m.created_ns,
        MetarangeId(m.metarange),
        dict(m.metadata),
        tuple(map(CommitId, m.parents)),
        m.generation,
        m.depth,
        CommitId(m.jump),
        m.jump_depth,
        m.linear,
        m.version,
        m.mark,
        m.order_ns or m.created_ns,
    )


def encode_pull(p: PullRequest) -> bytes:
    """See `records.PullRequest`."""
    return _bytes(
        pb.PullRequest(
            id=p.id,
            title=p.title,
            description=p.description,
            author=p.author,
            source=p.source,
            destination=p.destination,
            state=int(p.state),
            created_ns=p.created_ns,
            closed_ns=p.closed_ns,
            merged=p.merged,
            opening=p.opening,
            since=p.since,
            attempt=p.attempt,
            sent=[pb.SentSwap(**each._asdict()) for each in p.sent],
        ),
        p.rest,
    )


def decode_pull(raw: bytes) -> PullRequest:
    """Raises `Corrupt`."""
    m = _record(pb.PullRequest, raw, "pull request")
    return PullRequest(
        PullId(m.id),
        m.title,
        m.description,
        m.author,
        BranchId(m.source),
        BranchId(m.destination),
        _enum(PullState, m.state, "pull request"),
        m.created_ns,
        m.closed_ns,
        CommitId(m.merged),
        m.opening,
        CommitId(m.since),
        m.attempt,
        tuple(map(_sent_swap, m.sent)),
        _rest(m),
    )


def _sent_swap(m: pb.SentSwap) -> SentSwap:
    return SentSwap(CommitId(m.commit), m.rev, CommitId(m.head), m.origin, m.rewinds)


def encode_tag(tag: Tag) -> bytes:
    """See `records.Tag`."""
    message = pb.Tag(commit=tag.commit, rev=tag.rev, deleted=tag.deleted, changed_ns=tag.changed_ns)
    return _bytes(message, tag.rest)


def decode_tag(raw: bytes) -> Tag:
    """Raises `Corrupt`."""
    tag = _record(pb.Tag, raw, "tag record")
    return Tag(CommitId(tag.commit), tag.rev, tag.deleted, tag.changed_ns, _rest(tag))


def encode_staged(value: StagedValue, wid: bytes) -> bytes:
    """A staged row.  The store keeps its order and version in columns of their own."""
    return _bytes(pb.Staged(value=b"" if value is TOMBSTONE else value, wid=wid))


def decode_staged(raw: bytes, order: int, version: bytes) -> Staged:
    """Raises `Corrupt`.  A tombstone of an ordinary request is recognised by its length and first
    bytes, without protobuf, because listings skip many of them."""
    if len(raw) == 19 and raw[:3] == _DELETION:
        return Staged(TOMBSTONE, order, raw[3:], version)
    m = _record(pb.Staged, raw, "staged row")
    return Staged(m.value or TOMBSTONE, order, m.wid, version)


def encode_fold(f: Fold) -> bytes:
    """See `records.Fold`."""
    return _bytes(pb.Fold(tokens=f.tokens, created_ns=f.created_ns))


def decode_fold(raw: bytes) -> Fold:
    """Raises `Corrupt`."""
    m = _record(pb.Fold, raw, "fold record")
    return Fold(tuple(map(StagingToken, m.tokens)), m.created_ns)


def encode_cleanup(c: Cleanup) -> bytes:
    """See `records.Cleanup`."""
    return _bytes(
        pb.Cleanup(
            branch=c.branch, not_before_ns=c.not_before_ns, marked_ns=c.marked_ns, passes=c.passes
        ),
        c.rest,
    )


def decode_cleanup(raw: bytes) -> Cleanup:
    """Raises `Corrupt`."""
    m = _record(pb.Cleanup, raw, "clean-up record")
    return Cleanup(BranchId(m.branch), m.not_before_ns, m.marked_ns, m.passes, _rest(m))


def encode_upload_address(a: UploadAddress) -> bytes:
    """See `records.UploadAddress`."""
    return _bytes(pb.UploadAddress(branch=a.branch, path=a.path, expires_ns=a.expires_ns))


def decode_upload_address(raw: bytes) -> UploadAddress:
    """Raises `Corrupt`."""
    m = _record(pb.UploadAddress, raw, "upload address record")
    return UploadAddress(BranchId(m.branch), m.path, m.expires_ns)


def encode_multipart_upload(u: MultipartUpload) -> bytes:
    """See `records.MultipartUpload`."""
    message = pb.MultipartUpload(
        id=u.id,
        branch=u.branch,
        path=u.path,
        address=u.address,
        store_id=u.store_id,
        created_ns=u.created_ns,
        content_type=u.content_type,
        metadata=dict(u.metadata),
        storage_class=u.storage_class,
        entry=u.entry,
        parts=u.parts,
        completed_ns=u.completed_ns,
        origin=u.origin,
        whole_checksum=u.whole_checksum,
    )
    return _bytes(message, u.rest)


def decode_multipart_upload(raw: bytes) -> MultipartUpload:
    """Raises `Corrupt`."""
    m = _record(pb.MultipartUpload, raw, "multipart upload record")
    return MultipartUpload(
        m.id,
        BranchId(m.branch),
        m.path,
        m.address,
        m.store_id,
        m.created_ns,
        m.content_type,
        dict(m.metadata),
        m.storage_class,
        m.entry,
        m.parts,
        m.completed_ns,
        m.origin,
        m.whole_checksum,
        _rest(m),
    )


def encode_job(j: Job) -> bytes:
    """See `records.Job`."""
    return _bytes(
        pb.Job(
            id=j.id,
            kind=j.kind,
            state=int(j.state),
            owner=j.owner,
            created_ns=j.created_ns,
            updated_ns=j.updated_ns,
            progress=j.progress,
            cancel=j.cancel,
            error=j.error,
            commit=j.commit,
            metarange=j.metarange,
            branch=j.branch,
        ),
        j.rest,
    )


def decode_job(raw: bytes) -> Job:
    """Raises `Corrupt`."""
    m = _record(pb.Job, raw, "job record")
    return Job(
        JobId(m.id),
        m.kind,
        _enum(JobState, m.state, "job record"),
        m.owner,
        m.created_ns,
        m.updated_ns,
        m.progress,
        m.cancel,
        m.error,
        CommitId(m.commit),
        MetarangeId(m.metarange),
        BranchId(m.branch),
        _rest(m),
    )


def encode_pairs(mapping: dict[str, str]) -> bytes:
    """Repository metadata and settings."""
    return _bytes(pb.Pairs(pairs=mapping))


def decode_pairs(raw: bytes) -> dict[str, str]:
    """Raises `Corrupt`."""
    return dict(_record(pb.Pairs, raw, "metadata record").pairs)


def _enum(kind: type[T], number: int, subject: str) -> T:
    state: T | None = _STATES[kind].get(number)
    if state is None:
        raise Corrupt(f"{subject} has an unknown state: state={number}")
    return state
