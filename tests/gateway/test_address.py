"""Host and path to repository, ref and path."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.core import limits
from graveler.gateway.errors import S3Error
from graveler.gateway.request import Address, Level, address_of, domains_of, is_of_domain, source_of

DOMAINS = domains_of(("s3.Lake.test.", "x.s3.lake.test", "[::1]:8000"))


@pytest.mark.parametrize(
    ("host", "path", "bucket", "ref", "name"),
    [
        ("any", b"/", "", "", ""),
        ("any", b"/lake", "lake", "", ""),
        ("any", b"/lake/", "lake", "", ""),
        ("any", b"/lake/main", "lake", "main", ""),
        ("any", b"/lake/main/", "lake", "main", ""),
        ("any", b"/lake/main/a/b", "lake", "main", "a/b"),
        ("any", b"/lake/main/a/", "lake", "main", "a/"),
        ("any", b"/lake/main//x", "lake", "main", "/x"),
        ("any", b"/lake//x", "lake", "", "x"),
        ("any", b"/lake/main/../../other/x", "lake", "main", "../../other/x"),
        ("any", b"/lake/main/./a", "lake", "main", "./a"),
        ("any", b"/../main/a", "..", "main", "a"),
        ("any", b"/lake/main/a%2Fb%252F", "lake", "main", "a/b%2F"),
        ("any", b"/lake/main%2Fa", "lake", "main", "a"),
        ("any", b"/lake/main/a+b%20c", "lake", "main", "a+b c"),
        ("any", b"/lake/main%40/%C3%BC", "lake", "main@", "\u00fc"),
        ("any", b"/api/v1/repositories", "api", "v1", "repositories"),
        ("s3.lake.test", b"/lake/main/a", "lake", "main", "a"),
        ("S3.LAKE.TEST.:8000", b"/lake/main/a", "lake", "main", "a"),
        ("lake.s3.lake.test", b"/main/a", "lake", "main", "a"),
        ("lake.s3.lake.test:8000", b"/", "lake", "", ""),
        ("x.s3.lake.test", b"/lake/main", "lake", "main", ""),
        ("lake.x.s3.lake.test", b"/main/a", "lake", "main", "a"),
        ("lakes3.lake.test", b"/lake/main/a", "lake", "main", "a"),
        ("a.b.s3.lake.test", b"/lake/main/a", "lake", "main", "a"),
        ("[::1]:9", b"/lake/main/a", "lake", "main", "a"),
        ("s3.lake.test,other", b"/lake/main/a", "lake", "main", "a"),
    ],
)
def test_a_request_names_a_repository_a_ref_and_a_path(
    host: str, path: bytes, bucket: str, ref: str, name: str
) -> None:
    address = address_of(host, path, DOMAINS)
    assert (address.bucket, address.ref, address.path) == (bucket, ref, name)
    levels = {"": Level.SERVICE} if not bucket else {"": Level.BUCKET}
    assert address.level is levels.get(address.key, Level.KEY)


def test_a_slash_behind_the_ref_is_known() -> None:
    assert not address_of("any", b"/lake/main", ()).has_slash
    assert address_of("any", b"/lake/main/", ()).has_slash


def test_a_host_is_of_a_domain_with_one_label_at_most_and_a_dot() -> None:
    of_domain = ["s3.lake.test", "S3.lake.test:80", "b.s3.lake.test", "b.x.s3.lake.test", "[::1]"]
    others = ["lake.test", "bs3.lake.test", "a.b.s3.lake.test", ".s3.lake.test", "", "s3.lake.tes"]
    assert [host for host in of_domain if not is_of_domain(host, DOMAINS)] == []
    assert [host for host in others if is_of_domain(host, DOMAINS)] == []


@pytest.mark.parametrize("path", [b"/lake/main/%00", b"/lake/main/%FF", b"/%FF", b"*", b""])
def test_a_name_that_no_path_can_have_is_refused(path: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        address_of("any", path, ())
    assert caught.value.s3_code == "InvalidURI"


def test_the_length_of_a_path_is_bounded_in_bytes() -> None:
    longest = quote("\u00fc" * (limits.path_length_bytes_max // 2)).encode()
    assert address_of("any", b"/lake/main/" + longest, ()).path
    for path in (b"/lake/main/a" + longest, b"/lake/" + b"a" * (limits.ref_length_max + 1)):
        with pytest.raises(S3Error) as caught:
            address_of("any", path, ())
        assert caught.value.s3_code == "KeyTooLongError"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=80))
def test_every_path_is_read_as_it_was_encoded(name: str) -> None:
    for safe in ("", "/", "/~+&=;,"):
        raw = b"/lake/main/" + quote(name, safe=safe).encode()
        assert address_of("any", raw, DOMAINS).path == name


@pytest.mark.parametrize(
    "header",
    [
        b"/lake/main/a%20b%2Bc",
        b"lake/main/a b%2Bc",
        b"lake/main/a+b%2Bc",
        b"lake%2Fmain%2Fa%20b%2Bc",
        b"/lake/main/a b%2Bc?versionId=null",
        b"/lake/main/a b%2Bc?versionId=",
    ],
)
def test_a_source_is_named_with_a_slash_or_without_and_decoded_once(header: bytes) -> None:
    assert source_of(header) == Address("lake", "main/a b+c", "main", "a b+c", True)


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"", "InvalidArgument"),
        (b"/lake", "InvalidArgument"),
        (b"/lake/main/", "InvalidArgument"),
        (b"lake/main/%FF", "InvalidArgument"),
        (b"lake/main/%00", "InvalidArgument"),
        (b"lake/main/a  b", "InvalidArgument"),  # signed as `a b`
        (b"lake/main/a\tb", "InvalidArgument"),
        (b"lake/main/a?versionId=1", "NoSuchVersion"),
        (b"lake/main/" + b"a" * 1025, "KeyTooLongError"),
    ],
)
def test_a_source_that_names_no_object_is_refused(header: bytes, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        source_of(header)
    assert caught.value.s3_code == code
