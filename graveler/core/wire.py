"""Encodes records to their stored bytes, and decodes them.

A KV value is one format byte (1), then one protobuf message of `wire.proto`.  Entries and range
descriptions in files have no format byte; they use the framing of `frame`.  Encoding is
deterministic: equal records have equal bytes.  Bytes that do not decode raise `Corrupt`.  This
module owns protobuf, together with `wire_dumps.py`; pure; layers 1 to 3 may import this.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import EnumType, IntEnum
from functools import lru_cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, get_origin

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from graveler.core import limits
from graveler.core import wire_pb2 as pb
from graveler.core.errors import Corrupt
from graveler.core.identity import body_of, entry_identity, frame, unframe
from graveler.core.ids import (
    CommitId,
    MetarangeId,
    RangeId,
)
from graveler.core.records import (
    TOMBSTONE,
    AddressType,
    Branch,
    BreakParameters,
    Cleanup,
    Commit,
    Entry,
    Fold,
    Job,
    MultipartUpload,
    PullRequest,
    RangeRef,
    Repository,
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
M = TypeVar("M", bound=Message)
R = TypeVar("R")
_Nested = tuple[Callable[[Any], Any], Callable[[Any], Any]]


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


class _Codec(Generic[R]):
    """Records whose fields are named as those of their message.  `rest`, if a record has it, holds
    the encoded fields that this release does not know."""

    def __init__(
        self, record: type[R], message: type[Message], subject: str, **nested: _Nested
    ) -> None:
        """`subject` names the record in errors.  `nested`: of the fields that hold messages, how a
        value becomes one and is made of one."""
        kind: Any = record
        names: tuple[str, ...] = kind.__match_args__
        self._keeps_rest = names[-1] == "rest"
        self._names = names[: -1 if self._keeps_rest else None]
        self._record, self._message, self._subject = kind, message, subject
        self._values = attrgetter(*self._names)
        self._nested = nested
        self._forms: list[tuple[int, Callable[[Any], Any]]] = []
        for at, name in enumerate(self._names):
            value: Any = kind.__annotations__[name]
            if name in nested:
                self._forms.append((at, nested[name][1]))
            elif get_origin(value) in (tuple, Mapping):
                self._forms.append((at, tuple if get_origin(value) is tuple else dict))
            elif isinstance(value, EnumType):
                self._forms.append((at, partial(self._state, _states(value))))

    def encode(self, record: R) -> bytes:
        """The stored form."""
        fields = dict(zip(self._names, self._values(record), strict=True))
        for name, (into, _) in self._nested.items():
            fields[name] = into(fields[name])
        whole: Any = record
        return _bytes(self._message(**fields), whole.rest if self._keeps_rest else b"")

    def decode(self, raw: bytes) -> R:
        """Raises `Corrupt`."""
        message = _record(self._message, raw, self._subject)
        values = [*self._values(message)]
        for at, form in self._forms:
            values[at] = form(values[at])
        if self._keeps_rest:
            values.append(_rest(message))
        made: R = self._record(*values)
        return made

    def _state(self, states: Mapping[int, object], number: int) -> object:
        if number not in states:
            raise Corrupt(f"{self._subject} has an unknown state: state={number}")
        return states[number]


def _states(kind: Iterable[IntEnum]) -> dict[int, object]:
    return {int(state): state for state in kind}  # calling the type takes 3 µs


def _breaks_message(breaks: BreakParameters) -> pb.Breaks:
    return pb.Breaks(
        min_size=breaks.min_size,
        max_size=breaks.max_size,
        raggedness=breaks.raggedness,
        salt=breaks.salt,
    )


def _breaks_of(m: pb.Breaks) -> BreakParameters:
    size = m.max_size or limits.range_size_bytes_default
    raggedness = m.raggedness or limits.range_raggedness_unrecorded
    return BreakParameters(m.min_size, size, raggedness, m.salt)


def _swap_messages(swaps: tuple[SentSwap, ...]) -> list[pb.SentSwap]:
    return [pb.SentSwap(**each._asdict()) for each in swaps]


def _swaps_of(messages: Iterable[pb.SentSwap]) -> tuple[SentSwap, ...]:
    return tuple(
        SentSwap(CommitId(m.commit), m.rev, CommitId(m.head), m.origin, m.rewinds) for m in messages
    )


_REPOSITORY: Final = _Codec(
    Repository, pb.Repository, "repository record", breaks=(_breaks_message, _breaks_of)
)
_BRANCH: Final = _Codec(Branch, pb.Branch, "branch record")
_TAG: Final = _Codec(Tag, pb.Tag, "tag record")
_FOLD: Final = _Codec(Fold, pb.Fold, "fold record")
_CLEANUP: Final = _Codec(Cleanup, pb.Cleanup, "clean-up record")
_ADDRESS: Final = _Codec(UploadAddress, pb.UploadAddress, "upload address record")
_UPLOAD: Final = _Codec(MultipartUpload, pb.MultipartUpload, "multipart upload record")
_PULL: Final = _Codec(PullRequest, pb.PullRequest, "pull request", sent=(_swap_messages, _swaps_of))
_JOB: Final = _Codec(Job, pb.Job, "job record")

encode_repository, decode_repository = _REPOSITORY.encode, _REPOSITORY.decode
encode_branch = _BRANCH.encode
# Cached by the raw bytes, because most reads find the record unchanged.
decode_branch = lru_cache(maxsize=_BRANCHES_KEPT)(_BRANCH.decode)
encode_tag, decode_tag = _TAG.encode, _TAG.decode
encode_fold, decode_fold = _FOLD.encode, _FOLD.decode
encode_cleanup, decode_cleanup = _CLEANUP.encode, _CLEANUP.decode
encode_upload_address, decode_upload_address = _ADDRESS.encode, _ADDRESS.decode
encode_multipart_upload, decode_multipart_upload = _UPLOAD.encode, _UPLOAD.decode
encode_pull, decode_pull = _PULL.encode, _PULL.decode
encode_job, decode_job = _JOB.encode, _JOB.decode


def encode_rules(patterns: tuple[str, ...]) -> bytes:
    """The stored form of the branch protection rules, which are a field of their repository."""
    return _bytes(pb.Repository(protected=patterns))


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


def encode_pairs(mapping: dict[str, str]) -> bytes:
    """Repository metadata and settings."""
    return _bytes(pb.Pairs(pairs=mapping))


def decode_pairs(raw: bytes) -> dict[str, str]:
    """Raises `Corrupt`."""
    return dict(_record(pb.Pairs, raw, "metadata record").pairs)
