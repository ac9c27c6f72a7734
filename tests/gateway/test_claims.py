"""What a signed request claims: each rule that needs no secret is tested by breaking it."""

import pytest

from graveler.gateway.claims import Form
from graveler.gateway.errors import S3Error
from tests.gateway.vectors import (
    EMPTY,
    GET,
    HOST,
    KEY_ID,
    LIST,
    MOMENT,
    NOW_NS,
    PRESIGNED,
    PUT,
    SECOND,
    RawRequest,
    authorization,
    base_headers,
    changed,
    code,
    header_request,
    is_accepted,
    opened,
    parse,
    presigned_query,
    signed,
    url,
    with_header,
)

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
    assert opened(RawRequest("GET", b"/", b"", HOST, NOW_NS)).how == ""


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


def test_a_signature_of_any_length_is_what_was_sent() -> None:
    right = parse(GET).signature
    assert is_accepted(GET) and len(right) == 64
    for wrong in (right[:-1], right + b"0", right.upper(), b"0" * 64, b"-" * 64, b"0"):
        sent = changed(GET, b"authorization", right, wrong)
        assert parse(sent).signature == wrong
        assert not is_accepted(sent)
    assert authorization(right, right[:-1] + b",") == "AuthorizationHeaderMalformed"
    assert authorization(right, b"") == ""


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


# ---- 5: parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [b"acl&acl", b"prefix=a&prefix=a", b"prefix=a&%70refix=b"])
def test_a_parameter_that_occurs_twice_is_refused(query: bytes) -> None:
    assert code(LIST._replace(query=query)) == "InvalidArgument"
    assert code(PRESIGNED._replace(query=PRESIGNED.query + b"&" + query)) == "InvalidArgument"
    for name in (b"X-Amz-Date", b"X-Amz-Signature", b"X-Amz-Expires", b"x-amz-date"):
        twice = PRESIGNED.query + b"&" + name + b"=1"
        assert code(PRESIGNED._replace(query=twice)) == "InvalidArgument"


# ---- 6: the payload and tokens -------------------------------------------------------------------


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
