"""The examples of AWS's documentation of Signature Version 4, and requests that are signed here."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote, urlencode

from graveler.gateway import claims, signatures
from graveler.gateway.claims import Claim, OpenRequest
from graveler.gateway.errors import S3Error
from graveler.gateway.request import Pairs, request_of

KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
DAY, REGION = b"20130524", b"us-east-1"
MOMENT = b"20130524T000000Z"
NOW_NS = int(datetime(2013, 5, 24, tzinfo=UTC).timestamp()) * 10**9
SECOND = 10**9
EMPTY = hashlib.sha256().hexdigest()
SCOPE = "20130524/us-east-1/s3/aws4_request"
KEY = signatures.signing_key(SECRET, DAY, REGION)

CHUNKED_LENGTH = 66_560
CHUNK_SIGNATURES = (
    b"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    b"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    b"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
)
TRAILER_CHUNK_SIGNATURES = (
    b"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    b"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    b"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
)
TRAILER_SIGNATURE = b"d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"
SEED = b"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
TRAILER_SEED = b"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"


class RawRequest(NamedTuple):
    """A request as it is sent, with the names of its headers in lower case, and when it arrives."""

    method: str
    path: bytes
    query: bytes
    headers: Pairs
    now_ns: int


def header_request(
    method: str,
    path: bytes,
    query: bytes,
    headers: Mapping[str, str],
    signature: bytes,
    now_ns: int = NOW_NS,
) -> RawRequest:
    """A request with an `Authorization` that signs all of `headers`."""
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    names = ";".join(sorted(headers)).encode()
    authorization = b"AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s" % (
        KEY_ID.encode(),
        SCOPE.encode(),
        names,
        signature,
    )
    return RawRequest(method, path, query, (*lines, (b"authorization", authorization)), now_ns)


def base_headers(sha256: str = EMPTY, **further: str) -> dict[str, str]:
    """The headers of AWS's examples; `_` in a name stands for `-`."""
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "x-amz-content-sha256": sha256,
        "x-amz-date": MOMENT.decode(),
    }
    return headers | {name.replace("_", "-"): value for name, value in further.items()}


def presigned_query(signature: bytes, **changed: str) -> bytes:
    """The query of AWS's example; `_` in a name stands for `-`."""
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{KEY_ID}/{SCOPE}",
        "X-Amz-Date": MOMENT.decode(),
        "X-Amz-Expires": "86400",
        "X-Amz-SignedHeaders": "host",
    }
    query |= {name.replace("_", "-"): value for name, value in changed.items()}
    text = urlencode({name: value for name, value in query.items() if value}, quote_via=quote)
    return text.encode() + b"&X-Amz-Signature=" + signature


def opened(request: RawRequest) -> OpenRequest:
    scope = {
        "method": request.method,
        "raw_path": request.path,
        "query_string": request.query,
        "headers": request.headers,
    }
    return claims.open_request(request_of(scope), request.now_ns)


def parse(request: RawRequest) -> Claim:
    return claims.claim(opened(request))


def is_accepted(request: RawRequest) -> bool:
    """Whether a request is right, if nothing of it is refused before."""
    claim = parse(request)
    key = signatures.signing_key(SECRET, claim.day, claim.region)
    return claim.key_id == KEY_ID and signatures.is_signed(claim, key)


def signed(request: RawRequest) -> RawRequest:
    """The request with the right signature in the place of `?`, whatever it claims."""
    claim = parse(request)
    key = signatures.signing_key(SECRET, claim.day, claim.region)
    right = hmac.digest(key, signatures.text_to_sign(claim), "sha256").hex().encode()
    headers = [(name, value.replace(b"Signature=?", b"Signature=" + right))
               for name, value in request.headers]  # fmt: skip
    query = request.query.replace(b"Signature=?", b"Signature=" + right)
    return request._replace(headers=headers, query=query)


def with_header(request: RawRequest, name: bytes, value: bytes) -> RawRequest:
    """The request with one more header."""
    return request._replace(headers=(*request.headers, (name, value)))


def chunked(
    sizes: Sequence[int], signatures_: Sequence[bytes], end: bytes, fill: bytes = b"a"
) -> bytes:
    """A body of chunks of `fill`; the last size is 0."""
    body = b""
    for size, signature in zip(sizes, signatures_, strict=True):
        line = b"%x" % size + (b";chunk-signature=" + signature if signature else b"") + b"\r\n"
        body += line + (fill * size + b"\r\n" if size else b"")
    return body + end


# ---- AWS's examples ------------------------------------------------------------------------------

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
