"""Bodies on their way to a real server: what is not as it was stated is never an object."""

import hashlib
import hmac
import random
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from graveler.core.records import ABSENT
from graveler.gateway.claims import Form, scope
from graveler.gateway.payload import ChunkSeal
from graveler.gateway.signatures import signing_key
from tests.api.serving import Reply
from tests.draws import seeds
from tests.gateway.serving import Gateway, S3Client, code_of, exchange
from tests.gateway.test_chunks import crc_line, framed, parts_of, signatures, spoiled
from tests.gateway.vectors import chunked

CONTENT = b"a" * 300_000
SIZES = (100_000, 200_000, 0)
CRC = b64encode(zlib.crc32(CONTENT).to_bytes(4, "big")).decode()


def is_there(served: Gateway, repo: str) -> bool:
    reply = served.s3.send("GET", f"/{repo}/main/a")
    assert reply.status in (200, 404)
    assert reply.status == 404 or reply.body == CONTENT
    return reply.status == 200


def _presigned(served: Gateway, target: str) -> str:
    """The target of a PUT that is presigned with further parameters in its query."""
    s3 = served.s3
    request = AWSRequest("PUT", f"http://{s3.host}:{s3.port}{target}")
    credentials = Credentials(s3.key.access_key_id, s3.key.secret_access_key)
    S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=600).add_auth(request)
    url: str = request.url
    return url


@pytest.mark.parametrize("name", ["crc32", "crc32c", "sha256", "crc64nvme"])
def test_a_checksum_in_a_presigned_url_is_not_that_of_the_body(
    served_gateway: Gateway, repo: str, name: str
) -> None:
    """The AWS SDK for JavaScript puts that of an empty body there.  Headers count."""
    s3 = served_gateway.s3
    url = _presigned(
        served_gateway,
        f"/{repo}/main/a?x-amz-checksum-{name}=AAAAAA%3D%3D"
        f"&x-amz-sdk-checksum-algorithm={name.upper()}&x-amz-meta-color=blue&x-id=PutObject",
    )

    def put(**headers: str) -> Reply:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return exchange(s3.host, s3.port, "PUT", url, named, CONTENT)

    wrong = b64encode(bytes(4)).decode()
    assert code_of(put(x_amz_checksum_crc32=wrong)) == "BadDigest"
    assert code_of(put(Content_MD5=b64encode(bytes(16)).decode())) == "BadDigest"
    assert not is_there(served_gateway, repo)
    assert put().status == 200
    stored = put(x_amz_checksum_crc32=CRC, x_amz_sdk_checksum_algorithm="CRC32")
    assert (stored.status, stored.headers["x-amz-checksum-crc32"]) == (200, CRC)
    assert is_there(served_gateway, repo)
    assert s3.send("HEAD", f"/{repo}/main/a").headers["x-amz-meta-color"] == "blue"
    unsigned = put(x_amz_meta_color="red")  # what is no checksum must be signed
    assert (unsigned.status, code_of(unsigned)) == (403, "AccessDenied")


class Put:
    """A PUT in chunks, signed but for its body.  `length`: of the content."""

    def __init__(
        self, s3: S3Client, repo: str, form: Form, length: int = len(CONTENT), **further: str
    ) -> None:
        self.s3 = s3
        self.target = f"/{repo}/main/a"
        stated = {
            "Content-Encoding": "aws-chunked",
            "X-Amz-Decoded-Content-Length": str(length),
            **{name.replace("_", "-"): value for name, value in further.items()},
        }
        self.headers = s3.signed("PUT", self.target, headers=stated, payload=form.value)
        self.seal = seal_of(s3, self.headers)

    def send(self, body: bytes) -> Reply:
        url = f"http://{self.s3.host}:{self.s3.port}{self.target}"
        return exchange(self.s3.host, self.s3.port, "PUT", url, self.headers, body)


def seal_of(s3: S3Client, headers: Mapping[str, str]) -> ChunkSeal:
    moment = headers["X-Amz-Date"].encode()
    key = signing_key(s3.key.secret_access_key, moment[:8], b"us-east-1")
    signature = headers["Authorization"].rpartition("Signature=")[2].encode()
    return ChunkSeal(key, moment, scope(moment[:8], b"us-east-1"), signature)


def test_signed_chunks_become_an_object_and_changed_ones_do_not(
    served_gateway: Gateway, s3: S3Client, repo: str
) -> None:
    put = Put(s3, repo, Form.CHUNKS)
    parts = [CONTENT[:100_000], CONTENT[100_000:], b""]
    body = chunked(SIZES, signatures(parts, put.seal), b"\r\n")
    assert code_of(put.send(body.replace(b"aaa", b"aba", 1))) == "SignatureDoesNotMatch"
    at = body.rindex(b"aaa")
    assert code_of(put.send(body[:at] + b"b" + body[at + 1 :])) == "SignatureDoesNotMatch"
    assert code_of(put.send(body[: body.rindex(b"0;")])) == "IncompleteBody"
    assert not is_there(served_gateway, repo)
    assert put.send(body).status == 200
    assert is_there(served_gateway, repo)


def test_a_body_whose_first_chunk_is_wrong_is_answered(
    served_gateway: Gateway, s3: S3Client, repo: str
) -> None:
    """The rest of the body is dropped: it waits for no reader."""
    size = 8 << 20
    put = Put(s3, repo, Form.CHUNKS, size)
    body = chunked((size, 0), [b"0" * 64] * 2, b"\r\n")
    assert code_of(put.send(b"-" + body)) == "InvalidRequest"
    assert not is_there(served_gateway, repo)


def proof(trailer: bytes, before: bytes, seal: ChunkSeal) -> bytes:
    """The line that signs a trailer as a client makes it; `before`: the signature of the last
    chunk."""
    digest = hashlib.sha256(trailer + b"\n").hexdigest().encode()
    text = b"\n".join((b"AWS4-HMAC-SHA256-TRAILER", seal.moment, seal.scope, before, digest))
    return b"x-amz-trailer-signature:" + hmac.digest(seal.key, text, "sha256").hex().encode()


def test_signed_chunks_with_a_signed_checksum_behind_them_become_an_object(
    served_gateway: Gateway, s3: S3Client, repo: str
) -> None:
    put = Put(s3, repo, Form.CHUNKS_TRAILER, X_Amz_Trailer="x-amz-checksum-crc32")
    signed = signatures([CONTENT[:100_000], CONTENT[100_000:], b""], put.seal)
    plain = chunked(SIZES, signed, b"")
    right, wrong = b"x-amz-checksum-crc32:" + CRC.encode(), b"x-amz-checksum-crc32:AAAAAA=="
    right_proof, wrong_proof = (proof(line, signed[-1], put.seal) for line in (right, wrong))
    end = b"%s\r\n%s\r\n\r\n"
    for body, code in (
        (plain + end % (wrong, wrong_proof), "BadDigest"),
        (plain + end % (wrong, right_proof), "SignatureDoesNotMatch"),
        (plain + end % (right, wrong_proof), "SignatureDoesNotMatch"),
        (plain + end % (right, proof(right, signed[0], put.seal)), "SignatureDoesNotMatch"),
        (plain + right + b"\r\n\r\n", "IncompleteBody"),  # nothing signs the trailer
        (plain + right + b"\r\n\r\n\r\n", "MalformedTrailerError"),
        (plain + b"\r\n", "IncompleteBody"),  # neither a trailer nor a signature
        (plain + right_proof + b"\r\n\r\n", "SignatureDoesNotMatch"),
        (plain.replace(b"aaa", b"aba", 1) + end % (right, right_proof), "SignatureDoesNotMatch"),
    ):
        assert code_of(put.send(body)) == code
    assert not is_there(served_gateway, repo)
    reply = put.send(plain + end % (right, right_proof))
    assert reply.status == 200 and reply.headers["x-amz-checksum-crc32"] == CRC
    assert is_there(served_gateway, repo)


def whole_body(form: Form, parts: Sequence[bytes], seal: ChunkSeal) -> bytes:
    """A right body of a form that has its own proof."""
    line = crc_line(b"".join(parts))
    if form is Form.UNSIGNED_TRAILER:
        return framed(parts, ABSENT) + line + b"\r\n\r\n"
    body = framed(parts, seal)
    if form is Form.CHUNKS:
        return body + b"\r\n"
    before = signatures([*parts, b""], seal)[-1]
    return body + line + b"\r\n" + proof(line, before, seal) + b"\r\n\r\n"


FORMS = (Form.CHUNKS, Form.CHUNKS_TRAILER, Form.UNSIGNED_TRAILER)


@pytest.mark.parametrize("form", FORMS, ids=[form.name for form in FORMS])
def test_a_spoiled_body_is_refused_or_has_its_content(
    served_gateway: Gateway, s3: S3Client, repo: str, form: Form
) -> None:
    """A spoiled body may say the same, as with a `0` more before the size of a chunk."""
    further = {} if form is Form.CHUNKS else {"X_Amz_Trailer": "x-amz-checksum-crc32"}
    url, refused = f"/{repo}/main/a", 0
    for seed in seeds(10, 200):
        print(f"{seed=}")
        draw = random.Random(seed)
        sizes = (16, 100_000) if seed % 3 == 0 else (1, 5, 40)  # streamed, and whole in memory
        parts = parts_of(draw, sizes)
        content = b"".join(parts)
        put = Put(s3, repo, form, len(content), **further)
        body = whole_body(form, parts, put.seal)
        other = abs(len(content) + draw.choice((-1, 1, 7, 1 << 20)))  # 1 for -1
        false = Put(s3, repo, form, other, **further)
        replies = [false.send(whole_body(form, parts, false.seal))]
        for _ in range(10):
            reply = put.send(spoiled(draw, body))
            if reply.status == 200:
                assert s3.send("GET", url).body == content
                assert s3.send("DELETE", url).status == 204
            else:
                replies.append(reply)
        assert all(400 <= reply.status < 500 for reply in replies)
        assert s3.send("HEAD", url).status == 404
        assert put.send(body).status == 200, "the body that was not spoiled"
        assert s3.send("DELETE", url).status == 204
        refused += len(replies)
    assert refused > 50


def test_an_unsigned_body_with_a_checksum_behind_it_becomes_an_object(
    served_gateway: Gateway, s3: S3Client, repo: str
) -> None:
    put = Put(s3, repo, Form.UNSIGNED_TRAILER, X_Amz_Trailer="x-amz-checksum-crc32")
    plain = chunked(SIZES, [b""] * 3, b"")
    end = b"x-amz-checksum-crc32:%s\r\n\r\n"
    for body, code in (
        (plain + end % b"AAAAAA==", "BadDigest"),
        (plain.replace(b"aaa", b"aba", 1) + end % CRC.encode(), "BadDigest"),
        (plain + b"\r\n", "MalformedTrailerError"),
        (plain + end % b"?", "InvalidRequest"),
        (b"x" + plain + end % CRC.encode(), "InvalidRequest"),
        (b"ffffffff\r\n" + plain, "IncompleteBody"),
    ):
        reply = put.send(body)
        assert code_of(reply) == code
    assert not is_there(served_gateway, repo)
    reply = put.send(plain + end % CRC.encode())
    assert reply.status == 200 and reply.headers["x-amz-checksum-crc32"] == CRC
    assert is_there(served_gateway, repo)
    head = s3.send("HEAD", f"/{repo}/main/a")
    assert "content-encoding" not in head.headers


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ({"Content-MD5": b64encode(bytes(16)).decode()}, "BadDigest"),
        ({"x-amz-checksum-crc32": "AAAAAA=="}, "BadDigest"),
        ({"x-amz-checksum-crc64nvme": b64encode(bytes(8)).decode()}, "BadDigest"),
        ({"Content-MD5": "x"}, "InvalidDigest"),
    ],
)
def test_a_body_that_differs_from_its_checksum_is_no_object(
    served_gateway: Gateway, s3: S3Client, repo: str, stated: dict[str, str], code: str
) -> None:
    reply = s3.send("PUT", f"/{repo}/main/a", body=CONTENT, headers=stated)
    assert code_of(reply) == code and not is_there(served_gateway, repo)
    right = {"x-amz-checksum-crc32": CRC}
    reply = s3.send("PUT", f"/{repo}/main/a", body=CONTENT, headers=right)
    assert reply.status == 200 and reply.headers["x-amz-checksum-crc32"] == CRC
    assert is_there(served_gateway, repo)


def test_a_body_that_differs_from_its_hash_is_no_object(
    served_gateway: Gateway, s3: S3Client, repo: str
) -> None:
    target = f"/{repo}/main/a"
    headers = s3.signed("PUT", target, body=CONTENT[:-1] + b"b")
    url = f"http://{s3.host}:{s3.port}{target}"
    reply = exchange(s3.host, s3.port, "PUT", url, headers, CONTENT)
    assert code_of(reply) == "XAmzContentSHA256Mismatch" and not is_there(served_gateway, repo)
