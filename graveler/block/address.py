"""Physical addresses, `scheme://bucket/key`: parsing, canonical spelling, and Graveler's own files.

    s3://lake/tables/data/<partition>/<unique>   a key below the storage namespace s3://lake/tables
    local://name/data/...                        a file below the store's own folder
    local:///srv/lake/a.csv                      no bucket: a file of this machine, for imports

An address is exact.  No segment is empty, `.` or `..`, and none contains a NUL or a backslash, so
no address can lead a driver out of its bucket.  One trailing slash is allowed (the marker of a
folder) and is part of the name.  `s3a` and `s3n` are spellings of `s3`.  `normalise` accepts more
spellings, because it serves only comparison: addresses that differ after it are never the same
object.

Chooses the folder for the bytes of new objects: `data/<hour, newest first><seed>/<unique>`.

A process begins a new folder for each hour and each 10,000 objects.  The seed of an hour's first
folder is derived from its owner, so that processes share it; later seeds are random.
"""

import re
import threading
from collections import OrderedDict
from typing import NamedTuple

from graveler.core import limits
from graveler.core.clock import Clock, Ids, descending_partition
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, Absent, AddressType

# ---- address ---------------------------------------------------------------------------------

FILES = "_lakefs/"  # ranges and metaranges of a repository, below its namespace
OBJECTS = "data/"  # the bytes of objects that the service writes
OWN_FOLDER = "_graveler/"  # files of jobs, dumps and collections
OWN_FILES = (FILES, OWN_FOLDER)
HOOK_LOGS = f"{FILES}actions/log/"
_FILE = re.compile(rf"{FILES}[0-9a-f]{{64}}", re.ASCII)
_OBJECT = re.compile(rf"{OBJECTS}[0-9a-v]{{20}}/[0-9a-v]{{20}}(?:,[A-Za-z0-9_-]{{24}})?", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://", re.ASCII)
_SPELLINGS = {"s3a": "s3", "s3n": "s3"}
_WITHOUT_BUCKET = "local"
_FORBIDDEN = re.compile(r"[\x00\\\ud800-\udfff]")
_SLASHES = re.compile(r"/{2,}")
_DOTS = (".", "..")
_SEGMENT = r"(?!\.{1,2}(?:/|$))[^/\\\x00]+"
_CANONICAL = re.compile(
    rf"(?:{_WITHOUT_BUCKET}://|(?!s3[an]:)[a-z][a-z0-9+.-]*://{_SEGMENT})(?:/{_SEGMENT})+", re.ASCII
)


class Parts(NamedTuple):
    """The parts of an address.  `bucket` is empty only for a file of this machine."""

    scheme: str
    bucket: str
    key: str

    @property
    def address(self) -> str:
        """The address in its canonical spelling."""
        return f"{self.scheme}://{self.bucket}/{self.key}"


def split(address: str) -> Parts:
    """Parse the address of an object.  Raises `Invalid`, which names the broken rule."""
    if _is_canonical(address):
        scheme, _, rest = address.partition("://")
        bucket, _, key = rest.partition("/")
        return Parts(scheme, bucket, key)
    parts = _taken_apart(address)
    if not parts.key:
        raise Invalid(f"address has no key: address={_shown(address)}")
    _check_segments(address, parts.key.removesuffix("/").split("/"))
    return parts


def check(address: str) -> None:
    """Check the address of an object.  Raises `Invalid`, as `split` does."""
    if not _is_canonical(address):
        split(address)


def split_prefix(prefix: str) -> Parts:
    """Parse the prefix of a list: at least `scheme://bucket/`; the last segment may be incomplete.
    Raises `Invalid`."""
    parts = _taken_apart(prefix)
    if not prefix.endswith("/") and not parts.key:
        raise Invalid(
            f"prefix must name a bucket and a slash, as in s3://bucket/: prefix={_shown(prefix)}"
        )
    folders = parts.key.split("/")[:-1]
    _check_segments(prefix, folders)
    return parts


def join(namespace: str, relative: str) -> str:
    """The full address of the object at `relative` below `namespace`.  Raises `Invalid`."""
    stem = namespace.rstrip("/")
    if not relative or relative.startswith("/"):
        raise Invalid(
            f"relative address is empty or begins with a slash: address={_shown(relative)}"
        )
    full = f"{stem}/{relative}"
    return full if _is_canonical(full) else split(full).address


def relative_to(namespace: str, address: str) -> str | Absent:
    """The path of `address`, in any spelling, relative to `namespace`; `ABSENT` if `address` is not
    below it."""
    stem, canonical = normalise(namespace) + "/", normalise(address)
    return canonical[len(stem) :] if canonical.startswith(stem) else ABSENT


def resolve(namespace: str, entry_address: str, address_type: AddressType) -> str:
    """The full address of an entry of a repository with the storage namespace `namespace`."""
    full = address_type is AddressType.FULL
    if address_type is AddressType.BY_PREFIX:
        full = _SCHEME.match(entry_address) is not None
    if not full:
        return join(namespace, entry_address)
    return entry_address if _is_canonical(entry_address) else split(entry_address).address


def normalise(address: str) -> str:
    """One spelling for all addresses that may mean the same object or namespace.  It unifies the
    scheme, and removes doubled and trailing slashes.  Raises `Invalid`.

    For comparison only: an object store that distinguishes doubled slashes has a different object
    at the normalised address.
    """
    match = _SCHEME.match(address)
    if match is None:
        raise Invalid(f"address has no scheme: address={_shown(address)}")
    rest = _SLASHES.sub("/", address[match.end() :]).rstrip("/")
    scheme = _canonical_scheme(match[1])
    bucketless = scheme == _WITHOUT_BUCKET and rest.startswith("/")
    _check_length(address)
    _check_segments(address, (rest[1:] if bucketless else rest).split("/"))
    return f"{scheme}://{rest}"


def spelling(address: str) -> str:
    """`normalise` for the address of an object.  Raises `Invalid` as `split` does."""
    return address if _is_canonical(address) else normalise(split(address).address)


def overlaps(namespace: str, other: str) -> bool:
    """Whether the two are the same or one lies below the other."""
    left, right = normalise(namespace) + "/", normalise(other) + "/"
    return left.startswith(right) or right.startswith(left)


def range_file(namespace: str, range_id: str) -> str:
    """The address of the file of a range or metarange."""
    return join(namespace, f"{FILES}{range_id}")


def marker(namespace: str) -> str:
    """The address of the object that claims a namespace.

    It is created conditionally.  Its content names the claimant, because after a lost answer a
    claimant recognises its own claim only by the content.
    """
    return join(namespace, f"{FILES}dummy")


def hook_log(namespace: str, run: str, hook_run: str) -> str:
    """The address of the log of one hook of a run."""
    return join(namespace, f"{HOOK_LOGS}{run}/{hook_run}.log")


def new_data_address(now_ns: int, ids: Ids, partition: bytes) -> str:
    """A fresh relative address for object bytes.  Lists of `data/` show the newest hour first.

    `partition`: a seed that gives each writer its own folder.
    """
    return f"{OBJECTS}{descending_partition(now_ns, partition)}/{ids.unique(20)}"


def is_ours(name: str) -> bool:
    """Whether a relative address has a shape that only this system generates: a file of a range or
    metarange, or an object."""
    return is_our_object(name) or _FILE.fullmatch(name) is not None


def is_our_object(name: str) -> bool:
    """Whether a relative address has the shape of an object that the service writes."""
    return _OBJECT.fullmatch(name) is not None


def _is_canonical(address: str) -> bool:
    """Whether an address is valid and canonical, as most are: the full way takes three times as
    long.  It says no to addresses that only the full way can judge."""
    is_short = address.isascii() and len(address) <= limits.address_length_bytes_max
    return is_short and _CANONICAL.fullmatch(address) is not None


def _taken_apart(address: str) -> Parts:
    match = _SCHEME.match(address)
    if match is None:
        raise Invalid(f"address must be scheme://bucket/key: address={_shown(address)}")
    _check_length(address)
    scheme = _canonical_scheme(match[1])
    bucket, _, key = address[match.end() :].partition("/")
    if not bucket and scheme != _WITHOUT_BUCKET:
        raise Invalid(f"address has no bucket: address={_shown(address)}")
    if bucket:
        _check_segments(address, [bucket])
    return Parts(scheme, bucket, key)


def _canonical_scheme(scheme: str) -> str:
    lowered = scheme.lower()
    return _SPELLINGS.get(lowered, lowered)


def _check_length(address: str) -> None:
    if len(address) > limits.address_length_bytes_max or (
        len(address.encode("utf-8", "surrogatepass")) > limits.address_length_bytes_max
    ):
        raise Invalid(
            f"address is too long: at most {limits.address_length_bytes_max} bytes: "
            f"address={_shown(address)}"
        )


def _check_segments(address: str, segments: list[str]) -> None:
    if _FORBIDDEN.search(address) is not None:
        raise Invalid(
            f"address must be Unicode without NUL and without backslash: address={_shown(address)}"
        )
    for segment in segments:
        if not segment or segment in _DOTS:
            raise Invalid(
                f"no segment of an address may be empty, '.' or '..': address={_shown(address)}"
            )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")


# ---- partitions ------------------------------------------------------------------------------


_OWNERS_MAX = 1_000  # owners whose objects are counted
_HOUR_NS = 3_600 * limits.SECOND_NS
_SEED_LENGTH = 7


class _Folder(NamedTuple):
    hour: int
    seed: bytes
    objects: int


class Partitions:
    """Makes fresh addresses for the bytes of objects.  Thread-safe."""

    def __init__(self, objects_max: int = limits.data_partition_objects_max) -> None:
        self._objects_max = objects_max
        self._folders: OrderedDict[str, _Folder] = OrderedDict()
        self._lock = threading.Lock()

    def new_address(self, clock: Clock, ids: Ids, owner: str) -> str:
        """A fresh relative address for bytes of `owner`, the uid of a repository."""
        now_ns = clock.now_ns()
        hour = now_ns // _HOUR_NS
        with self._lock:
            folder = self._folders.pop(owner, None)
            if folder is None or folder.hour != hour:
                folder = _Folder(hour, owner.encode(), 0)
            elif folder.objects >= self._objects_max:
                folder = _Folder(hour, ids.unique(_SEED_LENGTH).encode(), 0)
            self._folders[owner] = folder._replace(objects=folder.objects + 1)
            if len(self._folders) > _OWNERS_MAX:
                self._folders.popitem(last=False)
        return new_data_address(now_ns, ids, folder.seed)
