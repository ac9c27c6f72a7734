"""Headers of S3 to the description of an object, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.errors import S3Error
from graveler.gateway.metadata import description_of, headers_of
from graveler.records import Entry


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


def test_pairs_of_other_clients_are_shown_or_counted() -> None:
    headers = _headers(**{"Color": "x", "a b": "y", "\u00fc": "z", "X-Amz-Meta-color": "own"})
    assert headers == {b"x-amz-meta-color": b"own", b"x-amz-missing-meta": b"2"}


def test_the_length_of_metadata_is_bounded() -> None:
    description_of({b"x-amz-meta-a": b"x" * 2047})
    with pytest.raises(S3Error) as caught:
        description_of({b"x-amz-meta-a": b"x" * 2048})
    assert caught.value.s3_code == "MetadataTooLarge"
