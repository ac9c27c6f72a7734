"""Versions and deletions of objects in S3.

The versions that a version replaced are deleted before it, so that nothing older becomes visible.
A deletion of many by version has two rounds: first all older versions of all keys, then the named
ones.  A key whose older version stays keeps its named version too, and an error is raised.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, Final, NamedTuple

from graveler.block import drivers
from graveler.block.adapter import (
    ANY_VERSION,
    UNVERSIONED,
    ListedObject,
    ObjectHead,
    ObjectPage,
    Target,
)
from graveler.block.address import Parts
from graveler.block.s3_calls import Call, Places, S3Calls, error_of
from graveler.core import limits
from graveler.core.aws import failure_said
from graveler.core.errors import GravelerError, Unavailable, Unsupported

# ---- s3 versions -----------------------------------------------------------------------------

PAGE_MAX = 1_000  # S3 lists at most this many versions per request
_PAGES_MAX = 10_000  # many replaced versions may lie between two current ones


def page(calls: S3Calls, prefix: Parts, after: str, limit: int) -> ObjectPage:
    """See `BlockStore.list`.  Cost: one request per 1,000 versions, including replaced ones."""
    stem = Parts(prefix.scheme, prefix.bucket, "").address
    inside = after.startswith(stem)
    if after > stem and not inside:
        return ObjectPage((), False)
    begin = after[len(stem) :] if inside else ""
    lines: list[ListedObject] = []
    for version in _versions(calls, prefix, begin, limit + 1):
        if not version["IsLatest"]:
            continue
        lines.append(ListedObject(stem + version["Key"], _head(version)))
        if len(lines) > limit:
            return ObjectPage(tuple(lines[:limit]), True)
    return ObjectPage(tuple(lines), False)


def delete(calls: S3Calls, target: Parts, version: str) -> None:
    """Delete a version, and before it every version that it replaced.

    Cost: two requests, one more for each replaced version, and one more for the version `null`.
    """
    check_version(calls, target, version)
    doomed: list[str] = []
    for line in _versions(calls, target, "", PAGE_MAX):
        if line["Key"] != target.key:
            break  # the key itself sorts before all longer keys with this prefix
        if doomed or line["VersionId"] == version:
            doomed.append(str(line["VersionId"]))
    call = Call("delete_object", "delete a version", target.bucket, target.key)
    for name in reversed(doomed):
        calls.send(call, VersionId=name)


def check_version(calls: S3Calls, target: Parts, version: str) -> None:
    """Raises `Unsupported` for a version that the next put could have too.  One request for the
    version `null` (stored without versioning), none for others."""
    if version == UNVERSIONED:
        check_bucket(calls, target.bucket)


def check_bucket(calls: S3Calls, bucket: str) -> None:
    """Raises `Unsupported` unless versioning is enabled, so that every put makes a new version.
    One request."""
    purpose = "ask whether versions are kept (s3:GetBucketVersioning)"
    answer = calls.send(Call("get_bucket_versioning", purpose, bucket, is_write=False))
    if answer.get("Status") != "Enabled":
        raise Unsupported(
            f"the bucket keeps no versions, so none can be deleted: {bucket=}; enable "
            f"versioning (aws s3api put-bucket-versioning --bucket {bucket} "
            "--versioning-configuration Status=Enabled), and try again a day later"
        )


def head(calls: S3Calls, target: Parts, version: str) -> ObjectHead:
    """The head of one version, even if it was replaced meanwhile.  One request."""
    call = Call("head_object", "head a version", target.bucket, target.key, is_write=False)
    answer = calls.send(call, **({} if version == UNVERSIONED else {"VersionId": version}))
    return _head({"Size": answer["ContentLength"], "VersionId": version, **answer})


class Marker(NamedTuple):
    """The marker after which a list of versions continues: a key, or a version of a key."""

    key: str
    version: str

    def arguments(self) -> dict[str, str]:
        """The arguments that make S3 continue after this marker."""
        marker = {"KeyMarker": self.key} if self.key else {}
        return marker | ({"VersionIdMarker": self.version} if self.version else {})


def _versions(calls: S3Calls, prefix: Parts, after: str, count: int) -> Iterator[dict[str, Any]]:
    """Versions with a key greater than `after`, in byte order of keys, the newest of each key
    first."""
    call = Call("list_object_versions", "list versions", prefix.bucket, is_write=False)
    marker = Marker(after, "")
    for _ in range(_PAGES_MAX):
        answer = calls.send(
            call, Prefix=prefix.key, MaxKeys=min(count, PAGE_MAX), **marker.arguments()
        )
        yield from answer.get("Versions", ())
        if not answer.get("IsTruncated"):
            return
        marker = Marker(answer["NextKeyMarker"], answer.get("NextVersionIdMarker", ""))
    raise Unavailable(f"list objects: too many replaced versions: prefix={prefix.address}")


def _head(version: dict[str, Any]) -> ObjectHead:
    modified_ns = int(version["LastModified"].timestamp()) * limits.SECOND_NS
    etag = str(version["ETag"]).strip('"')
    return ObjectHead(int(version["Size"]), etag, modified_ns, str(version["VersionId"]))


# ---- s3 deletes ------------------------------------------------------------------------------


_AT_ONCE: Final = 8  # concurrent lists of versions
_FEW: Final = 100
_GONE: Final = frozenset({"NoSuchKey", "NoSuchVersion"})
_UNSPEAKABLE: Final = re.compile("[\x00-\x1f\x7f\ufffe\uffff]")  # XML cannot contain these


class _KeyVersion(NamedTuple):
    """A version of a key.  An empty version means the object, whatever its version."""

    key: str
    version: str

    def fields(self) -> dict[str, str]:
        """The form that S3's `DeleteObjects` takes."""
        return {"Key": self.key} | ({"VersionId": self.version} if self.version else {})


class S3Deletes:
    """The deletions of the S3 driver.  Thread-safe."""

    def __init__(self, places: Places, calls: S3Calls) -> None:
        self._places = places
        self._calls = calls

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        self._delete(self._places.written(address), version)

    def delete_all(self, targets: Sequence[Target]) -> None:
        drivers.check_targets(targets)
        places = [(self._places.written(target.address), target.version) for target in targets]
        for bucket in sorted({parts.bucket for parts, version in places if version == UNVERSIONED}):
            check_bucket(self._calls, bucket)
        failed: list[GravelerError] = []
        alone = [each for each in places if _UNSPEAKABLE.search(each[0].key)]
        for parts, version in alone:
            try:
                self._delete(parts, version)
            except GravelerError as error:
                failed.append(error)
        buckets: dict[str, list[_KeyVersion]] = {}
        for parts, version in places:
            if not _UNSPEAKABLE.search(parts.key):
                buckets.setdefault(parts.bucket, []).append(_KeyVersion(parts.key, version))
        for bucket, names in buckets.items():
            failed += _in_bucket(self._calls, bucket, names)
        if failed:
            raise failed[0]

    def check_versions(self, address: str) -> None:
        check_bucket(self._calls, self._places.written(address).bucket)

    def _delete(self, parts: Parts, version: str) -> None:
        if version != ANY_VERSION:
            delete(self._calls, parts, version)
            return
        self._calls.send(Call("delete_object", "delete an object", parts.bucket, parts.key))


def _in_bucket(calls: S3Calls, bucket: str, names: Iterable[_KeyVersion]) -> list[GravelerError]:
    """Delete the named versions in one bucket; return the errors."""
    whole: set[_KeyVersion] = set()
    versions_of: dict[str, set[str]] = {}
    for name in names:
        if name.version == ANY_VERSION:
            whole.add(name)
        else:
            versions_of.setdefault(name.key, set()).add(name.version)
    older: list[_KeyVersion] = []
    newest: list[_KeyVersion] = []
    for key, versions in groupby(
        _older_versions(calls, bucket, sorted(versions_of)), lambda each: each.key
    ):
        doomed: list[_KeyVersion] = []
        for name in versions:
            if doomed or name.version in versions_of[key]:
                doomed.append(name)
        newest += doomed[:1]
        older += doomed[1:]
    failed = _send(calls, bucket, older)
    last = [each for each in newest if each.key not in failed]
    return [*failed.values(), *_send(calls, bucket, [*last, *sorted(whole)]).values()]


def _older_versions(calls: S3Calls, bucket: str, keys: Sequence[str]) -> list[_KeyVersion]:
    """All versions of `keys` (sorted), in the order of the keys, the newest of each first."""
    if not keys:
        return []
    names, marker = _page(calls, bucket, keys, Marker("", ""))
    rest = keys[bisect_left(keys, marker.key) :] if marker.key else ()
    count = _AT_ONCE if len(rest) > _FEW else 1
    size = -(-len(rest) // count)
    parts = [rest[at : at + size] for at in range(0, len(rest), size or 1)]
    with ThreadPoolExecutor(_AT_ONCE, "versions") as pool:
        for more in pool.map(lambda part: _walk(calls, bucket, part, marker), parts):
            names += more
    return names


def _walk(calls: S3Calls, bucket: str, keys: Sequence[str], marker: Marker) -> list[_KeyVersion]:
    """As `_versions`, for keys at or after `marker`, page after page."""
    names: list[_KeyVersion] = []
    while keys:
        page, marker = _page(calls, bucket, keys, marker)
        names += page
        keys = keys[bisect_left(keys, marker.key) :] if marker.key else ()
    return names


def _page(
    calls: S3Calls, bucket: str, keys: Sequence[str], marker: Marker
) -> tuple[list[_KeyVersion], Marker]:
    """One page: versions of some of these keys, and the marker where the list continues.  A marker
    without a key: the list has ended."""
    call = Call("list_object_versions", "list versions", bucket, is_write=False)
    known, prefix = frozenset(keys), _common(keys[0], keys[-1])
    marker = max(marker, Marker(_before(keys[0]), ""))
    behind = marker.arguments() if marker.key >= prefix else {}
    answer = calls.send(call, Prefix=prefix, MaxKeys=PAGE_MAX, **behind)
    names = [
        _KeyVersion(str(line["Key"]), str(line["VersionId"]))
        for line in answer.get("Versions", ())
        if line["Key"] in known
    ]
    if not answer.get("IsTruncated"):
        return names, Marker("", "")
    return names, Marker(str(answer["NextKeyMarker"]), str(answer.get("NextVersionIdMarker", "")))


def _common(first: str, last: str) -> str:
    """The common prefix of all keys from `first` to `last`."""
    count = 0
    while count < min(len(first), len(last)) and first[count] == last[count]:
        count += 1
    return first[:count]


def _before(key: str) -> str:
    """A text that sorts before `key`, with almost no possible keys between the two."""
    last = key[-1:]
    return f"{key[:-1]}{chr(ord(last) - 1)}~" if " " < last <= "~" else key[:-1]


def _send(calls: S3Calls, bucket: str, names: Sequence[_KeyVersion]) -> Mapping[str, GravelerError]:
    """Delete versions; return the keys whose deletion failed, with their errors."""
    call = Call("delete_objects", "delete objects", bucket)
    failed: dict[str, GravelerError] = {}
    for at in range(0, len(names), PAGE_MAX):
        objects = [each.fields() for each in names[at : at + PAGE_MAX]]
        answer = calls.send(call, Delete={"Objects": objects, "Quiet": True})
        for failure in answer.get("Errors", ()):
            if failure.get("Code") not in _GONE:
                failed.setdefault(str(failure["Key"]), _error(bucket, failure))
    return failed


def _error(bucket: str, answer: Mapping[str, Any]) -> GravelerError:
    key, code = str(answer["Key"]), str(answer.get("Code", ""))
    failure = failure_said(code, str(answer.get("Message", "")))
    return error_of(failure, Call("delete_objects", "delete an object of many", bucket, key))
