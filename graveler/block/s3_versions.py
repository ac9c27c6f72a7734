"""Lists the objects of a bucket with their versions, and deletes exactly one version.

S3's plain list has no versions, so this module lists all versions and skips those that are not the
newest of their key.  Deleting a version makes the one before it visible again.  So all versions
that it replaced are deleted first, and a replaced object never comes back.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from graveler import limits
from graveler.block.adapter import UNVERSIONED, ListedObject, ObjectHead, ObjectPage
from graveler.block.address import Parts
from graveler.block.s3_calls import Call, S3Calls
from graveler.errors import Unavailable, Unsupported

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
