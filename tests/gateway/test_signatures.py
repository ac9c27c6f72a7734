"""Signature Version 4: AWS's examples are accepted, and each rule is tested by breaking it."""

import pytest

from graveler.gateway import signatures
from graveler.gateway.errors import S3Error
from graveler.gateway.signatures import ChunkSeal, Form, RawRequest, SigningKeys
from tests.gateway.vectors import (
    EMPTY,
    KEY,
    KEY_ID,
    MOMENT,
    NOW_NS,
    SCOPE,
    SECOND,
    SECRET,
    SEED,
    TRAILER_SEED,
    base_headers,
    header_request,
    is_accepted,
    parse,
    presigned_query,
    signed,
    with_header,
)

GET = header_request(
    "GET",
    b"/test.txt",
    b"",
    base_headers(range="bytes=0-9"),
    b"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
)
PUT = header_request(
    "PUT",
    b"/test%24file.text",
    b"",
    base_headers(
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
        date="Fri, 24 May 2013 00:00:00 GMT",
        x_amz_storage_class="REDUCED_REDUNDANCY",
    ),
    b"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
)
LIFECYCLE = header_request(
    "GET",
    b"/",
    b"lifecycle",
    base_headers(),
    b"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
)
LIST = header_request(
    "GET",
    b"/",
    b"max-keys=2&prefix=J",
    base_headers(),
    b"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
)
HOST = ((b"host", b"examplebucket.s3.amazonaws.com"),)
PRESIGNED = RawRequest(
    "GET",
    b"/test.txt",
    presigned_query(b"aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"),
    HOST,
    NOW_NS,
)


def url(**changed: str) -> RawRequest:
    """A presigned URL with the right signature."""
    return signed(PRESIGNED._replace(query=presigned_query(b"?", **changed)))


def code(request: RawRequest) -> str:
    """The error of a request; empty if none of the rules that need no secret is broken."""
    try:
        parse(request)
    except S3Error as error:
        return error.s3_code
    return ""


def changed(request: RawRequest, name: bytes, before: bytes, after: bytes) -> RawRequest:
    """The request with one header rewritten."""
    headers = [
        (key, value.replace(before, after) if key == name else value)
        for key, value in request.headers
    ]
    assert headers != list(request.headers)
    return request._replace(headers=headers)


def authorization(before: bytes, after: bytes, request: RawRequest = GET) -> str:
    """The error of a request whose `Authorization` is rewritten."""
    return code(changed(request, b"authorization", before, after))


# ---- AWS's examples ------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [GET, PUT, LIFECYCLE, LIST, PRESIGNED])
def test_an_example_of_aws_is_accepted_and_no_other_signature(request_: RawRequest) -> None:
    assert is_accepted(request_)
    claim = parse(request_)
    assert claim.key_id == KEY_ID and claim.scope == SCOPE.encode()
    assert not is_accepted(request_._replace(method="HEAD"))
    assert not is_accepted(request_._replace(path=b"/test.tx"))


@pytest.mark.parametrize(
    ("form", "length", "further", "seed"),
    [
        (Form.CHUNKS, "66824", {}, SEED),
        (Form.CHUNKS_TRAILER, "", {"x-amz-trailer": "x-amz-checksum-crc32c"}, TRAILER_SEED),
    ],
)
def test_a_request_with_signed_chunks_gives_the_first_signature_of_their_chain(
    form: Form, length: str, further: dict[str, str], seed: bytes
) -> None:
    headers = base_headers(form.value, x_amz_storage_class="REDUCED_REDUNDANCY") | further
    headers |= {"host": "s3.amazonaws.com", "content-encoding": "aws-chunked"}
    headers |= {"x-amz-decoded-content-length": "66560"}
    if length:
        headers["content-length"] = length
    request = header_request("PUT", b"/examplebucket/chunkObject.txt", b"", headers, seed)
    assert is_accepted(request)
    claim = parse(request)
    assert (claim.payload.form, claim.signature) == (form, seed)


# ---- 1: one mechanism, one algorithm -------------------------------------------------------------


def test_a_request_is_signed_in_the_header_or_in_the_query_but_not_in_both() -> None:
    assert code(GET._replace(query=PRESIGNED.query)) == "InvalidRequest"
    assert code(GET._replace(query=b"X-Amz-Credential=x")) == "InvalidRequest"
    assert code(GET._replace(query=b"AWSAccessKeyId=x")) == "InvalidRequest"
    assert code(url()._replace(query=url().query + b"&Signature=x")) == "InvalidRequest"
    assert code(with_header(GET, b"authorization", b"AWS4-HMAC-SHA256 x")) == "InvalidRequest"


@pytest.mark.parametrize(
    "scheme", [b"AWS", b"AWS4-ECDSA-P256-SHA256", b"Basic", b"aws4-hmac-sha256"]
)
def test_no_other_algorithm_is_accepted_and_the_answer_names_the_right_one(scheme: bytes) -> None:
    request = changed(GET, b"authorization", b"AWS4-HMAC-SHA256", scheme)
    with pytest.raises(S3Error, match="Please use AWS4-HMAC-SHA256") as caught:
        parse(request)
    assert caught.value.s3_code == "InvalidRequest"
    query = PRESIGNED.query.replace(b"AWS4-HMAC-SHA256", scheme)
    assert code(PRESIGNED._replace(query=query)) == "InvalidRequest"


def test_a_request_without_a_signature_is_anonymous() -> None:
    assert signatures.open_request(RawRequest("GET", b"/", b"", HOST, NOW_NS)).how == ""


# ---- 2: the scope --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"/s3/", b"/sts/"),
        (b"/aws4_request", b"/aws4_response"),
        (b"/us-east-1/", b"/"),
        (b"/us-east-1/", b"//"),
        (b"/us-east-1/", b"/us east/"),
        (b"20130524/", b"20130523/"),
        (KEY_ID.encode() + b"/", b"/"),
        (KEY_ID.encode(), b"K" * 129),
        (b"Credential=", b"Credentials="),
        (b"Signature=", b"Signature=x,Signature="),
        (b",Signature=", b",Token=x,Signature="),
    ],
)
def test_a_malformed_scope_or_header_is_refused(before: bytes, after: bytes) -> None:
    assert authorization(before, after) == "AuthorizationHeaderMalformed"


@pytest.mark.parametrize(
    "changed_",
    [
        {"X_Amz_Credential": f"{KEY_ID}/20130524/us-east-1/sts/aws4_request"},
        {"X_Amz_Credential": f"{KEY_ID}/20130523/us-east-1/s3/aws4_request"},
        {"X_Amz_Credential": KEY_ID},
        {"X_Amz_Credential": ""},
        {"X_Amz_Date": "20130524T000000"},
        {"X_Amz_Date": "20130541T000000Z"},
        {"X_Amz_Date": ""},
    ],
)
def test_a_malformed_presigned_url_is_refused(changed_: dict[str, str]) -> None:
    request = PRESIGNED._replace(query=presigned_query(b"00", **changed_))
    assert code(request) == "AuthorizationQueryParametersError"


def test_any_region_is_accepted_and_a_key_id_may_have_slashes() -> None:
    claim = parse(changed(GET, b"authorization", b"us-east-1", b"mars-north-1"))
    assert claim.region == b"mars-north-1"
    claim = parse(changed(GET, b"authorization", KEY_ID.encode(), b"a/b/c"))
    assert claim.key_id == "a/b/c"
    request = header_request("GET", b"/", b"", base_headers(), b"?")
    assert is_accepted(signed(changed(request, b"authorization", b"us-east-1", b"moon")))


def test_a_header_beyond_its_length_is_refused() -> None:
    assert authorization(b"Signature=", b"Signature=" + b"0" * 20_000) == (
        "AuthorizationHeaderMalformed"
    )


# ---- 3: the date ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_signed_request_is_at_most_15_minutes_away(sign: int) -> None:
    assert is_accepted(GET._replace(now_ns=NOW_NS + sign * 900 * SECOND))
    late = GET._replace(now_ns=NOW_NS + sign * (900 * SECOND + 1))
    assert code(late) == "RequestTimeTooSkewed"


@pytest.mark.parametrize(
    "date", [b"", b"yesterday", b"20130524", b"20130532T000000Z", b"20130524T000000", b"\xff" * 9]
)
def test_a_date_that_is_none_is_refused(date: bytes) -> None:
    assert code(changed(GET, b"x-amz-date", MOMENT, date)) == "AccessDenied"
    assert code(with_header(GET, b"x-amz-date", MOMENT)) == "AccessDenied"  # two of them


@pytest.mark.parametrize(
    "date", ["Fri, 24 May 2013 00:00:00 GMT", "Fri, 24 May 2013 00:00:00 -0000"]
)
def test_the_header_date_counts_if_there_is_no_other(date: str) -> None:
    headers = base_headers(date=date)
    del headers["x-amz-date"]
    request = signed(header_request("GET", b"/", b"", headers, b"?"))
    assert is_accepted(request) and parse(request).moment == MOMENT
    other = date.replace("00:00:00", "00:00:01")
    assert not is_accepted(changed(request, b"date", date.encode(), other.encode()))
    assert code(request._replace(now_ns=NOW_NS + 901 * SECOND)) == "RequestTimeTooSkewed"
    del headers["date"]
    assert code(header_request("GET", b"/", b"", headers, b"0")) == "AccessDenied"


def test_a_presigned_url_is_valid_from_15_minutes_before_its_date_until_it_expires() -> None:
    for seconds, expected in (
        (-901, "AccessDenied"),
        (-900, ""),
        (86_399, ""),
        (86_400, "AccessDenied"),
    ):
        assert code(PRESIGNED._replace(now_ns=NOW_NS + seconds * SECOND)) == expected


@pytest.mark.parametrize("expires", ["", "0", "-1", "604801", "1e3", "9" * 30])
def test_a_presigned_url_lives_1_second_to_7_days(expires: str) -> None:
    request = PRESIGNED._replace(query=presigned_query(b"0", X_Amz_Expires=expires))
    assert code(request) == "AuthorizationQueryParametersError"
    assert is_accepted(url(X_Amz_Expires="604800")) and is_accepted(url(X_Amz_Expires="1"))


# ---- 4: signed headers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [b"x-amz-copy-source", b"x-amz-meta-a", b"x-amz-security-tokens", b"x-amz-"]
)
def test_nobody_adds_an_instruction_to_a_signed_request(name: bytes) -> None:
    for request in (GET, PUT, PRESIGNED):
        assert code(with_header(request, name, b"/lake/main/secret")) == "AccessDenied"


def test_headers_of_tracing_and_of_clients_need_no_signature() -> None:
    for request in (GET, PRESIGNED):
        for name in (b"x-amzn-trace-id", b"user-agent", b"content-type"):
            assert is_accepted(with_header(request, name, b"x"))
    assert is_accepted(with_header(PRESIGNED, b"x-amz-content-sha256", EMPTY.encode()))


def test_the_host_is_signed() -> None:
    assert authorization(b"host;range", b"range") == "AccessDenied"
    request = PRESIGNED._replace(query=presigned_query(b"0", X_Amz_SignedHeaders="range"))
    assert code(request) == "AccessDenied"
    for other in (b"examplebucket.s3.amazonaws.com:80", b"other.s3.amazonaws.com"):
        assert not is_accepted(changed(GET, b"host", HOST[0][1], other))


@pytest.mark.parametrize(
    "names", [b"range;host", b"host;host;range", b"Host;range", b"", b"host;;range"]
)
def test_the_names_of_signed_headers_are_in_order_each_once_in_lower_case(names: bytes) -> None:
    rest = b";x-amz-content-sha256;x-amz-date"
    expected = "AuthorizationHeaderMalformed"
    assert authorization(b"host;range" + rest, names + rest) == expected


def test_long_lists_of_signed_headers_and_unusual_blanks_are_read() -> None:
    many = {f"x-amz-meta-{number:060}": "v" for number in range(40)}
    request = signed(header_request("GET", b"/", b"", base_headers() | many, b"?"))
    assert is_accepted(request)
    unordered = changed(request, b"authorization", b"SignedHeaders=host;", b"SignedHeaders=i;host;")
    assert code(unordered) == "AuthorizationHeaderMalformed"
    for written in (b" ,\tSignedHeaders=", b", SignedHeaders="):
        assert is_accepted(changed(request, b"authorization", b",SignedHeaders=", written))


def test_a_signed_header_that_is_missing_is_refused() -> None:
    request = signed(header_request("GET", b"/", b"", base_headers(expect=""), b"?"))
    assert is_accepted(request)
    without = [pair for pair in request.headers if pair[0] != b"expect"]
    assert code(request._replace(headers=without)) == "SignatureDoesNotMatch"


def test_a_parameter_of_a_presigned_url_stands_for_a_header() -> None:
    request = url(**{"x_amz_copy_source": "/lake/main/a", "X_Amz_Meta_B": "c"})
    assert is_accepted(request)
    assert dict(parse(request).hoisted) == {
        b"x-amz-copy-source": b"/lake/main/a",
        b"x-amz-meta-b": b"c",
    }
    other = request._replace(query=request.query.replace(b"main%2Fa", b"main%2Fb"))
    assert not is_accepted(other)
    names = "host;x-amz-copy-source"
    both = PRESIGNED._replace(
        query=presigned_query(b"0", X_Amz_SignedHeaders=names, x_amz_copy_source="/lake/main/a")
    )
    assert code(with_header(both, b"x-amz-copy-source", b"/lake/main/b")) == "InvalidRequest"
    assert code(with_header(both, b"x-amz-copy-source", b"/lake/main/a")) == ""
    assert parse(GET).hoisted == ()


# ---- 5: the canonical form -----------------------------------------------------------------------


def test_the_path_is_decoded_once_and_keeps_its_dots_and_slashes() -> None:
    def signature(path: bytes) -> bytes:
        return parse(GET._replace(path=path)).text

    assert signature(b"/a b") == signature(b"/a%20b")
    assert signature(b"/%61/~x") == signature(b"/a/%7ex")
    plain = {signature(path) for path in (b"/a/b", b"/a//b", b"/a/./b", b"/a/../b", b"/a+b",
                                          b"/a%20b", b"/a%2520b", b"/a%00b", b"/A/b")}  # fmt: skip
    assert len(plain) == 9
    assert signature(b"/a+b") == signature(b"/a%2Bb")
    assert signature(b"") == signature(b"/")


def test_the_query_is_sorted_and_a_plus_is_a_space() -> None:
    def signature(query: bytes) -> bytes:
        return parse(LIST._replace(query=query)).text

    assert signature(b"prefix=J&max-keys=2") == signature(b"max-keys=2&prefix=J")
    assert signature(b"prefix=a+b") == signature(b"prefix=a%20b") != signature(b"prefix=a%2Bb")
    assert signature(b"acl") == signature(b"acl=") != signature(b"acl=x")
    assert signature(b"a-=1&a=2") == signature(b"a=2&a-=1")
    assert signature(b"prefix=%e4") == signature(b"prefix=%E4")


@pytest.mark.parametrize("query", [b"acl&acl", b"prefix=a&prefix=a", b"prefix=a&%70refix=b"])
def test_a_parameter_that_occurs_twice_is_refused(query: bytes) -> None:
    assert code(LIST._replace(query=query)) == "InvalidArgument"
    assert code(PRESIGNED._replace(query=PRESIGNED.query + b"&" + query)) == "InvalidArgument"
    for name in (b"X-Amz-Date", b"X-Amz-Signature", b"X-Amz-Expires", b"x-amz-date"):
        twice = PRESIGNED.query + b"&" + name + b"=1"
        assert code(PRESIGNED._replace(query=twice)) == "InvalidArgument"


def test_spaces_in_a_header_count_once_and_repeated_headers_are_joined() -> None:
    request = signed(header_request("GET", b"/", b"", base_headers(range="a b,c"), b"?"))
    assert is_accepted(changed(request, b"range", b"a b,c", b"  a   b,c "))
    others = [pair for pair in request.headers if pair[0] != b"range"]
    assert is_accepted(request._replace(headers=(*others, (b"range", b"a b"), (b"range", b"c"))))
    swapped = request._replace(headers=(*others, (b"range", b"c"), (b"range", b"a b")))
    assert not is_accepted(swapped)


# ---- 6: the payload, tokens, keys ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (b"", "InvalidArgument"),
        (EMPTY.upper().encode(), "InvalidArgument"),
        (EMPTY[:-1].encode(), "InvalidArgument"),
        (b"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "InvalidArgument"),
        (b"UNSIGNED-PAYLOAD", ""),
        (b"STREAMING-UNSIGNED-PAYLOAD-TRAILER", ""),
    ],
)
def test_the_form_of_the_payload_is_one_of_those_that_are_served(
    stated: bytes, expected: str
) -> None:
    assert code(changed(GET, b"x-amz-content-sha256", EMPTY.encode(), stated)) == expected


def test_a_signed_request_states_its_payload() -> None:
    headers = base_headers()
    del headers["x-amz-content-sha256"]
    assert code(header_request("GET", b"/", b"", headers, b"0")) == "InvalidRequest"


def test_the_payload_of_a_presigned_url_is_what_it_signs_or_not_signed() -> None:
    assert parse(PRESIGNED).payload.form is Form.UNSIGNED
    assert parse(url(X_Amz_Content_Sha256="UNSIGNED-PAYLOAD")).payload.form is Form.UNSIGNED
    assert parse(url(X_Amz_Content_Sha256=EMPTY)).payload.sha256 == EMPTY
    unsigned = with_header(PRESIGNED, b"x-amz-content-sha256", EMPTY.encode())
    assert parse(unsigned).payload.sha256 == EMPTY
    query = presigned_query(b"?", X_Amz_SignedHeaders="host;x-amz-content-sha256")
    base = PRESIGNED._replace(query=query)
    assert is_accepted(signed(with_header(base, b"x-amz-content-sha256", EMPTY.encode())))
    trailer = with_header(base, b"x-amz-content-sha256", Form.UNSIGNED_TRAILER.value.encode())
    assert parse(signed(trailer)).payload.form is Form.UNSIGNED_TRAILER
    for form in (Form.UNSIGNED_TRAILER, Form.CHUNKS, Form.CHUNKS_TRAILER):
        stated = form.value.encode()
        assert code(with_header(PRESIGNED, b"x-amz-content-sha256", stated)) == "AccessDenied"
        if form.has_signed_chunks:
            assert code(with_header(base, b"x-amz-content-sha256", stated)) == "AccessDenied"


def test_there_are_no_temporary_credentials() -> None:
    assert code(with_header(GET, b"x-amz-security-token", b"x")) == "InvalidToken"
    for name in (b"X-Amz-Security-Token", b"x-amz-security-token"):
        request = PRESIGNED._replace(query=PRESIGNED.query + b"&" + name + b"=x")
        assert code(request) == "InvalidToken"


def test_signing_keys_are_remembered_by_epoch_day_and_region_up_to_a_bound() -> None:
    keys, claim = SigningKeys(), parse(GET)
    assert keys.get(claim, SECRET, "e") == KEY
    assert keys.get(claim, "another", "e") == KEY  # the epoch names the secret
    assert keys.get(claim, "another", "f") != KEY
    for number in range(5_000):
        keys.get(claim, SECRET, f"e{number}")
    assert len(keys._keys) < 5_000


def test_no_secret_is_shown() -> None:
    seal = ChunkSeal(KEY, MOMENT, SCOPE.encode(), SEED)
    assert repr(KEY) not in repr(seal)
