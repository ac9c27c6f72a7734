"""boto3 and PyArrow, unmodified, on branches.  docs/reference/compatibility.md has what works."""

import io
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
import pandas
import pyarrow
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from pyarrow import dataset, parquet
from pyarrow.fs import FileSelector, FileType, S3FileSystem

from tests.gateway.lake import EASY_NAMES, MANY, REGION, Lake, lake
from tests.gateway.serving import DOMAIN

MIB = 1 << 20
AROUND = (5 * MIB - 1, 5 * MIB, 5 * MIB + 1)
PARTS_OF_5_MIB = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)
ODD = [*EASY_NAMES, "/", "//x", "x//y", "./x", "../x", "a/", "tab\t", "cr\r", "nl\n"]
TABLE = pyarrow.table({"id": list(range(3_000)), "day": [each % 3 for each in range(3_000)]})


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("clients")) as running:
        yield running


# ---- boto3 ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["path", "host"])
def s3(request: pytest.FixtureRequest, there: Lake) -> Any:
    """A client in each style of addresses."""
    return there.boto(style=request.param)


def prefix(request: pytest.FixtureRequest) -> str:
    """A folder of its own for a test."""
    return "main/" + re.sub(r"\W", "-", request.node.name) + "/"


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    return prefix(request)


def keys(client: Any, bucket: str, folder: str, **more: Any) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder, **more)
    return [each["Key"] for page in pages for each in page.get("Contents", [])]


def refused(call: Any, **arguments: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as failure:
        call(**arguments)
    response = failure.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def test_boto3_writes_and_reads_a_table(there: Lake, s3: Any, folder: str) -> None:
    written, read = io.BytesIO(), io.BytesIO()
    parquet.write_table(TABLE, written)
    written.seek(0)
    s3.upload_fileobj(written, there.repo, folder + "t.parquet")
    s3.download_fileobj(there.repo, folder + "t.parquet", read)
    assert parquet.read_table(read).equals(TABLE)


def test_boto3_uses_odd_names(there: Lake, s3: Any, folder: str) -> None:
    names = [folder + name for name in ODD]
    for name in names:
        s3.put_object(Bucket=there.repo, Key=name, Body=name.encode())
        assert s3.get_object(Bucket=there.repo, Key=name)["Body"].read() == name.encode()
        assert s3.head_object(Bucket=there.repo, Key=name)["ContentLength"] == len(name.encode())
        source = {"Bucket": there.repo, "Key": name}
        s3.copy_object(Bucket=there.repo, Key=name + " copy", CopySource=source)
    listed = keys(s3, there.repo, folder)
    assert listed == sorted([*names, *(name + " copy" for name in names)], key=str.encode)
    objects = [{"Key": name} for name in listed if name.endswith(" copy")]
    deleted = s3.delete_objects(Bucket=there.repo, Delete={"Objects": objects})["Deleted"]
    assert deleted == objects
    for name in names:
        s3.delete_object(Bucket=there.repo, Key=name)
    assert keys(s3, there.repo, folder) == []


def test_boto3_writes_empty_objects(there: Lake, s3: Any, folder: str) -> None:
    name, read = folder + "empty", io.BytesIO()
    s3.put_object(Bucket=there.repo, Key=name)
    s3.upload_fileobj(io.BytesIO(), there.repo, name)
    s3.download_fileobj(there.repo, name, read)
    assert (read.getvalue(), keys(s3, there.repo, folder)) == (b"", [name])


@pytest.mark.parametrize("size", AROUND)
def test_boto3_uploads_and_copies_in_parts(there: Lake, folder: str, size: int) -> None:
    s3, body, read = there.boto(), bytes(range(256)) * (size // 256 + 1), io.BytesIO()
    body = body[:size]
    s3.upload_fileobj(io.BytesIO(body), there.repo, folder + "a", Config=PARTS_OF_5_MIB)
    source = {"Bucket": there.repo, "Key": folder + "a"}
    s3.copy(source, there.repo, folder + "b", Config=PARTS_OF_5_MIB)
    s3.download_fileobj(there.repo, folder + "b", read, Config=PARTS_OF_5_MIB)
    assert read.getvalue() == body
    etag = s3.head_object(Bucket=there.repo, Key=folder + "b")["ETag"].strip('"')
    assert etag.partition("-")[2] == {AROUND[0]: "", AROUND[1]: "1", AROUND[2]: "2"}[size]


def test_boto3_lists_in_pages(there: Lake, s3: Any) -> None:
    expected = [f"main/{path}" for path in MANY]
    assert keys(s3, there.repo, "main/many/") == expected
    few = {"PaginationConfig": {"PageSize": 7, "MaxItems": 30}}
    for version in ("list_objects", "list_objects_v2"):
        pages = s3.get_paginator(version).paginate(Bucket=there.repo, Prefix="main/many/", **few)
        found = [[each["Key"] for each in page["Contents"]] for page in pages]
        assert [len(page) for page in found] == [7, 7, 7, 7, 2]
        assert [key for page in found for key in page] == expected[:30]
    page = s3.list_objects_v2(Bucket=there.repo, Delimiter="/")
    branches = [each["Prefix"] for each in page["CommonPrefixes"]]
    assert branches == ["main/", "other/", "protected/"]


def test_boto3_lists_uploads_and_their_parts(there: Lake, folder: str) -> None:
    s3 = there.boto()
    upload = {"Bucket": there.repo, "Key": folder + "a"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    for number in (1, 2, 3):
        s3.upload_part(**upload, PartNumber=number, Body=b"part")
    one = {"PaginationConfig": {"PageSize": 1}}
    parts = s3.get_paginator("list_parts").paginate(**upload, **one)
    assert [each["PartNumber"] for page in parts for each in page["Parts"]] == [1, 2, 3]
    uploads = s3.get_paginator("list_multipart_uploads")
    pages = list(uploads.paginate(Bucket=there.repo, Prefix=folder, **one))
    assert [each["UploadId"] for page in pages for each in page["Uploads"]] == [upload["UploadId"]]
    s3.abort_multipart_upload(**upload)
    assert refused(s3.list_parts, **upload) == (404, "NoSuchUpload")


def test_boto3_deletes_many_through_a_resource(there: Lake, folder: str) -> None:
    bucket = there.boto(boto3.resource).Bucket(there.repo)
    for name in ("a", "b c", "d"):
        bucket.put_object(Key=folder + name, Body=b"x")
    assert [each.key for each in bucket.objects.filter(Prefix=folder)] == [
        folder + "a",
        folder + "b c",
        folder + "d",
    ]
    (answer,) = bucket.objects.filter(Prefix=folder).delete()
    assert [each["Key"] for each in answer["Deleted"]] == [
        folder + "a",
        folder + "b c",
        folder + "d",
    ]
    assert list(bucket.objects.filter(Prefix=folder)) == []


def test_boto3_waits(there: Lake, s3: Any) -> None:
    for waiter, name in (("object_exists", "main/kept/a"), ("object_not_exists", "main/kept/no")):
        s3.get_waiter(waiter).wait(
            Bucket=there.repo, Key=name, WaiterConfig={"MaxAttempts": 1, "Delay": 0}
        )
    for waiter, name in (("bucket_exists", there.repo), ("bucket_not_exists", "none-of-these")):
        s3.get_waiter(waiter).wait(Bucket=name, WaiterConfig={"MaxAttempts": 1, "Delay": 0})


def test_boto3_writes_on_conditions(there: Lake, s3: Any, folder: str) -> None:
    there_is = {"Bucket": there.repo, "Key": folder + "a"}
    first = s3.put_object(**there_is, Body=b"1", IfNoneMatch="*")["ETag"]
    again = refused(s3.put_object, **there_is, Body=b"2", IfNoneMatch="*")
    assert again == (412, "PreconditionFailed")
    second = s3.put_object(**there_is, Body=b"2", IfMatch=first)["ETag"]
    late = refused(s3.put_object, **there_is, Body=b"3", IfMatch=first)
    assert late == (412, "PreconditionFailed")
    assert s3.get_object(**there_is, IfMatch=second)["Body"].read() == b"2"
    assert refused(s3.get_object, **there_is, IfNoneMatch=second)[0] == 304


@pytest.mark.parametrize(("version", "mark"), [("s3v4", "X-Amz-Signature"), (None, "Signature")])
@pytest.mark.parametrize("style", ["path", "host"])
def test_boto3_presigns_reads(
    there: Lake, folder: str, style: str, version: str | None, mark: str
) -> None:
    """Without a version, boto3 signs in version 2 at an endpoint that is not of AWS."""
    name = folder + "a b&+%//ü"
    there.boto().put_object(Bucket=there.repo, Key=name, Body=b"signed")
    config = {"signature_version": version} if version else {}
    s3 = there.boto(style=style, config=config)
    url = s3.generate_presigned_url("get_object", Params={"Bucket": there.repo, "Key": name})
    assert f"{mark}=" in url and ("X-Amz-" in url) is bool(version)
    host = f"{there.repo}.{DOMAIN}" if style == "host" else there.url.removeprefix("http://")
    assert url.startswith(f"http://{host}/")
    here = urllib.request.Request(url.replace(f"http://{host}", there.url), headers={"Host": host})
    with urllib.request.urlopen(here) as answer:
        assert answer.read() == b"signed"


def test_boto3_presigns_reads_with_chosen_headers(there: Lake, s3: Any, folder: str) -> None:
    """In both versions of the signature; boto3 signs in version 2 by default."""
    name = {"Bucket": there.repo, "Key": folder + "a"}
    s3.put_object(**name, Body=b"text")
    chosen = {
        "ResponseContentType": "text/x a",
        "ResponseContentDisposition": 'attachment; filename="a&b=c.txt"',
        "ResponseExpires": "Sun, 06 Nov 1994 08:49:37 GMT",
    }
    for signer in (there.boto(), there.boto(config={"signature_version": "s3v4"})):
        url = signer.generate_presigned_url("get_object", Params={**name, **chosen})
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == b"text"
            assert answer.headers["content-type"] == "text/x a"
            assert answer.headers["content-disposition"] == 'attachment; filename="a&b=c.txt"'
            assert answer.headers["expires"].startswith("Sun, 06 Nov 1994")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url.replace("text%2Fx", "text%2Fhtml"))


def test_boto3_presigns_writes(there: Lake, folder: str) -> None:
    s3 = there.boto(config={"signature_version": "s3v4"})
    name = {"Bucket": there.repo, "Key": folder + "a b+"}
    url = s3.generate_presigned_url("put_object", Params=name)
    with urllib.request.urlopen(urllib.request.Request(url, b"put", method="PUT")) as answer:
        assert answer.status == 200
    assert s3.get_object(**name)["Body"].read() == b"put"


def test_boto3_writes_over_https(there: Lake, folder: str) -> None:
    """It sends checksums in trailers then."""
    s3 = there.boto(url=there.tls.url, verify=str(there.tls.certificate))
    seen: list[bytes] = []
    s3.meta.events.register(
        "before-send.s3",
        lambda request, **_: seen.append(request.headers.get("X-Amz-Content-SHA256")),
    )
    for body in (b"", b"some", b"x" * (5 * MIB + 1)):
        s3.upload_fileobj(io.BytesIO(body), there.repo, folder + "a", Config=PARTS_OF_5_MIB)
        assert s3.get_object(Bucket=there.repo, Key=folder + "a")["Body"].read() == body
    assert seen.count(b"STREAMING-UNSIGNED-PAYLOAD-TRAILER") == 4  # of the last, two parts


def test_boto3_reads_commits(there: Lake, s3: Any) -> None:
    for ref, body in (("v1", b"before"), (there.commit, b"before"), ("main", b"after")):
        assert s3.get_object(Bucket=there.repo, Key=f"{ref}/kept/a")["Body"].read() == body
        assert f"{ref}/kept/a" in keys(s3, there.repo, f"{ref}/")


def test_boto3_is_refused_what_is_not_served(there: Lake, folder: str) -> None:
    s3 = there.boto()
    source = {"Bucket": there.repo, "Key": "main/kept/a"}
    tag = {"Bucket": there.repo, "Key": "v1/kept/a"}
    assert refused(s3.put_object, **tag, Body=b"x") == (405, "MethodNotAllowed")
    assert refused(s3.copy_object, **tag, CopySource=source) == (405, "MethodNotAllowed")
    assert refused(s3.create_bucket, Bucket="none-of-these") == (501, "NotImplemented")
    assert refused(s3.delete_bucket, Bucket=there.repo) == (405, "MethodNotAllowed")
    form = s3.generate_presigned_post(there.repo, folder + "a")
    posted = urllib.request.Request(form["url"], urllib.parse.urlencode(form["fields"]).encode())
    with pytest.raises(urllib.error.HTTPError) as failure:
        urllib.request.urlopen(posted)
    failure.value.close()
    assert 400 <= failure.value.code < 500
    assert keys(s3, there.repo, folder) == []


def test_boto3_is_told_what_is_denied(there: Lake) -> None:
    s3 = there.boto()
    refusal = refused(s3.put_object, Bucket=there.repo, Key="protected/a", Body=b"x")
    assert refusal == (403, "ErrWriteToProtectedBranch")
    there.may_read("kept")
    somebody = there.boto(key=there.somebodys_key)
    assert somebody.get_object(Bucket=there.repo, Key="main/kept/a")["Body"].read() == b"after"
    assert refused(somebody.put_object, Bucket=there.repo, Key="main/kept/a", Body=b"x") == (
        403,
        "AccessDenied",
    )
    assert refused(somebody.get_object, Bucket=there.repo, Key="main/many/0001") == (
        403,
        "AccessDenied",
    )
    unknown = refused(s3.get_object, Bucket=there.repo, Key="main/no")
    assert unknown == (404, "NoSuchKey")


# ---- PyArrow -------------------------------------------------------------------------------------


def arrow(there: Lake, **more: Any) -> S3FileSystem:
    key = more.pop("key", there.key)
    options = {
        "access_key": key.access_key_id,
        "secret_key": key.secret_access_key,
        "region": REGION,
        "endpoint_override": there.url,
    }
    return S3FileSystem(**(options | more))


@pytest.fixture(scope="module", params=["path", "host"])
def fs(request: pytest.FixtureRequest, there: Lake) -> S3FileSystem:
    if request.param == "path":
        return arrow(there)
    return arrow(
        there,
        endpoint_override=f"http://{DOMAIN}",
        force_virtual_addressing=True,
        proxy_options=there.url,
    )


def put(fs: S3FileSystem, path: str, body: bytes) -> None:
    with fs.open_output_stream(path) as stream:
        stream.write(body)


def got(fs: S3FileSystem, path: str) -> bytes:
    with fs.open_input_file(path) as file:
        body: bytes = file.read()
        return body


def kinds(fs: S3FileSystem, folder: str) -> dict[str, FileType]:
    """What is below a folder, at any depth."""
    found = fs.get_file_info(FileSelector(folder, recursive=True))
    return {each.path.removeprefix(folder + "/"): each.type for each in found}


@pytest.fixture
def place(there: Lake, request: pytest.FixtureRequest) -> str:
    """A folder of its own for a test, as file systems name it."""
    return f"{there.repo}/{prefix(request).rstrip('/')}"


def test_pyarrow_writes_and_reads_tables(fs: S3FileSystem, place: str) -> None:
    parquet.write_table(TABLE, f"{place}/t.parquet", filesystem=fs)
    assert parquet.read_table(f"{place}/t.parquet", filesystem=fs).equals(TABLE)
    days = dataset.partitioning(pyarrow.schema([("day", pyarrow.int64())]), flavor="hive")
    options = {"filesystem": fs, "partitioning": days}
    for rows, behavior in ((3_000, "error"), (30, "delete_matching")):
        dataset.write_dataset(
            TABLE.slice(0, rows),
            f"{place}/days",
            format="parquet",
            existing_data_behavior=behavior,
            **options,
        )
        assert dataset.dataset(f"{place}/days", **options).count_rows() == rows


def test_pandas_reads_and_writes_through_pyarrow(there: Lake, place: str) -> None:
    frame, fs = TABLE.to_pandas(), arrow(there)
    frame.to_parquet(f"{place}.parquet", filesystem=fs)
    found = pandas.read_parquet(f"{place}.parquet", filesystem=fs, filters=[("id", "<", 3)])
    assert list(found["id"]) == [0, 1, 2]


def test_pyarrow_uses_odd_names(there: Lake, fs: S3FileSystem, place: str) -> None:
    names = [*EASY_NAMES, "tab\t", "cr\r", "nl\n"]
    for name in names:
        put(fs, f"{place}/{name}", name.encode())
        assert got(fs, f"{place}/{name}") == name.encode()
    assert kinds(fs, place) == dict.fromkeys(names, FileType.File)
    fs.delete_dir(place)
    assert keys(there.boto(), there.repo, place.partition("/")[2] + "/") == []


@pytest.mark.parametrize(("name", "error"), [("x//y", ValueError), ("../x", OSError)])
def test_pyarrow_refuses_names_that_are_no_paths(
    there: Lake, place: str, name: str, error: type[Exception]
) -> None:
    """It refuses `//` itself.  It signs dots as they are and sends them resolved."""
    with pytest.raises(error):
        put(arrow(there), f"{place}/{name}", b"x")
    assert keys(there.boto(), there.repo, place.partition("/")[2]) == []


@pytest.mark.parametrize("size", [0, *AROUND, 10 * MIB + 1])
def test_pyarrow_writes_in_parts(there: Lake, place: str, size: int) -> None:
    """Always, also 0 bytes.  Its parts have 10 MiB."""
    fs, body = arrow(there), b"a" * size
    put(fs, f"{place}/a", body)
    assert fs.get_file_info(f"{place}/a").size == size
    assert got(fs, f"{place}/a") == body
    name = f"{place}/a".partition("/")[2]
    etag = there.boto().head_object(Bucket=there.repo, Key=name)["ETag"].strip('"')
    assert etag.endswith("-2" if size > 10 * MIB else "-1")


def test_pyarrow_lists_more_than_one_page(there: Lake, fs: S3FileSystem) -> None:
    files = kinds(fs, f"{there.repo}/main/many")
    assert list(files) == [path.removeprefix("many/") for path in MANY]
    branches = fs.get_file_info(FileSelector(there.repo))
    assert {each.base_name for each in branches} == {"main", "other", "protected"}
    assert there.repo in {each.path for each in fs.get_file_info(FileSelector(""))}


def test_pyarrow_makes_and_deletes_directories(fs: S3FileSystem, place: str) -> None:
    fs.create_dir(f"{place}/one/two")
    fs.create_dir(f"{place}/three", recursive=False)
    put(fs, f"{place}/four/a", b"x")
    asked = [f"{place}{rest}" for rest in ("", "/one", "/one/two", "/three", "/four", "/none")]
    found = {each.path.removeprefix(place): each.type for each in fs.get_file_info(asked)}
    assert found.pop("/none") is FileType.NotFound
    assert set(found.values()) == {FileType.Directory}
    fs.delete_file(f"{place}/four/a")  # writes a mark of the parent, which stays a directory
    assert fs.get_file_info(f"{place}/four").type is FileType.Directory
    fs.delete_dir_contents(f"{place}/four")
    fs.delete_dir(f"{place}/one")
    assert kinds(fs, place) == {"three": FileType.Directory, "four": FileType.Directory}
    fs.delete_dir(place)
    assert fs.get_file_info(place).type is FileType.NotFound


def test_pyarrow_makes_no_branches_and_no_repositories(there: Lake) -> None:
    fs = arrow(there)
    fs.create_dir(f"{there.repo}/main")  # is there: nothing happens
    with pytest.raises(OSError, match="NO_SUCH_BUCKET"):
        fs.create_dir(f"{there.repo}/none/x")
    with pytest.raises(OSError, match="Bucket 'none-of-these' not found"):
        fs.create_dir("none-of-these")
    fs = arrow(there, allow_bucket_creation=True, allow_bucket_deletion=True)
    with pytest.raises(OSError, match="501"):
        fs.create_dir("none-of-these")
    with pytest.raises(OSError, match="405"):
        fs.delete_dir(there.gateway.live.fresh_repository())


def test_pyarrow_copies_moves_and_deletes(there: Lake, fs: S3FileSystem, place: str) -> None:
    put(fs, f"{place}/a b+", b"x")
    fs.copy_file(f"{place}/a b+", f"{place}/ü&%")
    fs.move(f"{place}/ü&%", f"{place}/moved")
    fs.copy_file(f"{there.repo}/v1/kept/a", f"{place}/old")
    assert got(fs, f"{place}/old") == b"before"
    fs.delete_file(f"{place}/a b+")
    with pytest.raises(FileNotFoundError):
        fs.delete_file(f"{place}/a b+")
    assert kinds(fs, place) == dict.fromkeys(("moved", "old"), FileType.File)


def test_pyarrow_writes_over_https(there: Lake, place: str) -> None:
    fs = arrow(there, endpoint_override=there.tls.url, tls_ca_file_path=str(there.tls.certificate))
    put(fs, f"{place}/a", b"secret" * 1000)
    assert got(fs, f"{place}/a") == b"secret" * 1000


def test_pyarrow_reads_commits(there: Lake, fs: S3FileSystem) -> None:
    for ref, body in (("v1", b"before"), (there.commit, b"before"), ("main", b"after")):
        assert got(fs, f"{there.repo}/{ref}/kept/a") == body
        assert "kept/a" in kinds(fs, f"{there.repo}/{ref}")
    with pytest.raises(OSError, match="405"):
        put(fs, f"{there.repo}/v1/kept/a", b"x")
    with pytest.raises(FileNotFoundError):
        got(fs, f"{there.repo}/none/kept/a")


def test_pyarrow_is_told_what_is_denied(there: Lake) -> None:
    with pytest.raises(OSError, match="HTTP status 403"):
        put(arrow(there), f"{there.repo}/protected/a", b"x")
    there.may_read("kept")
    fs = arrow(there, key=there.somebodys_key)
    assert got(fs, f"{there.repo}/main/kept/a") == b"after"
    for call in (
        lambda: put(fs, f"{there.repo}/main/kept/a", b"x"),
        lambda: got(fs, f"{there.repo}/main/many/0001"),
    ):
        with pytest.raises(OSError, match="ACCESS_DENIED"):
            call()
