"""Deletes objects in S3, one or many.

The versions that a version replaced are deleted before it, so nothing older becomes visible.  A
deletion of many by version has two rounds: first all older versions of all keys, then the named
versions.  If an older version stays, its named version stays too, and an error is raised.

    versions    one list from the first key to the last, 1,000 versions a page.  If a page ends
                between two keys, the list skips to the next key.  For more than 100 remaining
                keys, eight lists run concurrently.
    deletions   1,000 per request, in each round
    versioning  one request for each bucket with a target of the version `null`
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, Final, NamedTuple

from graveler.aws import failure_said
from graveler.block import bounds, s3_versions
from graveler.block.adapter import ANY_VERSION, UNVERSIONED, Target
from graveler.block.address import Parts
from graveler.block.s3_calls import Call, S3Calls, error_of
from graveler.block.s3_places import Places
from graveler.block.s3_versions import PAGE_MAX, Marker
from graveler.errors import GravelerError

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
        bounds.check_targets(targets)
        places = [(self._places.written(target.address), target.version) for target in targets]
        for bucket in sorted({parts.bucket for parts, version in places if version == UNVERSIONED}):
            s3_versions.check_bucket(self._calls, bucket)
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
        s3_versions.check_bucket(self._calls, self._places.written(address).bucket)

    def _delete(self, parts: Parts, version: str) -> None:
        if version != ANY_VERSION:
            s3_versions.delete(self._calls, parts, version)
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
        _versions(calls, bucket, sorted(versions_of)), lambda each: each.key
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


def _versions(calls: S3Calls, bucket: str, keys: Sequence[str]) -> list[_KeyVersion]:
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
