"""Maps the keys of a bucket to file paths of the local store, one to one.

    local://lake/ns/data/<20>/<20>    lake/ns/data/<20>/<20>        object bytes
    local://lake/ns/_lakefs/<id>      lake/ns/_lakefs/<id>          ranges, metaranges, the marker
    local://lake/ns/a                 lake/ns/a%                    any other key: a marked file,
    local://lake/ns/a/b               lake/ns/a/b%                  so `a` may be key and folder
    local://lake/ns/a/                lake/ns/a/%                   the marker of a folder
    local://lake/50%                  lake/50%25%                   `%` itself is escaped

Keys of the first two shapes have a marked folder name and a plain file name, all others the
reverse.  The store's own names (`%tmp`, `%uploads`, `%journal`) have a `%` where no key has one.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from graveler.block.address import Parts, split
from graveler.core.errors import Invalid, Unsupported
from graveler.core.ids import is_hex64
from graveler.core.records import ABSENT, Absent

SCHEME = "local"
TEMPORARY = "%tmp"
UPLOADS = "%uploads"
JOURNAL = "%journal"
_MARK = "%"
_TABLES = "_lakefs"
_GENERATED = re.compile(r"[0-9a-v]{20}", re.ASCII)
_FOLDERS_KEPT = 256
_NAME_LENGTH_BYTES_MAX = 255  # every common file system allows this length


class FilePath(NamedTuple):
    """The place of a file: the folders below the store's root, and the file name."""

    folders: tuple[str, ...]
    name: str


def served(address: str, parse: Callable[[str], Parts] = split) -> Parts:
    """Parse the address of an object, or with `split_prefix` the prefix of a list.

    Raises `Invalid` for another scheme than `local`."""
    parts = parse(address)
    if parts.scheme != SCHEME:
        raise Invalid(
            f"address has a scheme that this store does not serve: {address=} scheme={SCHEME}"
        )
    return parts


def owned(address: str) -> Parts:
    """Parse the address of an object that may be written: it is in a bucket of the store.
    `Unsupported` for a file outside of the store."""
    parts = served(address)
    if not parts.bucket:
        raise Unsupported(f"files outside of the store are read-only: {address=}")
    return parts


def is_owned(address: str) -> bool:
    """Whether an address, which must be one of this driver, is in a bucket of the store, and not
    that of a file outside."""
    return not address.startswith(f"{SCHEME}:///")


def place(parts: Parts) -> FilePath:
    """The place of an object's file.  Raises `Invalid` if a segment is too long for a file name."""
    segments = parts.key.split("/")
    folders = _folders(parts.bucket, parts.key[: parts.key.rfind("/") + 1])
    mark = "" if _is_plain_file(segments) else _MARK
    return FilePath(folders, _file_name(segments[-1], mark))


def is_table(place: FilePath) -> bool:
    """Whether a place is that of a range or metarange, whose name is the hash of its content."""
    return place.folders[-1] == _TABLES and is_hex64(place.name)


def folder(parts: Parts) -> tuple[str, ...]:
    """The folders that contain all keys with a prefix; its last segment does not count."""
    return _folders(parts.bucket, parts.key[: parts.key.rfind("/") + 1])


def segment(above: Sequence[str], name: str, is_folder: bool) -> str | Absent:
    """The key segment of a file or folder called `name`, below the segments `above`; `ABSENT` for a
    name that no key has.  The inverse of `place` and `folder`."""
    for mark in ("", _MARK):
        if name.endswith(mark):
            segment_name = name[: len(name) - len(mark)].replace("%25", "%")
            plain = _is_plain_file((*above, segment_name))
            marked = plain if is_folder else not plain
            if marked == bool(mark) and segment_name.replace("%", "%25") + mark == name:
                return segment_name
    return ABSENT


@lru_cache(maxsize=_FOLDERS_KEPT)
def _folders(bucket: str, stem: str) -> tuple[str, ...]:
    """The folders of all keys that begin with `stem`, which is empty or ends with a slash.  Cached:
    new objects go to few folders."""
    names = [bucket.replace("%", "%25")]
    segments = stem.split("/")[:-1]
    for count, segment in enumerate(segments, 1):
        names.append(_file_name(segment, _MARK if _is_plain_file(segments[:count]) else ""))
    return tuple(names)


def _is_plain_file(segments: Sequence[str]) -> bool:
    if len(segments) >= 2 and segments[-2] == _TABLES:
        return bool(segments[-1])
    return (
        len(segments) >= 3
        and segments[-3] == "data"
        and _GENERATED.fullmatch(segments[-2]) is not None
        and _GENERATED.fullmatch(segments[-1]) is not None
    )


def _file_name(segment: str, mark: str) -> str:
    name = segment.replace("%", "%25") + mark
    if len(name) > _NAME_LENGTH_BYTES_MAX // 4 and (
        len(name.encode("utf-8")) > _NAME_LENGTH_BYTES_MAX
    ):
        raise Invalid(
            f"a segment of a local address must have at most {_NAME_LENGTH_BYTES_MAX - 1} bytes: "
            f"segment={name[:40]!r}..."
        )
    return name
