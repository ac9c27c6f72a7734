"""Imports land on a branch as one commit, or not at all; through a real server and real Spark."""

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from graveler.core import limits
from graveler.core.errors import Conflict, Invalid, NotFound, Unavailable
from graveler.lake import bulk
from graveler.lake.session import Session, below
from graveler.spark import BadRows, Lake, commit, connect, import_
from tests.spark.lakes import KEYS, Row, frame, named, some_rows, write


@pytest.fixture(autouse=True)
def repository(lake: Lake, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh repository for each test.  With its random salt and the default raggedness, one in
    forty imports of a few hundred rows would have a second range."""
    name = f"r{zlib.crc32(request.node.nodeid.encode())}"
    body = {"name": name, "storage_namespace": f"local://lake/{name}", "default_branch": "main"}
    lake.session.call("POST", "/repositories", body)
    before = bulk.read_breaks(lake.session, name)
    whole = replace(before, raggedness=limits.range_raggedness_max)
    bulk.swap_breaks(lake.session, name, before, whole)
    yield name
    lake.session.call("DELETE", below("repositories", name))


def listed(session: Session, repository: str) -> dict[str, Any]:
    """Every object of the branch, page by page."""
    found: dict[str, Any] = {}
    after, more = "", True
    while more:
        query = f"?amount=1000&after={after}&user_metadata=true&presign=false"
        where = below("repositories", repository, "refs", "main", "objects", "ls") + query
        page = session.call("GET", where)
        found |= {each["path"]: each for each in page["results"]}
        more, after = page["pagination"]["has_more"], page["pagination"]["next_offset"]
    return found


def log(session: Session, repository: str) -> list[Any]:
    where = below("repositories", repository, "refs", "main", "commits")
    found: list[Any] = session.call("GET", where)["results"]
    return found


def ascii_rows(seed: int, count: int) -> list[Row]:
    return [(row[0].encode("ascii", "ignore").decode(), *row[1:]) for row in some_rows(seed, count)]


def test_a_first_import_sets_how_long_ranges_are(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = bulk.read_breaks(lake.session, repository)
    short = replace(seen, raggedness=10)
    bulk.swap_breaks(lake.session, repository, seen, short)
    monkeypatch.setattr(limits, "range_raggedness_default", short.raggedness)
    for count in (100, 300):
        import_(lake, frame(lake.spark, ascii_rows(1, count)), f"{repository}/main/in")
        assert bulk.read_breaks(lake.session, repository) == replace(short, raggedness=40)
    assert len(listed(lake.session, repository)) == 300


def test_rows_become_one_commit(lake: Lake, repository: str) -> None:
    rows = ascii_rows(1, 300)
    terms: Any = {"message": "as it was", "metadata": {"source": "inventory"}}
    landed = import_(lake, frame(lake.spark, rows), f"{repository}/main/in/a", **terms)
    first, *others = log(lake.session, repository)
    assert (first["id"], first["message"]) == (landed.commit, "as it was")
    assert first["metadata"]["source"] == "inventory" and len(others) == 1
    assert (landed.rows, landed.report.is_clean) == (300, True)
    found = listed(lake.session, repository)
    assert set(found) == {f"in/a/{row[0]}" for row in rows}
    for path, address, size, checksum, mtime, metadata, content_type in rows[:20]:
        entry = found[f"in/a/{path}"]
        assert entry["physical_address"] == address
        assert (entry["size_bytes"], entry["checksum"]) == (size, checksum)
        assert entry["mtime"] == mtime // 1_000_000
        assert (entry.get("metadata") or {}) == (metadata or {})
        assert not content_type or entry["content_type"] == content_type


@pytest.mark.one_version
def test_replace_takes_the_place_of_the_prefix_and_merge_adds(lake: Lake, repository: str) -> None:
    rows = ascii_rows(2, 60)
    spark = lake.spark
    import_(lake, frame(spark, rows[:20]), f"{repository}/main/in")
    import_(lake, frame(spark, rows[20:40]), f"{repository}/main/inside/")
    import_(lake, frame(spark, rows[30:50]), f"{repository}/main/in/", "replace")
    expected = {f"in/{row[0]}" for row in rows[30:50]} | {f"inside/{row[0]}" for row in rows[20:40]}
    assert set(listed(lake.session, repository)) == expected
    import_(lake, frame(spark, rows[45:]), f"lakefs://{repository}/main/in", "merge")
    expected |= {f"in/{row[0]}" for row in rows[45:]}
    assert set(listed(lake.session, repository)) == expected
    assert len(log(lake.session, repository)) == 5


@pytest.mark.one_version
def test_what_others_commit_meanwhile_stays(lake: Lake, repository: str) -> None:
    """The first pass over the rows is late: another import lands between begin and finish."""
    rows = ascii_rows(3, 40)
    mine, other = frame(lake.spark, rows[:20]), frame(lake.spark, rows[20:])
    calls: list[int] = []

    class Meanwhile:
        """A DataFrame that somebody is slow to hand over."""

        @property
        def schema(self) -> Any:
            calls.append(1)
            if len(calls) == 1:
                import_(lake, other, f"{repository}/main", "merge")
            return mine.schema

        def __getattr__(self, name: str) -> Any:
            return getattr(mine, name)

    import_(lake, Meanwhile(), f"{repository}/main", "merge")  # type: ignore[arg-type]
    assert set(listed(lake.session, repository)) == {row[0] for row in rows}
    assert len(log(lake.session, repository)) == 3


def test_bad_rows_land_nothing_unless_they_are_skipped(lake: Lake, repository: str) -> None:
    good = ascii_rows(4, 30)
    rows = [*good, ("", *good[0][1:]), good[1]]
    inside = ("x", f"local://lake/{repository}/data/a/b", *good[0][2:])
    with pytest.raises(BadRows) as caught:
        import_(lake, frame(lake.spark, [*rows, inside]), f"{repository}/main")
    assert caught.value.report.count == 3
    assert len(log(lake.session, repository)) == 1
    target = f"{repository}/main"
    landed = import_(lake, frame(lake.spark, [*rows, inside]), target, on_bad="skip")
    assert landed.rows == 30 and landed.report.duplicates == 1
    assert set(listed(lake.session, repository)) == {row[0] for row in good}


@pytest.mark.one_version
def test_a_failed_import_is_cancelled(lake: Lake, repository: str) -> None:
    df = frame(lake.spark, ascii_rows(5, 3)).drop("size")
    with pytest.raises(Invalid, match="missing=size"):
        import_(lake, df, f"{repository}/main")
    assert len(log(lake.session, repository)) == 1


@pytest.mark.one_version
def test_a_job_with_a_name_lands_once(lake: Lake, repository: str) -> None:
    """The first driver dies before the landing, the second goes on, the third is answered."""
    rows, terms = ascii_rows(8, 50), named("nightly")
    with pytest.raises(BadRows):
        import_(lake, frame(lake.spark, [*rows, rows[0]]), f"{repository}/main", **terms)
    landed = import_(lake, frame(lake.spark, rows), f"{repository}/main", **terms)
    again = import_(lake, frame(lake.spark, rows), f"{repository}/main", **terms)
    assert (again.commit, again.rows) == (landed.commit, 50)
    assert len(log(lake.session, repository)) == 2


@pytest.mark.one_version
def test_a_name_that_is_used_again_for_another_target_is_refused(
    lake: Lake, repository: str
) -> None:
    """Also if the job has landed, and its record has no prefix."""
    df, terms, main = frame(lake.spark, ascii_rows(8, 5)), named("nightly"), "main"
    landed = import_(lake, df, f"{repository}/{main}/orders", "merge", **terms)
    for target, mode in (("users", "merge"), ("orders", "replace")):
        with pytest.raises(Conflict, match=rf"asked: .*{target}.*begun: .*orders"):
            import_(lake, df, f"{repository}/{main}/{target}", mode, **terms)
    with pytest.raises(Conflict, match=r"asked: .*write table, append.*begun: .*import below"):
        write(lake, lake.spark.range(2), f"{repository}/{main}/orders", "append", **terms)
    branch = {"name": "dev", "source": main}
    lake.session.call("POST", below("repositories", repository, "branches"), branch)
    with pytest.raises(Conflict, match=r"asked: branch=dev begun: branch=main"):
        commit(lake, f"{repository}/dev", **terms)
    again = import_(lake, df, f"{repository}/{main}/orders", "merge", **terms)
    assert again.commit == landed.commit and len(log(lake.session, repository)) == 2


@pytest.mark.one_version
def test_uncommitted_changes_are_a_conflict(lake: Lake, repository: str) -> None:
    session = lake.session
    rows = ascii_rows(6, 5)
    import_(lake, frame(lake.spark, rows), f"{repository}/main")
    where = below("repositories", repository, "branches", "main", "objects")
    session.call("DELETE", f"{where}?path={rows[0][0].replace('/', '%2F').replace('=', '%3D')}")
    with pytest.raises(Conflict, match="uncommitted"):
        import_(lake, frame(lake.spark, rows), f"{repository}/main")


@pytest.mark.parametrize("target", ["", "lake", "lake/", "/main", "UP/main", "lake/a b"])
@pytest.mark.one_version
def test_a_target_names_repository_and_branch(lake: Lake, target: str) -> None:
    with pytest.raises(Invalid, match=r"name invalid|ref invalid"):
        import_(lake, frame(lake.spark, []), target)


@pytest.mark.one_version
def test_what_is_not_there_is_said(lake: Lake, repository: str) -> None:
    with pytest.raises(NotFound):
        import_(lake, frame(lake.spark, []), f"{repository}/other")
    with pytest.raises(Invalid, match="mode must be"):
        import_(lake, frame(lake.spark, []), f"{repository}/main", "append")  # type: ignore[arg-type]


@pytest.mark.one_version
def test_a_server_of_a_folder_needs_the_folder(lake: Lake, repository: str) -> None:
    url = lake.session.url
    with connect(lake.spark, url, KEYS) as bare, pytest.raises(Invalid, match="serve --store"):
        import_(bare, frame(lake.spark, []), f"{repository}/main")
    with connect(lake.spark, url, KEYS, store=lake.store) as told:
        assert import_(told, frame(lake.spark, ascii_rows(7, 4)), f"{repository}/main").rows == 4


@pytest.mark.one_version
def test_a_store_that_is_served_already_is_refused(lake: Lake) -> None:
    with pytest.raises(Unavailable, match="could not be served"):
        connect(lake.spark, lake.store, KEYS)


def test_a_url_of_another_kind_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="not the URL of a server"):
        connect(spark, "s3://bucket/lake", KEYS)
