"""Checksums of whole objects that are uploaded in parts: boto3's transfers, and single requests."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from boto3.exceptions import S3UploadFailedError

from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.gateway import checksums
from graveler.gateway.errors import S3Error
from graveler.refs.uploads import ChecksumRow, PartChecksum
from tests import draws
from tests.gateway.serving import Gateway, S3Client, code_of
from tests.gateway.test_uploads import (
    LONG,
    MIB,
    begun,
    completion,
    composite,
    joined_etag,
    of,
    other_ports,
    sent,
    uploads_of,
)
from tests.gateway.test_writes import content, is_there, refused

CRCS = ("CRC32", "CRC32C", "CRC64NVME")
WHOLE = LONG + b"tail"


def order(upload: dict[str, str], *parts: Any) -> dict[str, Any]:
    """The arguments that complete the upload with the answers to its parts."""
    named = [{"PartNumber": n, "ETag": part["ETag"]} for n, part in enumerate(parts, start=1)]
    return {**upload, "MultipartUpload": {"Parts": named}}


def parts_of(boto: Any, upload: dict[str, str], algorithm: str, *bodies: bytes) -> list[Any]:
    name = f"Checksum{algorithm}"
    return [
        boto.upload_part(**upload, PartNumber=number, Body=body, **{name: of(algorithm, body)})
        for number, body in enumerate(bodies, start=1)
    ]


@pytest.fixture(scope="module")
def transfers(served_gateway: Gateway) -> Any:
    """A client of boto3 that also has the algorithms for which it needs AWS's CRT, not installed
    here: a handler of its events computes the checksum of each part."""

    def compute(params: dict[str, Any], **_: Any) -> None:
        algorithm = params.pop("ChecksumAlgorithm")
        body = params["Body"]
        start = body.tell()
        params[f"Checksum{algorithm}"] = of(algorithm, body.read())
        body.seek(start)

    client = served_gateway.boto()
    client.meta.events.register("before-parameter-build.s3.UploadPart", compute)
    return client


@pytest.mark.parametrize(
    "extra",
    [
        *({f"Checksum{algorithm}": ""} for algorithm in CRCS),
        {"ChecksumType": "FULL_OBJECT"},
        {"ChecksumType": "FULL_OBJECT", "ChecksumAlgorithm": "CRC32C"},
        {"ChecksumAlgorithm": "CRC64NVME"},
    ],
)
def test_upload_file_states_a_checksum_of_the_whole_file(
    served_gateway: Gateway, transfers: Any, repo: str, tmp_path: Path, extra: dict[str, str]
) -> None:
    seed = draws.seed()
    body = random.Random(seed).randbytes(17 * MIB + 3)  # three parts
    (tmp_path / "long").write_bytes(body)
    stated = {name: text or of(name.removeprefix("Checksum"), body) for name, text in extra.items()}
    transfers.upload_file(str(tmp_path / "long"), repo, "main/a", ExtraArgs=stated)
    assert content(served_gateway, repo, "a") == body


@pytest.mark.parametrize("algorithm", CRCS)
def test_upload_file_with_a_wrong_checksum_of_the_whole_file_changes_nothing(
    served_gateway: Gateway, transfers: Any, repo: str, tmp_path: Path, algorithm: str
) -> None:
    (tmp_path / "long").write_bytes(b"x" * (9 * MIB))
    wrong = {f"Checksum{algorithm}": of(algorithm, b"other")}
    with pytest.raises(S3UploadFailedError, match=r"BadDigest.*CompleteMultipartUpload"):
        transfers.upload_file(str(tmp_path / "long"), repo, "main/a", ExtraArgs=wrong)
    assert not is_there(served_gateway, repo, "a")


@pytest.mark.parametrize("algorithm", CRCS)
def test_a_checksum_of_the_whole_object_is_verified_and_repeated(
    served_gateway: Gateway, boto: Any, repo: str, algorithm: str
) -> None:
    name = f"Checksum{algorithm}"
    upload = begun(boto, repo)  # nothing is announced
    parts = parts_of(boto, upload, algorithm, LONG, b"tail")
    call, complete = order(upload, *parts), boto.complete_multipart_upload
    full = {"ChecksumType": "FULL_OBJECT"}
    whole = of(algorithm, WHOLE)

    for wrong in (of(algorithm, b"tail" + LONG), composite(algorithm, *(p[name] for p in parts))):
        assert refused(complete, **call, **full, **{name: wrong}) == (400, "BadDigest")
    for text in ("x", f"{whole}-2", whole[1:]):
        assert refused(complete, **call, **full, **{name: text}) == (400, "InvalidRequest")
    other = "CRC32C" if algorithm != "CRC32C" else "CRC32"
    absent = {f"Checksum{other}": of(other, WHOLE)}
    assert refused(complete, **call, **full, **absent) == (400, "InvalidPart"), "none arrived"
    assert not is_there(served_gateway, repo, "a")
    assert len(uploads_of(boto, repo)) == 1, "the upload remains"

    for _ in range(2):  # the second time, it is a repetition
        done = complete(**call, **full, **{name: whole})
        assert (done[name], done["ChecksumType"]) == (whole, "FULL_OBJECT")
        assert done["ETag"] == joined_etag(LONG, b"tail")
    assert content(served_gateway, repo, "a") == WHOLE
    assert refused(complete, **call, **full, **{name: of(algorithm, b"")}) == (400, "BadDigest")


@pytest.mark.parametrize("algorithm", CRCS)
def test_an_announced_checksum_of_the_whole_object_needs_no_type_at_the_end(
    served_gateway: Gateway, boto: Any, repo: str, algorithm: str
) -> None:
    name, complete = f"Checksum{algorithm}", boto.complete_multipart_upload
    announced = {"ChecksumAlgorithm": algorithm, "ChecksumType": "FULL_OBJECT"}
    begin = boto.create_multipart_upload(Bucket=repo, Key="main/a", **announced)
    assert {key: begin[key] for key in announced} == announced
    upload = {"Bucket": repo, "Key": "main/a", "UploadId": begin["UploadId"]}
    parts = parts_of(boto, upload, algorithm, LONG, b"tail")
    (line,) = boto.list_multipart_uploads(Bucket=repo)["Uploads"]
    listed = boto.list_parts(**upload)
    assert announced.items() <= line.items() and announced.items() <= listed.items()
    call, whole = order(upload, *parts), of(algorithm, WHOLE)

    assert refused(complete, **call, ChecksumType="COMPOSITE") == (400, "InvalidRequest")
    other = {"ChecksumSHA1": of("SHA1", b"")}
    assert refused(complete, **call, **other) == (400, "InvalidRequest"), "announced was another"
    together = composite(algorithm, *(part[name] for part in parts))
    assert refused(complete, **call, **{name: together}) == (400, "BadDigest")
    assert refused(complete, **call, **{name: f"{whole}-2"}) == (400, "InvalidRequest")
    assert not is_there(served_gateway, repo, "a")
    for more in ({name: whole}, {}, {"ChecksumType": "FULL_OBJECT"}):
        done = complete(**call, **more)
        assert (done[name], done["ChecksumType"]) == (whole, "FULL_OBJECT")
    assert content(served_gateway, repo, "a") == WHOLE


def test_crc64nvme_is_of_the_whole_object_without_a_word(boto: Any, repo: str) -> None:
    begin = boto.create_multipart_upload(Bucket=repo, Key="main/a", ChecksumAlgorithm="CRC64NVME")
    assert (begin["ChecksumAlgorithm"], begin["ChecksumType"]) == ("CRC64NVME", "FULL_OBJECT")
    upload = begun(boto, repo)
    (part,) = parts_of(boto, upload, "CRC64NVME", b"one")
    whole = of("CRC64NVME", b"one")
    done = boto.complete_multipart_upload(**order(upload, part), ChecksumCRC64NVME=whole)
    assert (done["ChecksumCRC64NVME"], done["ChecksumType"]) == (whole, "FULL_OBJECT")


def test_parts_of_which_the_whole_does_not_follow(
    served_gateway: Gateway, s3: S3Client, boto: Any, repo: str
) -> None:
    """A part without a checksum, one with another algorithm, and a copied one."""
    boto.put_object(Bucket=repo, Key="main/source", Body=b"tail")
    source, whole = f"/{repo}/main/source", of("CRC32", WHOLE)
    complete = boto.complete_multipart_upload
    for kind in ("none", "other", "copied"):
        upload = begun(boto, repo, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
        (first,) = parts_of(boto, upload, "CRC32", LONG)
        last = {**upload, "PartNumber": 2}
        if kind == "copied":
            part = boto.upload_part_copy(**last, CopySource=source)["CopyPartResult"]
        elif kind == "other":
            part = boto.upload_part(**last, Body=b"tail", ChecksumAlgorithm="SHA256")
        else:
            query = {"partNumber": "2", "uploadId": upload["UploadId"]}
            reply = s3.send("PUT", f"/{repo}/main/a", query, body=b"tail")
            part = {"ETag": reply.headers["etag"]}
        call = order(upload, first, part)
        assert refused(complete, **call, ChecksumCRC32=whole) == (400, "InvalidPart"), kind
        assert not is_there(served_gateway, repo, "a")
        assert [line["UploadId"] for line in uploads_of(boto, repo)] == [upload["UploadId"]]
        done = complete(**call, ChecksumType="FULL_OBJECT")
        assert "ChecksumCRC32" not in done and "ChecksumType" not in done, kind
        assert content(served_gateway, repo, "a") == WHOLE
        boto.delete_object(Bucket=repo, Key="main/a")


def test_empty_parts_and_parts_that_are_sent_again_count_as_they_are(
    served_gateway: Gateway, boto: Any, repo: str
) -> None:
    upload = begun(boto, repo)
    parts_of(boto, upload, "CRC32", b"old bytes")
    parts = parts_of(boto, upload, "CRC32", LONG, b"")
    call = {**order(upload, *parts), "ChecksumType": "FULL_OBJECT"}
    done = boto.complete_multipart_upload(**call)
    assert done["ChecksumCRC32"] == of("CRC32", LONG)
    assert content(served_gateway, repo, "a") == LONG


@pytest.mark.parametrize(
    "announced",
    [
        *(
            {"x-amz-checksum-algorithm": algorithm, "x-amz-checksum-type": "FULL_OBJECT"}
            for algorithm in ("SHA1", "SHA256", "SHA512", "MD5", "XXHASH64")
        ),
        {"x-amz-checksum-algorithm": "CRC64NVME", "x-amz-checksum-type": "COMPOSITE"},
        {"x-amz-checksum-type": "FULL_OBJECT"},
        {"x-amz-checksum-type": "COMPOSITE"},
        {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "HALF"},
        {"x-amz-checksum-algorithm": "CRC16"},
    ],
)
def test_an_upload_with_a_checksum_that_s3_does_not_have_is_refused_before_its_parts(
    s3: S3Client, boto: Any, repo: str, announced: dict[str, str]
) -> None:
    reply = s3.send("POST", f"/{repo}/main/a", {"uploads": ""}, headers=announced)
    assert (reply.status, code_of(reply)) == (400, "InvalidRequest")
    assert uploads_of(boto, repo) == []


def test_a_checksum_belongs_to_the_completion(s3: S3Client, boto: Any, repo: str) -> None:
    stated = {"x-amz-checksum-crc32": "AAAAAA=="}
    reply = s3.send("POST", f"/{repo}/main/a", {"uploads": ""}, headers=stated)
    assert (reply.status, code_of(reply)) == (501, "NotImplemented")
    assert b"CompleteMultipartUpload" in reply.body
    assert uploads_of(boto, repo) == []


def test_the_answer_repeats_what_is_announced(s3: S3Client, repo: str) -> None:
    names = ("x-amz-checksum-algorithm", "x-amz-checksum-type")
    for sent_headers, repeated in (
        ({}, [None, None]),
        ({names[0]: "sha256"}, ["SHA256", "COMPOSITE"]),
        ({names[0]: "CRC32"}, ["CRC32", "COMPOSITE"]),
        ({names[0]: "CRC32", names[1]: "FULL_OBJECT"}, ["CRC32", "FULL_OBJECT"]),
    ):
        reply = s3.send("POST", f"/{repo}/main/a", {"uploads": ""}, headers=sent_headers)
        assert reply.status == 200
        assert [reply.headers.get(name) for name in names] == repeated


@pytest.mark.parametrize(
    "stated",
    [
        {"x-amz-checksum-type": "HALF"},
        {"x-amz-checksum-type": "FULL_OBJECT", "x-amz-checksum-sha1": of("SHA1", b"one")},
        {"x-amz-checksum-type": "COMPOSITE", "x-amz-checksum-crc64nvme": "AAAAAAAAAAA="},
    ],
)
def test_a_completion_with_a_type_that_the_algorithm_does_not_have_is_refused(
    s3: S3Client, boto: Any, repo: str, stated: dict[str, str]
) -> None:
    upload = begun(boto, repo)
    tag = sent(boto, upload, b"one")["Parts"][0]["ETag"]
    query, body = {"uploadId": upload["UploadId"]}, completion(tag)
    reply = s3.send("POST", f"/{repo}/main/a", query, body=body, headers=stated)
    assert (reply.status, code_of(reply)) == (400, "InvalidRequest")
    assert s3.send("POST", f"/{repo}/main/a", query, body=body).status == 200


def test_only_a_checksum_of_the_object_costs_a_request(tmp_path: Path) -> None:
    counts = Counts()
    with other_ports(tmp_path / "store", kv=lambda kv: counted_store(kv, counts)) as (live, boto):
        repo = live.fresh_repository()
        upload = begun(boto, repo)
        call = order(upload, *parts_of(boto, upload, "CRC32", b"one"))
        boto.complete_multipart_upload(**call)

        def cost(**more: str) -> Mapping[str, int]:
            before = counts.snapshot()
            boto.complete_multipart_upload(**call, **more)
            return counts.since(before)

        plain = cost()
        assert "scan" not in plain
        assert cost(ChecksumType="COMPOSITE") == plain
        assert cost(ChecksumType="FULL_OBJECT") == {**plain, "scan": 1}


def test_a_part_that_an_older_release_stored_has_no_size() -> None:
    part = PartChecksum(1, "e", "crc32", of("CRC32", b"one"))
    kept = [ChecksumRow(part, ABSENT)]
    assert checksums.whole_checksum("crc32", kept) is ABSENT
    headers = {b"x-amz-checksum-type": b"FULL_OBJECT", b"x-amz-checksum-crc32": part.text.encode()}
    stated = checksums.stated(headers).of_upload("")
    assert stated.check([ChecksumRow(part, 3)]) == part.text
    with pytest.raises(S3Error) as caught:
        stated.check(kept)
    assert caught.value.s3_code == "InvalidPart"
