"""Polars, unmodified, on branches.

It runs in another process: after its first use of an `s3://` path, Polars keeps a thread that reads
the environment of the process again and again, until the process ends.  The C library may move the
environment when a variable is set, without a lock against such a reader, and tests set variables
all the time: the process of the tests would crash now and then.  It only makes tables and
expressions, and compares them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import polars
import pytest

from tests.gateway.clients.elsewhere import ClientError, Elsewhere, elsewhere
from tests.gateway.lake import EASY_NAMES, MANY, Lake
from tests.gateway.serving import DOMAIN

MIB = 1 << 20
AROUND = (5 * MIB - 1, 5 * MIB, 5 * MIB + 1)
FRAME = polars.DataFrame({"id": range(3_000), "day": [each % 3 for each in range(3_000)]})


class Tables:
    """Writes and reads tables in the other process with the settings of one caller.  The functions
    of Polars are named by what they do and by their format: `scan` and `csv` are `scan_csv`."""

    def __init__(self, away: Elsewhere, given: dict[str, str]) -> None:
        self._away, self._given = away, given

    def write(self, kind: str, frame: polars.DataFrame, uri: str, **more: Any) -> None:
        self._away(f"polars:DataFrame.write_{kind}", frame, uri, **self._with(more))

    def sink(self, kind: str, frame: polars.DataFrame, uri: str) -> None:
        self._away(f"polars:LazyFrame.sink_{kind}", frame.lazy(), uri, **self._with({}))

    def read(self, kind: str, uri: str, **more: Any) -> polars.DataFrame:
        found: polars.DataFrame = self._away(f"polars:read_{kind}", uri, **self._with(more))
        return found

    def scan(
        self, kind: str, uri: str, where: polars.Expr | None = None, **more: Any
    ) -> polars.DataFrame:
        """What a query finds, with a filter if `where` is given."""
        self._away.keep("query", f"polars:scan_{kind}", uri, **self._with(more))
        if where is not None:
            self._away.keep("query", "@query.filter", where)
        found: polars.DataFrame = self._away("@query.collect")
        return found

    def _with(self, more: dict[str, Any]) -> dict[str, Any]:
        return {**more, "storage_options": self._given}


@pytest.fixture(scope="module")
def process(away: Elsewhere) -> Elsewhere:
    """The process of the clients, which has the Polars of this environment."""
    assert away("importlib.metadata:version", "polars") == polars.__version__
    return away


@pytest.fixture(scope="module", params=["path", "host"])
def styled(request: pytest.FixtureRequest, there: Lake, process: Elsewhere) -> Tables:
    """In each style of addresses."""
    if request.param == "path":
        return Tables(process, there.storage_options())
    host = there.storage_options(
        aws_endpoint_url=f"http://{there.repo}.{DOMAIN}",
        aws_virtual_hosted_style_request="true",
        proxy_url=there.url,
    )
    return Tables(process, host)


@pytest.fixture(scope="module")
def tables(there: Lake, process: Elsewhere) -> Tables:
    """In path style."""
    return Tables(process, there.storage_options())


@pytest.fixture(scope="module")
def in_parts(there: Lake) -> Iterator[Tables]:
    """Those of a process where Polars uploads in parts of 5 MiB; its own are larger."""
    with elsewhere({"POLARS_UPLOAD_CHUNK_SIZE": str(5 * MIB)}) as process:
        yield Tables(process, there.storage_options())


@pytest.fixture
def uri(place: str) -> str:
    return f"s3://{place}"


@contextmanager
def fails(kind: str, text: str | None = None) -> Iterator[None]:
    """What Polars raises in the block is an error of this type, with this text if one is given."""
    with pytest.raises(ClientError, match=text) as failure:
        yield
    assert kind in failure.value.kind.split(", ")


def column(frame: polars.DataFrame) -> list[str]:
    """The only column of a table."""
    (only,) = frame.get_columns()
    return only.to_list()


def test_polars_writes_and_reads_tables(styled: Tables, uri: str) -> None:
    for kind in ("parquet", "csv", "ndjson", "ipc"):
        styled.sink(kind, FRAME, f"{uri}/{kind}")
        assert styled.scan(kind, f"{uri}/{kind}").equals(FRAME)
    styled.write("parquet", FRAME, f"{uri}/days/", partition_by="day")
    assert styled.scan("parquet", f"{uri}/days/", polars.col("day") == 1).height == 1_000


def test_polars_uses_odd_names(there: Lake, styled: Tables, uri: str) -> None:
    few = FRAME.head(1)
    for name in EASY_NAMES:
        styled.write("parquet", few, f"{uri}/{name}.parquet")
        assert styled.scan("parquet", f"{uri}/{name}.parquet", glob=False).equals(few)
    assert styled.scan("parquet", f"{uri}/").height == len(EASY_NAMES)
    folder = uri.removeprefix(f"s3://{there.repo}/") + "/"
    stored = there.boto().list_objects_v2(Bucket=there.repo, Prefix=folder)["Contents"]
    listed = [each["Key"].removeprefix(folder) for each in stored]
    assert listed == sorted((f"{name}.parquet" for name in EASY_NAMES), key=str.encode)


@pytest.mark.parametrize("name", ["x//y", "./x", "tab\t", "cr\r", "nl\n"])
def test_polars_refuses_names_that_are_no_paths(tables: Tables, uri: str, name: str) -> None:
    """The client refuses them itself."""
    with fails("ComputeError", r"empty path segment|illegal"):
        tables.write("parquet", FRAME, f"{uri}/{name}")


def test_polars_reads_empty_objects(there: Lake, tables: Tables, uri: str) -> None:
    name = uri.removeprefix(f"s3://{there.repo}/")
    there.boto().put_object(Bucket=there.repo, Key=name)
    assert tables.read("csv", uri, raise_if_empty=False).is_empty()
    tables.write("csv", polars.DataFrame(), uri + "2")
    assert there.boto().head_object(Bucket=there.repo, Key=name + "2")["ContentLength"] <= 1


@pytest.mark.parametrize("size", AROUND)
def test_polars_writes_in_parts(there: Lake, in_parts: Tables, uri: str, size: int) -> None:
    """As CSV of one column without a header: each row has 1 KiB, but for the last."""
    texts = [*["a" * 1023] * (5 * 1024 - 1), "b" * (1023 + size - 5 * MIB)]
    in_parts.write("csv", polars.DataFrame({"x": texts}), uri, include_header=False)
    name = uri.removeprefix(f"s3://{there.repo}/")
    head = there.boto().head_object(Bucket=there.repo, Key=name)
    assert (head["ContentLength"], "-" in head["ETag"]) == (size, size >= 5 * MIB)
    assert column(in_parts.read("csv", uri, has_header=False)) == texts


def test_polars_lists_more_than_one_page(there: Lake, styled: Tables) -> None:
    found = styled.scan("csv", f"s3://{there.repo}/main/many/*0[03]", has_header=False)
    expected = [path for path in MANY if path.endswith(("00", "03"))]
    assert "many/1003" in expected
    assert column(found) == expected


def test_polars_writes_over_https(there: Lake, process: Elsewhere, uri: str) -> None:
    more = {"aws_endpoint_url": there.tls.url, "allow_invalid_certificates": "true"}
    secured = Tables(process, there.storage_options(**more))
    secured.write("parquet", FRAME, uri)
    assert secured.read("parquet", uri).equals(FRAME)


def test_polars_reads_commits(there: Lake, styled: Tables) -> None:
    for ref, body in (("v1", "before"), (there.commit, "before"), ("main", "after")):
        found = styled.read("csv", f"s3://{there.repo}/{ref}/kept/a", has_header=False)
        assert column(found) == [body]
    with fails("FileNotFoundError"):
        styled.read("parquet", f"s3://{there.repo}/main/none")
    with fails("OSError", "405"):
        styled.write("parquet", FRAME, f"s3://{there.repo}/v1/kept/a")


def test_polars_is_told_what_is_denied(there: Lake, process: Elsewhere, tables: Tables) -> None:
    with fails("PermissionError", "ErrWriteToProtectedBranch"):
        tables.write("parquet", FRAME, f"s3://{there.repo}/protected/a")
    there.may_read("kept")
    few = Tables(process, there.storage_options(key=there.somebodys_key))
    read = few.read("csv", f"s3://{there.repo}/main/kept/a", has_header=False)
    assert column(read) == ["after"]
    with fails("PermissionError", "AccessDenied"):
        few.write("parquet", FRAME, f"s3://{there.repo}/main/kept/b")
    with fails("PermissionError", "403 Forbidden"):  # of a HEAD, which has no code
        few.read("csv", f"s3://{there.repo}/main/many/0001")
