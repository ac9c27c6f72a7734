"""Jobs are told what to do by words that are checked, and say what they did.

That `spark-submit` runs the file of `infra/` is shown where a driver is killed (`test_dying.py`).
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from graveler.assembly.embedded import open_embedded
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.errors import Invalid
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE
from graveler.lake.session import below
from graveler.spark import Lake
from graveler.spark.imports import delivered, inventory
from graveler.spark.job import parser, run
from infra.spark_job import words
from tests.aws.engines import ministack
from tests.spark.lakes import KEYS, frame
from tests.spark.verbs.test_land import ascii_rows, repository

__all__ = ["repository"]  # a fixture


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEYS[0])
    monkeypatch.setenv(SECRET_VARIABLE, KEYS[1])


def at(lake: Lake, *more: str) -> list[str]:
    """Words that lead to the lake."""
    return ["--url", lake.session.url, "--store", lake.store, *more]


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_rows_of_any_columns_are_imported(
    lake: Lake, repository: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ascii_rows(140, 40)
    source = str(tmp_path / "rows")
    other = frame(lake.spark, [*rows, rows[0]]).withColumnRenamed("path", "key")
    other.write.parquet(source)
    job = ["import", *at(lake), "--target", f"{repository}/main/in", "--source", source]
    assert run(parser().parse_args(job), lake.spark) == 1
    assert "lack columns: missing=path" in capsys.readouterr().err
    for name in ("address", "size", "checksum", "mtime"):
        job += ["--column", f"{name}={name}"]
    job += ["--column", "path=concat('a/', key)", "--on-bad", "skip"]
    job += ["--message", "by words", "--metadata", "by=job", "--metadata", "at=night=1"]
    assert run(parser().parse_args(job), lake.spark) == 0
    said = told(capsys)
    where = below("repositories", repository, "refs", "main", "commits")
    newest = lake.session.call("GET", where)["results"][0]
    assert said == {
        **{"job": "import", "commit": newest["id"], "count": 40},
        **{"bad": {}, "duplicates": 1},
    }
    assert newest["message"] == "by words"
    assert {"by": "job", "at": "night=1"}.items() <= newest["metadata"].items()
    assert run(parser().parse_args([*job, "--source", "nowhere"]), lake.spark) == 1
    assert "cannot be read with these options" in capsys.readouterr().err


@pytest.mark.one_version
def test_uncommitted_rows_are_committed(
    lake: Lake, repository: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        where = below("repositories", repository, "branches", "main", "objects")
        lake.session.call("POST", f"{where}?path=a/{number}", {"content": number})
    job = parser().parse_args(["commit", *at(lake), "--branch", f"{repository}/main"])
    assert run(job, lake.spark) == 0
    assert told(capsys)["rows"] == 3
    assert run(job, lake.spark) == 1
    assert "no changes" in capsys.readouterr().err


@pytest.mark.one_version
def test_garbage_is_reported(
    lake: Lake, repository: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = str(tmp_path / "report")
    job = ["gc", *at(lake), "--repository", repository, "--report", report]
    assert run(parser().parse_args(job), lake.spark) == 0
    said = told(capsys)
    none = {"files": 0, "size_bytes": 0}
    assert (said["condemned"], said["deleted"], said["dry_run"]) == (none, none, True)
    assert lake.spark.read.parquet(report).columns == [
        *("repository", "name", "version", "size", "state")
    ]


@pytest.mark.one_version
def test_a_folder_is_served_while_the_job_runs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["gc", "--store", str(tmp_path / "store"), "--repository", "nowhere"]
    assert run(parser().parse_args(job), spark) == 1
    assert "repository not found: nowhere" in capsys.readouterr().err
    open_embedded(tmp_path / "store").close()  # nobody has it any more


# ---- credentials ---------------------------------------------------------------------------------


@pytest.mark.one_version
def test_credentials_come_from_a_secret(
    lake: Lake,
    repository: str,
    surroundings: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv(SECRET_VARIABLE)
    job = parser().parse_args(["gc", *at(lake), "--repository", repository, "--secret", "api"])
    with ministack(port=surroundings) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        assert run(job, lake.spark) == 1
        assert "read secret name='api'" in capsys.readouterr().err
        secrets = AwsSession(AwsSettings(endpoint_url=url)).client("secretsmanager")
        secrets.create_secret(Name="api", SecretString='{"access_key_id": "private-words"}')
        assert run(job, lake.spark) == 1
        said = capsys.readouterr().err
        assert "access_key_id and secret_access_key" in said and "private-words" not in said
        both = {"access_key_id": KEYS[0], "secret_access_key": KEYS[1]}
        secrets.put_secret_value(SecretId="api", SecretString=json.dumps(both))
        assert run(job, lake.spark) == 0
        secrets.close()
    job = parser().parse_args(["gc", *at(lake), "--repository", repository])
    assert run(job, lake.spark) == 1
    assert f"{KEY_VARIABLE} and {SECRET_VARIABLE}" in capsys.readouterr().err


# ---- words ---------------------------------------------------------------------------------------

IMPORT = ["import", "--url", "http://host", "--target", "lake/main", "--source", "s3://b/c"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "required: JOB"),
        (["pack-all"], "invalid choice: 'pack-all'"),
        (IMPORT[:-2], "required: --source"),
        ([*IMPORT, "--target", "lake"], "ref invalid"),
        ([*IMPORT, "--format", "xml"], "invalid choice: 'xml'"),
        ([*IMPORT, "--column", "path"], "NAME=VALUE: 'path'"),
        ([*IMPORT, "--mode", "append"], "invalid choice: 'append'"),
        ([*IMPORT, "--secret-access-key", "x"], "unrecognized arguments: --secret-access-key"),
        (["commit", "--url", "http://host"], "required: --branch"),
        (["gc", "--url", "http://host"], "required: --repository"),
        (["gc", "--repository", "a", "--share-max", "2"], "above 0 and at most 1: '2'"),
        (["gc", "--repository", "a", "--share-max", "half"], "above 0 and at most 1: 'half'"),
    ],
)
def test_wrong_words_are_refused_before_spark_starts(
    given: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(given)
    assert caught.value.code == 2 and says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--url", ""], "give --url, or --store"),
        (["--inventory", "--column", "path=key"], "leave out either"),
        (["--below", "in/"], "give --inventory too"),
        (["--inventory", "--format", "orc"], "leave out either --inventory or --format"),
        (["--inventory"], "a folder has the files of many"),
    ],
)
def test_words_that_do_not_agree_are_refused(
    lake: Lake, more: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = parser().parse_args([*IMPORT, "--url", lake.session.url, *more])
    assert run(job, lake.spark) == 1
    assert says in capsys.readouterr().err


def test_glue_gives_all_words_in_one() -> None:
    given = ["--JOB_ID", "j1", "--graveler", "import --message 'each night' --source s3://a/b"]
    expected = ["import", "--message", "each night", "--source", "s3://a/b"]
    assert words([*given, "--TempDir", "s3://t"]) == expected
    assert words(expected) == expected


@pytest.mark.one_version
def test_a_branch_is_packed(
    lake: Lake, repository: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["pack", *at(lake), "--branch", f"{repository}/main"]
    assert run(parser().parse_args(job), lake.spark) == 1
    assert "nothing to change" in capsys.readouterr().err
    job += ["--min-size", "5000", "--dry-run"]
    assert run(parser().parse_args(job), lake.spark) == 0
    said = told(capsys)
    assert said["job"] == "pack" and said["before"] == said["after"]
    assert (said["commit"], said["is_set"]) == ("", False) and said["expected_ranges"] >= 0


# ---- inventories ---------------------------------------------------------------------------------


def rows_of(df: Any) -> list[Any]:
    return sorted(tuple(row) for row in df.drop("mtime").collect())


def test_an_inventory_of_columns(spark: SparkSession) -> None:
    """The latest versions alone, below a prefix."""
    schema = (
        "bucket string, key string, version_id string, is_latest boolean, is_delete_marker boolean,"
        " size bigint, last_modified_date timestamp, e_tag string"
    )
    kinds = [("in/a b", True, False), ("in/a b", False, False), ("in/gone", True, True)]
    kinds.append(("other", True, False))
    rows = [("lake", key, "v", new, gone, 7, None, "tag") for key, new, gone in kinds]
    found = inventory(spark.createDataFrame(rows, schema), "in/")
    assert found.columns == ["path", "address", "size", "checksum", "mtime"]
    assert rows_of(found) == [("a b", "s3://lake/in/a b", 7, "tag")]


def test_an_inventory_in_csv(spark: SparkSession, tmp_path: Path) -> None:
    """Columns have no names there, keys are encoded, and what is no number is null."""
    file = tmp_path / "inventory.csv"
    file.write_text(
        '"lake","in/S%C3%A3o+Paulo/a%2Bb","7","2026-11-01T02:03:04.000Z","tag"\n'
        '"lake","in/marker","","2026-11-01T02:03:04.000Z","tag"\n'
    )
    names = "Bucket, Key, Size, LastModifiedDate, ETag"
    found = inventory(spark.read.csv(str(file)), file_schema=names)
    assert rows_of(found.where("size is not null")) == [
        ("in/São Paulo/a+b", "s3://lake/in/São Paulo/a+b", 7, "tag")
    ]
    assert found.where("size is null").count() == 1
    assert {str(row["mtime"]) for row in found.collect()} == {"2026-11-01 02:03:04"}


MANIFEST = {
    "sourceBucket": "lake",
    "destinationBucket": "arn:aws:s3:::inv",
    "version": "2016-11-30",
}


def deliver(folder: Path, at: int, kind: str, files: list[str], schema: str = "") -> str:
    """The manifest of a delivery below `folder`."""
    keys = [{"key": f"landing/lake/daily/data/{name}", "size": 1} for name in files]
    said = {**MANIFEST, "fileFormat": kind, "fileSchema": schema, "files": keys}
    where = folder / f"landing/lake/daily/2026-11-{at:02}T01-00Z/manifest.json"
    where.parent.mkdir(parents=True)
    where.write_text(json.dumps(said, indent=1))
    return str(where)


def test_a_delivery_is_read_by_its_manifest(
    lake: Lake, repository: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files of others lie in the same folder."""
    data = tmp_path / "landing/lake/daily/data"
    names = "Bucket, Key, Size, LastModifiedDate, ETag"
    line = '"lake","in/{0}","{0}","2026-11-01T02:03:04.000Z","tag"\n'
    data.mkdir(parents=True)
    for number in (1, 2, 3):
        (data / f"{number}.csv").write_text(line.format(number))
    old = deliver(tmp_path, 1, "CSV", ["1.csv"], names)
    new = deliver(tmp_path, 2, "CSV", ["2.csv", "3.csv"], names)
    expected = [(str(n), f"s3://lake/in/{n}", n, "tag") for n in (1, 2, 3)]
    assert rows_of(delivered(lake.spark, old, "in/")) == expected[:1]
    assert rows_of(delivered(lake.spark, new, "in/")) == expected[1:]
    with pytest.raises(Invalid, match="no key of the inventory begins with below='typo/'"):
        delivered(lake.spark, new, "typo/")
    kinds = "bucket string, key string, size bigint, last_modified_date timestamp, e_tag string"
    for day, kind in ((3, "parquet"), (4, "orc")):
        rows = [("lake", "in/1", 1, None, "tag")]
        df = lake.spark.createDataFrame(rows, kinds).coalesce(1)
        df.write.format(kind).save(str(tmp_path / kind))
        (file,) = (tmp_path / kind).glob(f"part-*.{kind}")
        file.rename(data / f"{day}.{kind}")
        there = deliver(tmp_path, day, kind.title(), [f"{day}.{kind}"], "message schema {}")
        assert rows_of(delivered(lake.spark, there, "in/")) == expected[:1]
    # As a job; objects of S3 are none of a store in a folder.
    job = ["import", *at(lake), "--target", f"{repository}/main/in", "--source", new]
    assert run(parser().parse_args([*job, "--inventory", "--on-bad", "skip"]), lake.spark) == 0
    said = told(capsys)
    assert (said["count"], sum(said["bad"].values())) == (0, 2)


def test_what_is_no_delivery_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="a folder has the files of many"):
        delivered(spark, str(tmp_path))
    with pytest.raises(Invalid, match="cannot be read"):
        delivered(spark, str(tmp_path / "manifest.json"))
    other = tmp_path / "a" / "manifest.json"
    other.parent.mkdir()
    for text in ("{", "[]", '{"files": [{"key": "x"}], "fileFormat": "CSV"}', '{"files": []}'):
        other.write_text(text)
        with pytest.raises(Invalid, match="not a manifest of an S3 Inventory"):
            delivered(spark, str(other))
    with pytest.raises(Invalid, match="no files"):
        delivered(spark, deliver(tmp_path, 1, "CSV", [], "Bucket"))
    with pytest.raises(Invalid, match="delivery cannot be read"):
        delivered(spark, deliver(tmp_path, 2, "ORC", ["gone.orc"]))


def test_another_table_is_no_inventory(spark: SparkSession) -> None:
    with pytest.raises(Invalid, match="missing=bucket,key,size"):
        inventory(spark.range(1))
    with pytest.raises(Invalid, match="fileSchema"):
        inventory(spark.range(1), file_schema="Bucket, Key, Size, LastModifiedDate, ETag")
