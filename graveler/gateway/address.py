"""Host and path of a request to what they name: repository, ref, path.

    Host: any                      /lake/main/in/x.parquet     path style
    Host: lake.s3.example.org      /main/in/x.parquet          host style, below a configured domain

The path is decoded once, as bytes, and then split at its first slashes.  Nothing is normalised:
`//`, `.` and `..` are parts of names, as in S3.  So `main//x` is the path `/x` on `main`, and a
path can not leave its repository.  Pure.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from graveler import limits
from graveler.api.front import host_of
from graveler.gateway.errors import Place, S3Error

_VERSION: Final = b"?versionId="
NO_VERSION: Final = ("", "null")  # of requests that name none; there are no others


class Level(Enum):
    """What a request is about."""

    SERVICE = "service"
    BUCKET = "bucket"
    KEY = "key"


class Address(NamedTuple):
    """What a request names.  `ref` and `path` are the parts of the key before and behind its first
    slash; `has_slash` tells whether it has one."""

    bucket: str = ""
    key: str = ""
    ref: str = ""
    path: str = ""
    has_slash: bool = False

    @property
    def level(self) -> Level:
        if self.key:
            return Level.KEY
        return Level.BUCKET if self.bucket else Level.SERVICE

    @property
    def place(self) -> Place:
        """What an error names."""
        return Place(self.bucket, self.ref, self.path)


NOWHERE: Final = Address()


def domains_of(names: Sequence[str]) -> tuple[str, ...]:
    """Configured S3 domains in normal form, the longest first."""
    return tuple(sorted((host_of(name).rstrip(".") for name in names), key=len, reverse=True))


def is_of_domain(host: str, domains: Sequence[str]) -> bool:
    """Whether a Host header is a configured domain, or one label below one."""
    return _bucket_of(host, domains) is not None


def bucket_of_host(host: str, domains: Sequence[str]) -> str:
    """The bucket of a request in host style; empty for one in path style."""
    return _bucket_of(host, domains) or ""


def _bucket_of(host: str, domains: Sequence[str]) -> str | None:
    """The label below a configured domain; empty for the domain itself, None for another host."""
    if not domains:
        return None
    name = host_of(host).rstrip(".")
    for domain in domains:
        if name == domain:
            return ""
        label = name.removesuffix("." + domain)
        if label != name and label and "." not in label:
            return label
    return None


def address_of(host: str, raw_path: bytes, domains: Sequence[str]) -> Address:
    """What a request names.  Raises `S3Error`."""
    name = _text(unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path, "InvalidURI")
    if not name.startswith("/"):
        raise S3Error("InvalidURI")
    bucket, key = bucket_of_host(host, domains), name[1:]
    if not bucket:
        bucket, _, key = key.partition("/")
    return address_in(bucket, key)


def address_in(bucket: str, key: str) -> Address:
    """The address of a key.  Raises `S3Error`."""
    ref, slash, path = key.partition("/")
    if len(path.encode()) > limits.path_length_bytes_max or len(ref) > limits.ref_length_max:
        raise S3Error("KeyTooLongError")
    return Address(bucket, key, ref, path, bool(slash))


def source_of(header: bytes) -> Address:
    """What the header `x-amz-copy-source` names: `[/]bucket/key`, percent-encoded, with
    `?versionId=null` behind it or without.  `+` is a space, as in S3.  Raises `S3Error`."""
    if header != b" ".join(header.split()):  # a signature covers several blanks as one
        raise S3Error("InvalidArgument", "Copy Source must be percent-encoded")
    raw, _, version = header.partition(_VERSION)
    if version.decode("latin-1") not in NO_VERSION:
        raise S3Error("NoSuchVersion")
    decoded = unquote_to_bytes(raw.replace(b"+", b" "))
    bucket, _, key = _text(decoded, "InvalidArgument").removeprefix("/").partition("/")
    address = address_in(bucket, key)
    if not address.bucket or not address.path:
        raise S3Error(
            "InvalidArgument", "Copy Source must mention the source bucket and key: bucket/ref/path"
        )
    return address


def _text(raw: bytes, s3_code: str) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise S3Error(s3_code, "A name must be UTF-8.") from error
    if "\0" in text:
        raise S3Error(s3_code, "A name must have no NUL character.")
    return text


def arguments_of(address: Address) -> dict[str, str]:
    """The names by which permissions of operations refer to an address."""
    return {"repository": address.bucket, "ref": address.ref, "path": address.path}
