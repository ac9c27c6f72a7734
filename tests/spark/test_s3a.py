"""Spark over S3A, unmodified, on branches of the S3 gateway.

S3A is that of Hadoop 3.3.1, the newest that is in a package, beside Hadoop 3.3.4 of PySpark 3.5.
docs/reference/compatibility.md has what works.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from graveler.auth.credentials import NewCredential
from graveler.core.errors import Conflict
from graveler.spark import Credentials, connect
from graveler.spark.reads import read
from tests.gateway.lake import MANY, Lake, lake
from tests.spark.lakes import write

MIB = 1 << 20
PASSWORD = "password"  # of a file that holds no secret
NAMES = ["a b", "a+b", "a%2Fb", "a%b", "a&b", "ü", "😀", "q\"'<>", "#?=;@$,", "[]{}|^`~!*()"]
MAGIC = {
    "fs.s3a.committer.name": "magic",
    "fs.s3a.committer.magic.enabled": "true",
    "mapreduce.outputcommitter.factory.scheme.s3a": (
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    ),
}
TEXTS = "org.apache.hadoop.mapreduce.lib.output.TextOutputFormat"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("s3a")) as running:
        yield running


def settings(there: Lake, key: NewCredential, url: str = "") -> dict[str, str]:
    given = {
        "access.key": key.access_key_id,
        "secret.key": key.secret_access_key,
        "endpoint": url or there.url,
        "path.style.access": "true",
        "attempts.maximum": "1",
        "retry.limit": "1",
        "multipart.size": "5M",
        "multipart.threshold": "5M",
        "fast.upload.buffer": "bytebuffer",
    }
    return {f"fs.s3a.{name}": value for name, value in given.items()}


class Files:
    """The file system of Hadoop below a repository."""

    def __init__(self, spark: SparkSession, there: Lake, key: NewCredential, url: str = "") -> None:
        self._jvm: Any = spark._jvm
        configuration = self._jvm.org.apache.hadoop.conf.Configuration()
        for name, value in settings(there, key, url).items():
            configuration.set(name, value)
        self._root = f"s3a://{there.repo}/"
        uri = self._jvm.java.net.URI(self._root)
        self.fs = self._jvm.org.apache.hadoop.fs.FileSystem.newInstance(uri, configuration)

    def path(self, name: str) -> Any:
        """A path from a key, whose characters stand for themselves."""
        return self._jvm.org.apache.hadoop.fs.Path("s3a", self._root[6:-1], f"/{name}")

    def write(self, name: str, body: bytes, replace: bool = True) -> None:
        stream = self.fs.create(self.path(name), replace)
        stream.write(body)
        stream.close()

    def read(self, name: str, start: int = 0, size: int = -1) -> bytes:
        stream = self.fs.open(self.path(name))
        stream.seek(start)
        read = self._jvm.org.apache.commons.io.IOUtils.toByteArray
        body = bytes(read(stream, size) if size >= 0 else read(stream))
        stream.close()
        return body

    def names(self, statuses: Any) -> list[str]:
        return [each.getPath().toString().removeprefix(self._root) for each in statuses]


@pytest.fixture(scope="module", autouse=True)
def trusted(spark: SparkSession, there: Lake) -> Iterator[None]:
    """Java trusts the certificate of the lake.  S3A asks it once, for its first file system."""
    jvm: Any = spark._jvm
    found = load_pem_x509_certificate(there.tls.certificate.read_bytes())
    file = there.tls.certificate.with_name("trusted.p12")
    named = [pkcs12.PKCS12Certificate(found, b"graveler")]
    sealed = BestAvailableEncryption(PASSWORD.encode())
    file.write_bytes(pkcs12.serialize_java_truststore(named, sealed))
    given = {"": str(file), "Password": PASSWORD}
    for name, value in given.items():
        jvm.java.lang.System.setProperty(f"javax.net.ssl.trustStore{name}", value)
    yield
    for name in given:
        jvm.java.lang.System.clearProperty(f"javax.net.ssl.trustStore{name}")


@pytest.fixture(scope="module")
def files(spark: SparkSession, there: Lake) -> Iterator[Files]:
    made = Files(spark, there, there.key)
    yield made
    made.fs.close()


@pytest.fixture(scope="module")
def session(spark: SparkSession, there: Lake) -> Iterator[SparkSession]:
    """The session, which finds the lake at `s3a:`."""
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    before = {name: configuration.get(name) for name in settings(there, there.key)}
    for name, value in settings(there, there.key).items():
        configuration.set(name, value)
    yield spark
    for name, value in before.items():
        configuration.set(name, value) if value is not None else configuration.unset(name)


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    """A folder of its own for a test, as the start of a key."""
    return "main/" + re.sub(r"\W", "-", request.node.name)


def keys(there: Lake, folder: str) -> list[str]:
    """The objects below a folder, from its name on."""
    found = there.boto().list_objects_v2(Bucket=there.repo, Prefix=folder + "/")
    return [each["Key"].removeprefix(folder + "/") for each in found.get("Contents", [])]


def refused(call: Any, *arguments: Any) -> str:
    """What Java says about a call that fails."""
    with pytest.raises(Py4JJavaError) as failure:
        call(*arguments)
    return str(failure.value)


def test_s3a_writes_and_reads_tables(session: SparkSession, there: Lake, folder: str) -> None:
    """With Spark's own committer, which renames; overwriting and appending."""
    where = f"s3a://{there.repo}/{folder}/t"
    rows = session.range(300).selectExpr("id", "id % 3 AS day")
    rows.write.partitionBy("day").parquet(where)
    found = session.read.parquet(where)
    assert found.where("day = 1 AND id < 10").toPandas()["id"].tolist() == [1, 4, 7]
    rows.limit(1).write.mode("append").partitionBy("day").parquet(where)
    assert session.read.parquet(where).count() == 301
    rows.where("id < 2").write.mode("overwrite").csv(where)
    assert sorted(row.value for row in session.read.text(where).collect()) == ["0,0", "1,1"]
    assert [name for name in keys(there, f"{folder}/t") if "_temporary" in name] == []


def test_s3a_and_write_share_a_branch(session: SparkSession, there: Lake, folder: str) -> None:
    """What S3A leaves uncommitted in its folder stays there, beside each commit of `write`."""
    keys_of = Credentials(there.key.access_key_id, there.key.secret_access_key)
    with connect(session, there.url, keys_of, store=there.gateway.live.store) as lake:
        raw, table = f"{folder}/raw", f"{there.repo}/{folder}/t"
        session.range(3).write.parquet(f"s3a://{there.repo}/{raw}")
        write(lake, session.range(5), table)
        assert read(lake, table).count() == 5
        assert [name for name in keys(there, raw) if name.startswith("part-")]
        session.range(2).write.mode("append").parquet(f"s3a://{there.repo}/{folder}/t")
        with pytest.raises(Conflict, match=f"uncommitted changes.*{folder.partition('/')[2]}/t/"):
            write(lake, session.range(1), table, "append")
        assert session.read.parquet(f"s3a://{there.repo}/{raw}").count() == 3


def test_s3a_uses_odd_names(files: Files, folder: str) -> None:
    for name in NAMES:
        files.write(f"{folder}/{name}", name.encode())
        assert files.read(f"{folder}/{name}") == name.encode()
    listed = files.names(files.fs.listStatus(files.path(folder)))
    assert listed == [f"{folder}/{name}" for name in sorted(NAMES, key=str.encode)]
    assert files.fs.delete(files.path(folder), True) is True
    assert files.fs.exists(files.path(folder)) is False


def test_s3a_reads_ranges(files: Files, folder: str) -> None:
    """With the etag that the file had as a condition."""
    files.write(f"{folder}/a", b"0123456789")
    assert files.read(f"{folder}/a", 5, 3) == b"567"
    stream = files.fs.open(files.path(f"{folder}/a"))
    files.write(f"{folder}/a", b"changed...")
    assert "RemoteFileChangedException" in refused(stream.read)
    stream.close()


def test_s3a_writes_in_parts(files: Files, there: Lake, folder: str) -> None:
    body = bytes(range(256)) * (5 * 4096 * 2 + 1)
    stream = files.fs.create(files.path(f"{folder}/a"))
    stream.write(body)
    assert keys(there, folder) == []  # until it is complete
    stream.close()
    assert files.read(f"{folder}/a") == body
    head = there.boto().head_object(Bucket=there.repo, Key=f"{folder}/a")
    assert head["ETag"].strip('"').endswith("-3")
    files.write(f"{folder}/empty", b"")
    assert files.fs.getFileStatus(files.path(f"{folder}/empty")).getLen() == 0


def test_s3a_lists_and_globs(files: Files, there: Lake, folder: str) -> None:
    many = files.names(files.fs.listStatus(files.path("main/many")))
    assert many == [f"main/{path}" for path in MANY]
    few = files.names(files.fs.globStatus(files.path("main/many/*0[03]")))
    assert few == [f"main/{path}" for path in MANY if path.endswith(("00", "03"))]
    branches = files.names(files.fs.listStatus(files.path("")))
    assert branches == ["main", "other", "protected"]
    summary = files.fs.getContentSummary(files.path("main/many"))
    assert summary.getFileCount() == len(MANY)


def test_s3a_makes_directories(files: Files, there: Lake, folder: str) -> None:
    """They are empty objects whose names end with a slash, until something is below them."""
    assert files.fs.mkdirs(files.path(f"{folder}/one/two")) is True
    assert keys(there, folder) == ["one/two/"]
    assert files.fs.getFileStatus(files.path(f"{folder}/one")).isDirectory() is True
    files.write(f"{folder}/one/two/a", b"x")
    assert keys(there, folder) == ["one/two/a"]
    assert files.fs.delete(files.path(f"{folder}/one/two/a"), False) is True
    assert files.fs.getFileStatus(files.path(f"{folder}/one/two")).isDirectory() is True
    assert files.fs.delete(files.path(f"{folder}/one"), True) is True


def test_s3a_copies_moves_and_deletes(files: Files, there: Lake, folder: str) -> None:
    """A rename is a copy of each object and a batch of deletions."""
    for name in ("x/a b+", "x/y/ü&%", "x/y/z"):
        files.write(f"{folder}/{name}", name.encode())
    renamed = files.fs.rename(files.path(f"{folder}/x"), files.path(f"{folder}/w"))
    assert renamed is True
    assert files.fs.rename(files.path(f"{folder}/w/a b+"), files.path(f"{folder}/moved")) is True
    assert keys(there, folder) == ["moved", "w/y/z", "w/y/ü&%"]
    assert files.read(f"{folder}/moved") == b"x/a b+"
    assert files.fs.delete(files.path(folder), True) is True
    assert keys(there, folder) == []


def test_s3a_commits_without_renames(session: SparkSession, there: Lake, folder: str) -> None:
    """The magic committer: each task uploads parts, and the job completes the uploads.  A job that
    fails aborts those below its folder, where only the mark of the folder stays."""
    where = f"s3a://{there.repo}/{folder}"
    pairs = session.sparkContext.parallelize([("k", f"{number}") for number in range(4)], 2)
    pairs.saveAsNewAPIHadoopFile(f"{where}/good", TEXTS, conf=MAGIC)
    written = there.boto().get_object(Bucket=there.repo, Key=f"{folder}/good/_SUCCESS")
    assert json.loads(written["Body"].read())["committer"] == "magic"
    assert [name for name in keys(there, f"{folder}/good") if "part" in name] == [
        "part-r-00000",
        "part-r-00001",
    ]
    assert sorted(row.value for row in session.read.text(f"{where}/good").collect()) == [
        f"k\t{number}" for number in range(4)
    ]
    bad = pairs.map(lambda pair: (pair[0], str(1 // (int(pair[1]) - 3))))
    refused(lambda: bad.saveAsNewAPIHadoopFile(f"{where}/bad", TEXTS, conf=MAGIC))
    uploads = there.boto().list_multipart_uploads(Bucket=there.repo, Prefix=folder)
    assert (uploads.get("Uploads", []), keys(there, f"{folder}/bad")) == ([], [""])


def test_s3a_reads_commits(session: SparkSession, files: Files, there: Lake) -> None:
    for ref, body in (("v1", "before"), (there.commit, "before"), ("main", "after")):
        assert files.read(f"{ref}/kept/a") == body.encode()
        rows = session.read.text(f"s3a://{there.repo}/{ref}/kept").collect()
        assert [row.value for row in rows] == [body]
    assert "FileNotFoundException" in refused(files.read, "main/none")
    assert "405" in refused(files.write, "v1/kept/a", b"x")


def test_s3a_writes_over_https(spark: SparkSession, there: Lake, folder: str) -> None:
    files = Files(spark, there, there.key, there.tls.url)
    for body in (b"", b"some", bytes(range(256)) * (5 * 4096 + 1)):
        files.write(f"{folder}/a +", body)
        assert files.read(f"{folder}/a +") == body
    files.fs.close()


def test_s3a_is_told_what_is_denied(spark: SparkSession, files: Files, there: Lake) -> None:
    assert "AccessDeniedException" in refused(files.write, "protected/a", b"x")
    there.may_read("kept")
    few = Files(spark, there, there.somebodys_key)
    assert few.read("main/kept/a") == b"after"
    for call, *arguments in (
        (few.write, "main/kept/a", b"x"),
        (few.read, "main/many/0001"),
    ):
        assert "AccessDeniedException" in refused(call, *arguments)
    few.fs.close()
