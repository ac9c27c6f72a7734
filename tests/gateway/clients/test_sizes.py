"""Every client, unmodified, with every size that changes how it sends an object: 0 bytes, 5 MiB and
one byte around it, 17 MiB: several parts of 5 MiB, and one of 15 MB with a rest.  Those whose parts
are larger store 64 MiB.

Each client stores the sizes under names of its own, and another one, boto3, compares what is stored
with what was meant.  Then the client reads them again.  The aws cli does so in `test_aws.py`: it
puts its own botocore in the place of another.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import polars
import pytest
from pyarrow.fs import S3FileSystem

from tests.gateway.clients.elsewhere import Elsewhere
from tests.gateway.clients.test_duckdb import Database
from tests.gateway.clients.test_minio import Bucket
from tests.gateway.clients.test_polars import Tables
from tests.gateway.clients.test_rclone import IN_PARTS, Rclone
from tests.gateway.clients.test_s3cmd import S3cmd
from tests.gateway.clients.test_s3fs import Files, options
from tests.gateway.clients.test_s5cmd import IN_PARTS as S5CMD_IN_PARTS
from tests.gateway.clients.test_s5cmd import S5cmd
from tests.gateway.lake import REGION, Lake
from tests.gateway.test_clients import PARTS_OF_5_MIB

pytestmark = pytest.mark.slow
MIB = 1 << 20
SIZES = (0, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 17 * MIB)
LARGER = (*SIZES[:-1], 64 * MIB)
Transfer = Callable[[Path, str], object]


@cache
def content(size: int) -> bytes:
    """Printable text of a size, which no two blocks have in common, with a line break at its
    end."""
    block = b"".join(hashlib.sha256(b"%d" % number).hexdigest().encode() for number in range(1_023))
    count = size // len(block) + 1
    return (b"".join(b"%08d" % number + block for number in range(count))[: size - 1] + b"\n")[
        :size
    ]


@cache
def checksum(size: int) -> str:
    return hashlib.md5(content(size)).hexdigest()


def check_stored(there: Lake, folder: str, size: int) -> None:
    answer = there.boto().get_object(Bucket=there.repo, Key=f"{folder}{size}")
    digest = hashlib.md5()
    for chunk in answer["Body"].iter_chunks(MIB):
        digest.update(chunk)
    assert (answer["ContentLength"], digest.hexdigest()) == (size, checksum(size))


def check_files(
    there: Lake,
    folder: str,
    tmp_path: Path,
    put: Transfer,
    get: Transfer,
    sizes: Sequence[int] = SIZES,
) -> None:
    """Store and read files; a transfer gets the path of a file and the key."""
    for size in sizes:
        key, file, back = f"{folder}{size}", tmp_path / f"{size}", tmp_path / f"back-{size}"
        file.write_bytes(content(size))
        put(file, key)
        check_stored(there, folder, size)
        get(back, key)
        assert back.read_bytes() == content(size)


def test_boto3_stores_every_size(there: Lake, folder: str, tmp_path: Path) -> None:
    s3, parts = there.boto(), PARTS_OF_5_MIB
    check_files(
        there,
        folder,
        tmp_path,
        lambda file, key: s3.upload_file(str(file), there.repo, key, Config=parts),
        lambda file, key: s3.download_file(there.repo, key, str(file), Config=parts),
    )


def test_pyarrow_stores_every_size(there: Lake, folder: str, tmp_path: Path) -> None:
    scheme, _, address = there.url.partition("://")
    fs = S3FileSystem(
        access_key=there.key.access_key_id,
        secret_key=there.key.secret_access_key,
        endpoint_override=address,
        scheme=scheme,
        region=REGION,
    )

    def put(file: Path, key: str) -> None:
        with fs.open_output_stream(f"{there.repo}/{key}") as stream:
            stream.write(file.read_bytes())

    def get(file: Path, key: str) -> None:
        with fs.open_input_file(f"{there.repo}/{key}") as stored:
            file.write_bytes(stored.readall())

    check_files(there, folder, tmp_path, put, get)


def test_polars_stores_every_size(there: Lake, away: Elsewhere, folder: str) -> None:
    """One line of text, without quotes."""
    tables = Tables(away, there.storage_options())
    for size in SIZES:
        uri, text = f"s3://{there.repo}/{folder}{size}", content(size).decode().strip()
        frame = polars.DataFrame({"text": [text] if size else []}, schema={"text": polars.String})
        tables.write("csv", frame, uri, include_header=False, quote_style="never")
        check_stored(there, folder, size)
        if size:
            back = tables.read("csv", uri, has_header=False, quote_char=None)
            assert back.item() == text


def test_s3fs_stores_every_size(there: Lake, away: Elsewhere, folder: str, tmp_path: Path) -> None:
    fs = Files(away, "sizes", options(there))
    check_files(
        there,
        folder,
        tmp_path,
        lambda file, key: fs.put_file(str(file), f"{there.repo}/{key}"),
        lambda file, key: fs.get_file(f"{there.repo}/{key}", str(file)),
        LARGER,
    )


def test_duckdb_stores_every_size(there: Lake, away: Elsewhere, folder: str) -> None:
    """One line of text; an empty table leaves no file, so there is none of 0 bytes."""
    db = Database(away, "sizes", there)
    for size in LARGER[1:]:
        uri, text = f"s3://{there.repo}/{folder}{size}", content(size).decode().strip()
        db(f"COPY (SELECT '{text}') TO '{uri}' (FORMAT csv, HEADER false)")
        check_stored(there, folder, size)
        assert db(f"SELECT content FROM read_text('{uri}')") == [(text + "\n",)]


def test_s3cmd_stores_every_size(there: Lake, folder: str, tmp_path: Path) -> None:
    s3cmd, at = S3cmd(there, tmp_path, there.key), f"s3://{there.repo}/"
    check_files(
        there,
        folder,
        tmp_path,
        lambda file, key: s3cmd("put", file, at + key),
        lambda file, key: s3cmd("get", at + key, file),
    )


def test_rclone_stores_every_size(there: Lake, folder: str, tmp_path: Path) -> None:
    rclone, at = Rclone(there, tmp_path, there.key), f"lake:{there.repo}/"
    check_files(
        there,
        folder,
        tmp_path,
        lambda file, key: rclone("copyto", file, at + key, *IN_PARTS),
        lambda file, key: rclone("copyto", at + key, file),
    )


def test_minio_stores_every_size(there: Lake, away: Elsewhere, folder: str, tmp_path: Path) -> None:
    bucket = Bucket(away, "sizes", there, there.key)
    check_files(
        there,
        folder,
        tmp_path,
        lambda file, key: bucket.put_file(key, str(file)),
        lambda file, key: bucket.get_file(key, str(file)),
    )


def test_s5cmd_stores_every_size(there: Lake, folder: str, tmp_path: Path) -> None:
    s5cmd, at = S5cmd(there, there.key), f"s3://{there.repo}/"
    check_files(
        there,
        folder,
        tmp_path,
        lambda file, key: s5cmd("cp", *S5CMD_IN_PARTS, file, at + key),
        lambda file, key: s5cmd("cp", at + key, file),
    )
