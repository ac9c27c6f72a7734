from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Timestamp(_message.Message):
    __slots__ = ("seconds", "nanos")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NANOS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    nanos: int
    def __init__(self, seconds: _Optional[int] = ..., nanos: _Optional[int] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("address", "last_modified", "size", "e_tag", "metadata", "address_type", "content_type")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LAST_MODIFIED_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    E_TAG_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    address: str
    last_modified: Timestamp
    size: int
    e_tag: str
    metadata: _containers.ScalarMap[str, str]
    address_type: int
    content_type: str
    def __init__(self, address: _Optional[str] = ..., last_modified: _Optional[_Union[Timestamp, _Mapping]] = ..., size: _Optional[int] = ..., e_tag: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., address_type: _Optional[int] = ..., content_type: _Optional[str] = ...) -> None: ...

class RangeData(_message.Message):
    __slots__ = ("min_key", "max_key", "estimated_size", "count", "identity")
    MIN_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_KEY_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_SIZE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    min_key: bytes
    max_key: bytes
    estimated_size: int
    count: int
    identity: bytes
    def __init__(self, min_key: _Optional[bytes] = ..., max_key: _Optional[bytes] = ..., estimated_size: _Optional[int] = ..., count: _Optional[int] = ..., identity: _Optional[bytes] = ...) -> None: ...

class Breaks(_message.Message):
    __slots__ = ("min_size", "max_size", "raggedness", "salt")
    MIN_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_FIELD_NUMBER: _ClassVar[int]
    RAGGEDNESS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    min_size: int
    max_size: int
    raggedness: int
    salt: bytes
    def __init__(self, min_size: _Optional[int] = ..., max_size: _Optional[int] = ..., raggedness: _Optional[int] = ..., salt: _Optional[bytes] = ...) -> None: ...

class Repository(_message.Message):
    __slots__ = ("id", "uid", "namespace", "default_branch", "created_ns", "state", "read_only", "breaks", "staging_shards", "collected", "protected")
    ID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_BRANCH_FIELD_NUMBER: _ClassVar[int]
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    BREAKS_FIELD_NUMBER: _ClassVar[int]
    STAGING_SHARDS_FIELD_NUMBER: _ClassVar[int]
    COLLECTED_FIELD_NUMBER: _ClassVar[int]
    PROTECTED_FIELD_NUMBER: _ClassVar[int]
    id: str
    uid: str
    namespace: str
    default_branch: str
    created_ns: int
    state: int
    read_only: bool
    breaks: Breaks
    staging_shards: int
    collected: bool
    protected: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., uid: _Optional[str] = ..., namespace: _Optional[str] = ..., default_branch: _Optional[str] = ..., created_ns: _Optional[int] = ..., state: _Optional[int] = ..., read_only: _Optional[bool] = ..., breaks: _Optional[_Union[Breaks, _Mapping]] = ..., staging_shards: _Optional[int] = ..., collected: _Optional[bool] = ..., protected: _Optional[_Iterable[str]] = ...) -> None: ...

class Branch(_message.Message):
    __slots__ = ("rev", "state", "staging", "sealed", "commit", "hidden", "changed_ns", "recent_rows", "origin", "rewinds")
    REV_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STAGING_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_NS_FIELD_NUMBER: _ClassVar[int]
    RECENT_ROWS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    REWINDS_FIELD_NUMBER: _ClassVar[int]
    rev: int
    state: int
    staging: str
    sealed: _containers.RepeatedScalarFieldContainer[str]
    commit: str
    hidden: bool
    changed_ns: int
    recent_rows: int
    origin: str
    rewinds: int
    def __init__(self, rev: _Optional[int] = ..., state: _Optional[int] = ..., staging: _Optional[str] = ..., sealed: _Optional[_Iterable[str]] = ..., commit: _Optional[str] = ..., hidden: _Optional[bool] = ..., changed_ns: _Optional[int] = ..., recent_rows: _Optional[int] = ..., origin: _Optional[str] = ..., rewinds: _Optional[int] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("committer", "message", "created_ns", "metarange", "metadata", "parents", "generation", "depth", "jump", "jump_depth", "linear", "version", "mark", "order_ns")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COMMITTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    METARANGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    JUMP_FIELD_NUMBER: _ClassVar[int]
    JUMP_DEPTH_FIELD_NUMBER: _ClassVar[int]
    LINEAR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    ORDER_NS_FIELD_NUMBER: _ClassVar[int]
    committer: str
    message: str
    created_ns: int
    metarange: str
    metadata: _containers.ScalarMap[str, str]
    parents: _containers.RepeatedScalarFieldContainer[str]
    generation: int
    depth: int
    jump: str
    jump_depth: int
    linear: int
    version: int
    mark: str
    order_ns: int
    def __init__(self, committer: _Optional[str] = ..., message: _Optional[str] = ..., created_ns: _Optional[int] = ..., metarange: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., parents: _Optional[_Iterable[str]] = ..., generation: _Optional[int] = ..., depth: _Optional[int] = ..., jump: _Optional[str] = ..., jump_depth: _Optional[int] = ..., linear: _Optional[int] = ..., version: _Optional[int] = ..., mark: _Optional[str] = ..., order_ns: _Optional[int] = ...) -> None: ...

class Tag(_message.Message):
    __slots__ = ("commit", "rev", "deleted", "changed_ns")
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    REV_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_NS_FIELD_NUMBER: _ClassVar[int]
    commit: str
    rev: int
    deleted: bool
    changed_ns: int
    def __init__(self, commit: _Optional[str] = ..., rev: _Optional[int] = ..., deleted: _Optional[bool] = ..., changed_ns: _Optional[int] = ...) -> None: ...

class Staged(_message.Message):
    __slots__ = ("value", "wid")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    WID_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    wid: bytes
    def __init__(self, value: _Optional[bytes] = ..., wid: _Optional[bytes] = ...) -> None: ...

class Fold(_message.Message):
    __slots__ = ("tokens", "request_id", "created_ns")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedScalarFieldContainer[str]
    request_id: bytes
    created_ns: int
    def __init__(self, tokens: _Optional[_Iterable[str]] = ..., request_id: _Optional[bytes] = ..., created_ns: _Optional[int] = ...) -> None: ...

class Cleanup(_message.Message):
    __slots__ = ("branch", "not_before_ns", "marked_ns", "passes")
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_NS_FIELD_NUMBER: _ClassVar[int]
    MARKED_NS_FIELD_NUMBER: _ClassVar[int]
    PASSES_FIELD_NUMBER: _ClassVar[int]
    branch: str
    not_before_ns: int
    marked_ns: int
    passes: int
    def __init__(self, branch: _Optional[str] = ..., not_before_ns: _Optional[int] = ..., marked_ns: _Optional[int] = ..., passes: _Optional[int] = ...) -> None: ...

class UploadAddress(_message.Message):
    __slots__ = ("branch", "path", "expires_ns")
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_NS_FIELD_NUMBER: _ClassVar[int]
    branch: str
    path: str
    expires_ns: int
    def __init__(self, branch: _Optional[str] = ..., path: _Optional[str] = ..., expires_ns: _Optional[int] = ...) -> None: ...

class MultipartUpload(_message.Message):
    __slots__ = ("id", "branch", "path", "address", "store_id", "created_ns", "content_type", "metadata", "storage_class", "entry", "parts", "completed_ns", "origin", "whole_checksum")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_NS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    WHOLE_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    id: str
    branch: str
    path: str
    address: str
    store_id: str
    created_ns: int
    content_type: str
    metadata: _containers.ScalarMap[str, str]
    storage_class: str
    entry: bytes
    parts: bytes
    completed_ns: int
    origin: str
    whole_checksum: str
    def __init__(self, id: _Optional[str] = ..., branch: _Optional[str] = ..., path: _Optional[str] = ..., address: _Optional[str] = ..., store_id: _Optional[str] = ..., created_ns: _Optional[int] = ..., content_type: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., storage_class: _Optional[str] = ..., entry: _Optional[bytes] = ..., parts: _Optional[bytes] = ..., completed_ns: _Optional[int] = ..., origin: _Optional[str] = ..., whole_checksum: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "kind", "state", "owner", "created_ns", "updated_ns", "progress", "cancel", "error", "commit", "metarange", "branch")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_NS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    METARANGE_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    state: int
    owner: bytes
    created_ns: int
    updated_ns: int
    progress: int
    cancel: bool
    error: str
    commit: str
    metarange: str
    branch: str
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., state: _Optional[int] = ..., owner: _Optional[bytes] = ..., created_ns: _Optional[int] = ..., updated_ns: _Optional[int] = ..., progress: _Optional[int] = ..., cancel: _Optional[bool] = ..., error: _Optional[str] = ..., commit: _Optional[str] = ..., metarange: _Optional[str] = ..., branch: _Optional[str] = ...) -> None: ...

class BranchData(_message.Message):
    __slots__ = ("id", "commit_id", "staging_token", "sealed_tokens", "hidden")
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    STAGING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEALED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    commit_id: str
    staging_token: str
    sealed_tokens: _containers.RepeatedScalarFieldContainer[str]
    hidden: bool
    def __init__(self, id: _Optional[str] = ..., commit_id: _Optional[str] = ..., staging_token: _Optional[str] = ..., sealed_tokens: _Optional[_Iterable[str]] = ..., hidden: _Optional[bool] = ...) -> None: ...

class TagData(_message.Message):
    __slots__ = ("id", "commit_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    commit_id: str
    def __init__(self, id: _Optional[str] = ..., commit_id: _Optional[str] = ...) -> None: ...

class CommitData(_message.Message):
    __slots__ = ("id", "committer", "message", "creation_date", "meta_range_id", "metadata", "parents", "version", "generation")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMITTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATION_DATE_FIELD_NUMBER: _ClassVar[int]
    META_RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    committer: str
    message: str
    creation_date: Timestamp
    meta_range_id: str
    metadata: _containers.ScalarMap[str, str]
    parents: _containers.RepeatedScalarFieldContainer[str]
    version: int
    generation: int
    def __init__(self, id: _Optional[str] = ..., committer: _Optional[str] = ..., message: _Optional[str] = ..., creation_date: _Optional[_Union[Timestamp, _Mapping]] = ..., meta_range_id: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., parents: _Optional[_Iterable[str]] = ..., version: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class Pairs(_message.Message):
    __slots__ = ("pairs",)
    class PairsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    pairs: _containers.ScalarMap[str, str]
    def __init__(self, pairs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("id", "title", "description", "author", "source", "destination", "state", "created_ns", "closed_ns", "merged", "opening", "since", "attempt", "sent")
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_NS_FIELD_NUMBER: _ClassVar[int]
    MERGED_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    title: str
    description: str
    author: str
    source: str
    destination: str
    state: int
    created_ns: int
    closed_ns: int
    merged: str
    opening: int
    since: str
    attempt: str
    sent: _containers.RepeatedCompositeFieldContainer[SentSwap]
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., author: _Optional[str] = ..., source: _Optional[str] = ..., destination: _Optional[str] = ..., state: _Optional[int] = ..., created_ns: _Optional[int] = ..., closed_ns: _Optional[int] = ..., merged: _Optional[str] = ..., opening: _Optional[int] = ..., since: _Optional[str] = ..., attempt: _Optional[str] = ..., sent: _Optional[_Iterable[_Union[SentSwap, _Mapping]]] = ...) -> None: ...

class SentSwap(_message.Message):
    __slots__ = ("commit", "rev", "head", "origin", "rewinds")
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    REV_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    REWINDS_FIELD_NUMBER: _ClassVar[int]
    commit: str
    rev: int
    head: str
    origin: str
    rewinds: int
    def __init__(self, commit: _Optional[str] = ..., rev: _Optional[int] = ..., head: _Optional[str] = ..., origin: _Optional[str] = ..., rewinds: _Optional[int] = ...) -> None: ...
