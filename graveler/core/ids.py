"""Identifiers, and the functions that validate their text.

Each identifier has its own `NewType`, so a tag cannot be passed where a commit is expected.  Text
from outside becomes an identifier only through a `parse_*` function.  It raises `Invalid`, whose
message names the field and the rule.  Patterns are ASCII and match the whole text.
"""

import re
from typing import NewType

from graveler.core import limits
from graveler.core.errors import Code, Invalid

RepositoryId = NewType("RepositoryId", str)
RepositoryUid = NewType("RepositoryUid", str)
BranchId = NewType("BranchId", str)
TagId = NewType("TagId", str)
CommitId = NewType("CommitId", str)
MetarangeId = NewType("MetarangeId", str)
RangeId = NewType("RangeId", str)
StagingToken = NewType("StagingToken", str)
JobId = NewType("JobId", str)
PullId = NewType("PullId", str)

NO_BRANCH = BranchId("")  # names no branch
NO_COMMIT = CommitId("")  # refers to no commit
NO_METARANGE = MetarangeId("")  # the empty keyspace, as in the first commit of a repository

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}", re.ASCII)
_BRANCH = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_]*", re.ASCII)
_PULL = re.compile(r"[0-9a-v]{20}", re.ASCII)
_LOCAL = "local://"
_OWN_SEGMENTS = ("_graveler", "_lakefs")  # reserved: repositories keep their own files below these
_NAMESPACE = re.compile(r"(s3|local|mem)://[^\s?#%\\\x00-\x1f\x7f]+")
_HEX64 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TAG_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\]\\/%@$]")


def parse_repository_id(text: str) -> RepositoryId:
    """3 to 63 characters of a-z, 0-9 and '-'; the first is not '-'."""
    if not _REPOSITORY.fullmatch(text):
        raise Invalid(
            "repository name invalid: it must be 3 to 63 characters of a-z, 0-9 and '-', beginning "
            f"with a letter or digit: repository={_shown(text)}",
            Code.REPOSITORY_NAME_INVALID,
        )
    return RepositoryId(text)


def parse_branch_id(text: str, field: str = "branch") -> BranchId:
    """1 to 255 ASCII letters, digits, '_' and '-'; the first is not '-'."""
    if len(text) > limits.name_length_max or not _BRANCH.fullmatch(text):
        raise Invalid(
            f"{field} name invalid: it must be letters, digits, '_' and '-', not beginning with "
            f"'-', at most {limits.name_length_max} characters: {field}={_shown(text)}",
            Code.BRANCH_NAME_INVALID if field == "branch" else "",
        )
    return BranchId(text)


def parse_pull_id(text: str) -> PullId:
    """20 characters of 0-9 and a-v."""
    if not _PULL.fullmatch(text):
        raise Invalid(
            f"pull request id invalid: it must be 20 characters of 0-9 and a-v: {_shown(text)}",
            Code.PULL_ID_INVALID,
        )
    return PullId(text)


def parse_tag_id(text: str) -> TagId:
    """Git's rules for tag names, without '/', and without '~', '^', '@' and '$', which are
    modifiers in ref expressions.  1 to 255 ASCII characters."""
    wrong = (
        not text
        or len(text) > limits.name_length_max
        or _TAG_FORBIDDEN.search(text) is not None
        or not text.isascii()
        or ".." in text
        or text.startswith((".", "-"))
        or text.endswith((".", ".lock"))
    )
    if wrong:
        raise Invalid(
            "tag name invalid: it must be ASCII without spaces and without any of "
            "~ ^ : ? * [ ] \\ / % @ $, without '..', not beginning with '.' or '-', not ending "
            f"with '.' or '.lock': tag={_shown(text)}",
            Code.TAG_NAME_INVALID,
        )
    return TagId(text)


def parse_namespace(text: str) -> str:
    """`scheme://bucket[/prefix]` with scheme s3, local or mem; returned without trailing slashes.

    No segment may be empty, '.', '..' or one of the reserved `_graveler` and `_lakefs`, below which
    repositories keep their own files.  `local:///x` is read as `local://x`, because clients append
    a slash to the prefix that `/config` returns.
    """
    stripped = text.rstrip("/")
    if stripped.startswith(f"{_LOCAL}/"):
        stripped = _LOCAL + stripped.removeprefix(f"{_LOCAL}/")
    if not _NAMESPACE.fullmatch(stripped) or len(stripped) > limits.address_length_bytes_max:
        raise Invalid(
            "storage_namespace invalid: it must be scheme://bucket/prefix with one of the schemes "
            f"local, s3, mem: storage_namespace={_shown(text)}"
        )
    segments = stripped.split("://", 1)[1].split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise Invalid(
            "storage_namespace invalid: no segment may be empty, '.' or '..': "
            f"storage_namespace={_shown(text)}"
        )
    for segment in segments:
        if segment in _OWN_SEGMENTS:
            raise Invalid(
                f"storage_namespace invalid: no segment may be '{segment}', where a repository "
                f"keeps files of its own: storage_namespace={_shown(text)}"
            )
    return stripped


def parse_path(text: str, field: str = "path") -> bytes:
    """A logical path as UTF-8: 1 to 1,024 bytes, no NUL."""
    if not text:
        raise Invalid(f"{field} is empty: it must have at least one character")
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Invalid(f"{field} is not valid Unicode: {field}={_shown(text)}") from error
    if len(encoded) > limits.path_length_bytes_max:
        raise Invalid(
            f"{field} is too long: at most {limits.path_length_bytes_max} bytes: "
            f"length={len(encoded)}"
        )
    if "\0" in text:
        raise Invalid(f"{field} contains a NUL character, which no path may have")
    return encoded


def parse_prefix(text: str, field: str = "prefix") -> bytes:
    """Like a path, but may be empty; the empty prefix matches every path."""
    return parse_path(text, field) if text else b""


def is_hex64(text: str) -> bool:
    """Whether `text` has the shape of a commit, range or metarange id."""
    return _HEX64.fullmatch(text) is not None


def parse_metarange_id(text: str, field: str = "meta_range_id") -> MetarangeId:
    """64 lower-case hex digits, or empty for the empty keyspace."""
    if text and not is_hex64(text):
        raise Invalid(f"{field} invalid: it must be 64 hexadecimal digits: {field}={_shown(text)}")
    return MetarangeId(text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
