"""Headers of S3 to the description of an object, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.core.records import Entry
from graveler.gateway.errors import S3Error
from graveler.gateway.metadata import description_of, headers_of


def _headers(**metadata: str) -> dict[bytes, bytes]:
    return dict(headers_of(Entry("a", 0, "", 0, metadata)))


def test_a_description_comes_back_as_it_was_sent() -> None:
    sent = {
        b"content-type": b"text/csv",
        b"x-amz-meta-color": b"Blue sky",
        b"cache-control": b"no-cache",
        b"content-disposition": b'attachment; filename="a"',
        b"content-language": b"de",
        b"content-encoding": b"gzip",
        b"expires": b"Thu, 01 Jan 1970 00:00:00 GMT",
        b"x-amz-other": b"x",
    }
    description = description_of(sent)
    assert description.content_type == "text/csv"
    assert description.metadata["X-Amz-Meta-color"] == "Blue sky"
    entry = Entry("a", 0, "", 0, description.metadata)
    del sent[b"x-amz-other"], sent[b"content-type"]
    assert dict(headers_of(entry)) == sent


@pytest.mark.parametrize(
    ("sent", "kept"),
    [(b"aws-chunked", ""), (b"aws-chunked,gzip", "gzip"), (b"gzip, AWS-chunked , br", "gzip, br")],
)
def test_the_framing_of_a_request_is_no_encoding_of_the_content(sent: bytes, kept: str) -> None:
    assert description_of({b"content-encoding": sent}).metadata.get("Content-Encoding", "") == kept


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_value_survives_as_an_encoded_word(value: str) -> None:
    raw = _headers(**{"X-Amz-Meta-a": value})[b"x-amz-meta-a"]
    assert raw.isascii()
    assert raw.decode().isprintable()
    assert description_of({b"x-amz-meta-a": raw}).metadata == {"X-Amz-Meta-a": value}


def test_encoded_words_and_plain_bytes_are_read() -> None:
    def kept(value: bytes) -> str:
        return description_of({b"x-amz-meta-a": value}).metadata["X-Amz-Meta-a"]

    assert kept(b"=?UTF-8?Q?=C3=BCx?=") == "\u00fcx"
    assert kept("\u00fc".encode()) == "\u00fc"
    assert kept(b"\xfc") == "\u00fc"
    assert kept(b"=?no-such-charset?Q?a?=") == "=?no-such-charset?Q?a?="
    assert kept(b"=?UTF-8?B?%%%?=") is not None


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("a =?utf-8?q?b?= c", "a b c"),
        (
            "=?utf-8?q?a?=  =?UTF-8?b?Yg==?= =?iso-8859-1?q?=FC?=",
            "ab\u00fc",
        ),  # blanks between words
        ("=?utf-8?q?=C3?= =?utf-8?q?=BC?=", "\u00fc"),  # one character in two words
        ("=?us-ascii?q?a?=b=?us-ascii?q?c?=", "abc"),
        ("=?utf-8?q?=FF?=", "=?utf-8?q?=FF?="),
        ("a =?x?q?y", "a =?x?q?y"),
    ],
)
def test_encoded_words_stand_for_their_texts(sent: str, kept: str) -> None:
    assert description_of({b"x-amz-meta-a": sent.encode()}).metadata["X-Amz-Meta-a"] == kept


@pytest.mark.parametrize(
    "word",
    [
        "=?utf-7?q?+2AA-?=",  # a codec that makes half a character
        "=?unicode_escape?q?=5Cud800?=",
        "=?undefined?q?a?=",
        "=?punycode?q?a-9999999?=",
        "=?idna?q?xn--99999?=",
        "=?a\0b?q?a?=",  # a parameter of a presigned URL may hold any character
        "=??q?a?=",
        "=?utf-8\n?q?a?=",
    ],
)
def test_a_word_of_any_other_charset_is_kept_as_it_is(word: str) -> None:
    assert description_of({b"x-amz-meta-a": word.encode()}).metadata["X-Amz-Meta-a"] == word


def test_only_so_much_is_decoded_as_can_be_metadata() -> None:
    words = b"=?utf-8?q?a?= " * 585  # a text of 585 characters
    description_of({b"x-amz-meta-a": words})
    with pytest.raises(S3Error) as caught:
        description_of({b"x-amz-meta-a": words + b"  "})
    assert caught.value.s3_code == "MetadataTooLarge"


def test_pairs_of_other_clients_are_shown_or_counted() -> None:
    headers = _headers(**{"Color": "x", "a b": "y", "\u00fc": "z", "X-Amz-Meta-color": "own"})
    assert headers == {b"x-amz-meta-color": b"own", b"x-amz-missing-meta": b"2"}


def test_the_length_of_metadata_is_bounded() -> None:
    description_of({b"x-amz-meta-a": b"x" * 2047})
    with pytest.raises(S3Error) as caught:
        description_of({b"x-amz-meta-a": b"x" * 2048})
    assert caught.value.s3_code == "MetadataTooLarge"
