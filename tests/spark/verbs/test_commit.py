"""Commits of uncommitted rows by Spark are those that the server makes of the same rows."""

import json
import random
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from pyspark.sql import DataFrame, SparkSession

from graveler.committed.apply import apply
from graveler.committed.reader import ranges
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Conflict, Invalid, Unavailable
from graveler.core.ids import MetarangeId
from graveler.core.records import TOMBSTONE, Change, RangeRef, StagedValue
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE
from graveler.core.wire import encode_entry
from graveler.kv.dynamodb import DynamoStore
from graveler.lake import bulk
from graveler.lake.session import below
from graveler.spark import Lake, commits, connect
from graveler.spark.commits import commit, overlaid
from graveler.spark.job import parser, run
from graveler.spark.places import Place, opened
from graveler.spark.range_writer import bounds_of, merged
from graveler.staging import area
from tests.api.serving import ADMINISTRATOR, served
from tests.aws.engines import ministack
from tests.aws.tables import new_table
from tests.spark.conftest import SHARE
from tests.spark.lakes import Row, entry, joined, named, sequential, some_rows

pytestmark = pytest.mark.usefixtures("small_batches")


def base_of(place: Place, rows: Sequence[Row]) -> MetarangeId:
    return sequential(place, rows, Path(place.storage.removeprefix("local:")))[0]


def some_changes(chance: random.Random, rows: Sequence[Row], old: int) -> dict[bytes, StagedValue]:
    """New paths, other content, deletions, and rows that only say again what is there."""
    found: dict[bytes, StagedValue] = {}
    for at in chance.sample(range(len(rows)), chance.choice((1, 20, 120))):
        row, key = rows[at], rows[at][0].encode()
        kind = chance.choice("odas" if at < old else "aad")
        if kind == "d":
            found[key] = TOMBSTONE
        elif kind == "s":  # the same content at another address
            found[key] = encode_entry(entry(row)._replace(address=row[1] + "-again"))
        else:
            found[key] = encode_entry(entry(row)._replace(size=row[2] + 1, checksum="other"))
    return found


@pytest.mark.parametrize("seed", range(0, 80, SHARE))
def test_any_cuts_give_what_one_apply_gives(place: Place, seed: int) -> None:
    """Deletions of whole buckets, of single records, and cuts inside ranges of the base."""
    print(f"{seed=}")
    chance = random.Random(seed)
    breaks = replace(
        place.breaks,
        min_size=chance.choice((0, 0, 1_500)),
        max_size=chance.choice((3_000, 1 << 20)),
        raggedness=chance.choice((3, 10, 1_000)),
    )
    place = replace(place, breaks=breaks)
    space, rows = opened(place).space, some_rows(seed, 180)
    old = chance.choice((0, 40, 150))
    base = base_of(place, rows[:old])
    changes = some_changes(chance, rows, old)
    if seed % 3 == 0:  # a stretch goes as a whole
        ordered = sorted(row[0].encode() for row in rows)
        changes |= dict.fromkeys(ordered[30:110], TOMBSTONE)
    cuts = sorted(chance.sample([row[0].encode() for row in rows], chance.choice((0, 1, 5, 30))))
    refs = space.metarange(base).ranges
    made: dict[int, Sequence[RangeRef]] = {}
    for bucket in range(len(cuts) + 1):
        after, upto = bounds = bounds_of(cuts, bucket, bucket)
        mine: list[Change] = [
            (key, changes[key])
            for key in sorted(changes)
            if after < key and (not upto or key <= upto)
        ]
        if mine:
            made[bucket] = merged(space, refs, bounds, mine, replace=False)
    expected = apply(space, base, sorted(changes.items())).metarange_id
    assert joined(place, cuts, made, refs) == tuple(ranges(space, expected))


def staged_frame(
    spark: SparkSession, tokens: Sequence[dict[bytes, StagedValue]], partitions: int = 3
) -> DataFrame:
    """Rows of tokens, newest first."""
    rows = [
        (key, None if value is TOMBSTONE else value, rank)
        for rank, token in enumerate(tokens)
        for key, value in token.items()
    ]
    return spark.createDataFrame(rows, commits.STAGED_ROWS).repartition(partitions)


def test_the_newest_token_decides(spark: SparkSession, place: Place) -> None:
    chance, rows = random.Random(5), some_rows(5, 1_800)
    space, base = opened(place).space, base_of(place, rows[:1_000])
    tokens: list[dict[bytes, StagedValue]] = []
    for _ in range(3):
        tokens.append({})
        for _ in range(6):
            tokens[-1] |= some_changes(chance, rows, 1_000)
    merged_rows = {**tokens[2], **tokens[1], **tokens[0]}
    expected = apply(space, base, sorted(merged_rows.items())).metarange_id
    found = overlaid(staged_frame(spark, tokens), place, base, tasks=6)
    assert found == (expected, sum(map(len, tokens))) and expected != base


@pytest.mark.one_version
def test_rows_without_effect_change_nothing(spark: SparkSession, place: Place) -> None:
    rows = some_rows(6, 300)
    base = base_of(place, rows[:200])
    same: dict[bytes, StagedValue] = {
        row[0].encode(): encode_entry(entry(row)._replace(address=row[1] + "-again"))
        for row in rows[:200]
    }
    same |= {row[0].encode(): TOMBSTONE for row in rows[200:]}
    assert overlaid(staged_frame(spark, [same]), place, base, tasks=3) == (base, 300)


# ---- from DynamoDB, by the role of the job -------------------------------------------------------


@pytest.mark.one_version
def test_executors_read_the_table(spark: SparkSession, surroundings: int) -> None:
    ids = SystemIds()
    with ministack(port=surroundings) as url:
        session = AwsSession(AwsSettings(endpoint_url=url))
        new_table(session, "lake")
        kv = DynamoStore(session, "lake")
        token = area.new_token(SystemClock(), ids, 3)
        values: dict[bytes, StagedValue] = {
            row[0].encode(): encode_entry(entry(row)) for row in some_rows(7, 90)
        }
        values |= dict.fromkeys(sorted(values)[:20], TOMBSTONE)
        for key, value in values.items():
            write = area.row_write(token, key, value, wid=ids.stamp(), version=ids.stamp())
            kv.set_many([write])
        shards = [commits.Shard(4, token, number) for number in range(3)]
        found = commits.from_table(spark, shards, commits.Table("lake", url)).collect()
    said = {bytes(row["path"]): row["value"] and bytes(row["value"]) for row in found}
    expected = {key: None if each is TOMBSTONE else each for key, each in values.items()}
    assert said == expected and {row["rank"] for row in found} == {4}


# ---- through a server ----------------------------------------------------------------------------


@pytest.fixture
def repository(lake: Lake, request: pytest.FixtureRequest) -> str:
    """A fresh repository for each test, with two commits."""
    name = f"r{zlib.crc32(request.node.nodeid.encode())}"
    body = {"name": name, "storage_namespace": f"local://lake/{name}", "default_branch": "main"}
    lake.session.call("POST", "/repositories", body)
    for number in range(12):
        stage(lake, name, f"a/{number:02}", number)
    lake.session.call(
        "POST", below("repositories", name, "branches", "main", "commits"), {"message": "first"}
    )
    return name


def stage(lake: Lake, repository: str, path: str, content: int) -> None:
    where = below("repositories", repository, "branches", "main", "objects")
    lake.session.call("POST", f"{where}?{urlencode({'path': path})}", {"content": content})


def unstage(lake: Lake, repository: str, paths: Sequence[str]) -> None:
    where = below("repositories", repository, "branches", "main", "objects", "delete")
    lake.session.call("POST", where, {"paths": list(paths)})


def listed(lake: Lake, repository: str, ref: str = "main") -> dict[str, Any]:
    query = "?amount=1000&presign=false"
    where = below("repositories", repository, "refs", ref, "objects", "ls") + query
    return {each["path"]: each["checksum"] for each in lake.session.call("GET", where)["results"]}


def log(lake: Lake, repository: str) -> list[Any]:
    where = below("repositories", repository, "refs", "main", "commits")
    found: list[Any] = lake.session.call("GET", where)["results"]
    return found


def test_what_is_staged_becomes_one_commit(lake: Lake, repository: str) -> None:
    for number in range(8, 40):
        stage(lake, repository, f"a/{number:02}", 100 + number)
    unstage(lake, repository, ["a/00", "a/01", "a/39"])
    expected = listed(lake, repository)
    made = commit(lake, f"{repository}/main", message="many", metadata={"by": "cluster"})
    first, *others = log(lake, repository)
    assert (first["id"], first["message"], first["metadata"]["by"]) == (
        made.commit,
        "many",
        "cluster",
    )
    assert len(others) == 2 and made.rows == 34
    assert listed(lake, repository, made.commit) == listed(lake, repository) == expected
    left = list(Path(lake.store, "objects", "lake", repository).rglob("_graveler/jobs/*/*"))
    assert left == []
    with pytest.raises(Invalid, match="no changes"):
        commit(lake, f"{repository}/main")


@pytest.mark.one_version
def test_writers_go_on_meanwhile(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(lake, repository, "b", 1)
    spooled = commits.spooled

    def late(*arguments: Any) -> list[str]:
        stage(lake, repository, "b", 2)
        stage(lake, repository, "c", 3)
        return spooled(*arguments)

    monkeypatch.setattr(commits, "spooled", late)
    made = commit(lake, f"{repository}/main", job="once")
    monkeypatch.undo()
    assert set(listed(lake, repository, made.commit)) == {*(f"a/{n:02}" for n in range(12)), "b"}
    assert {"b", "c"} <= set(listed(lake, repository))
    assert commit(lake, f"{repository}/main", job="once").commit == made.commit
    assert commit(lake, f"{repository}/main").rows == 2


@pytest.mark.one_version
def test_a_commit_with_a_name_is_run_again_after_a_failure(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms, target = named("again"), f"{repository}/main"
    stage(lake, repository, "b", 1)

    def broken(*_: object) -> list[str]:
        raise Unavailable("a disk is full")

    with monkeypatch.context() as patched, pytest.raises(Unavailable):
        patched.setattr(commits, "spooled", broken)
        commit(lake, target, **terms)
    stage(lake, repository, "late", 2)
    made = commit(lake, target, **terms)
    assert "b" in listed(lake, repository, made.commit)
    assert "late" not in listed(lake, repository, made.commit)
    count = len(log(lake, repository))

    # The driver of that run died while it landed, and what it landed is not noted.
    def landing(*words: Any, **options: Any) -> Any:
        return replace(begin(*words, **options), state="landing", commit="")

    begin = bulk.begin
    monkeypatch.setattr(bulk, "begin", landing)
    again = commit(lake, target, **terms)
    assert (again.commit, again.rows) == (made.commit, made.rows)
    assert len(log(lake, repository)) == count


@pytest.mark.one_version
def test_a_reset_meanwhile_is_a_conflict(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(lake, repository, "b", 1)
    spooled = commits.spooled

    def late(*arguments: Any) -> list[str]:
        found = spooled(*arguments)
        where = below("repositories", repository, "branches", "main")
        lake.session.call("PUT", where, {"type": "reset"})
        return found

    monkeypatch.setattr(commits, "spooled", late)
    with pytest.raises(Conflict, match="reset during the commit"):
        commit(lake, f"{repository}/main")
    assert len(log(lake, repository)) == 2 and "b" not in listed(lake, repository)


@pytest.mark.one_version
def test_a_commit_that_was_handed_over_is_made_by_its_name(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, where = tmp_path / "store", below("repositories", "many", "branches", "main", "commits")
    credentials = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
    with served(folder, commit_rows_max=5) as server:
        lake = connect(spark, server.client.url, credentials, store=folder)
        body = {"name": "many", "storage_namespace": "local://lake/many"}
        lake.session.call("POST", "/repositories", body)
        for number in range(6):
            stage(lake, "many", f"a/{number:02}", number)
        asked = {"message": "asked", "metadata": {"by": "me"}}
        with pytest.raises(Unavailable, match="handed over") as caught:
            lake.session.call("POST", where, asked)
        found = re.search(r'commit\(lake, "(\S+)", job="(\S+)"\)', str(caught.value))
        assert found
        stage(lake, "many", "later", 1)
        monkeypatch.setenv(KEY_VARIABLE, credentials[0])
        monkeypatch.setenv(SECRET_VARIABLE, credentials[1])
        words = ["--url", server.client.url, "--store", str(folder), "--branch", found[1]]
        assert run(parser().parse_args(["commit", *words, "--job-id", found[2]]), spark) == 0
        made = json.loads(capsys.readouterr().out.splitlines()[-1])
        first = log(lake, "many")[0]
        assert (first["id"], first["message"], first["metadata"]["by"]) == (
            made["commit"],
            "asked",
            "me",
        )
        assert made["rows"] == 6 and "later" not in listed(lake, "many", made["commit"])
        assert lake.session.call("POST", where, asked)["parents"] == [made["commit"]]
        lake.close()


@pytest.mark.one_version
def test_a_commit_is_of_a_whole_branch(lake: Lake, repository: str) -> None:
    with pytest.raises(Invalid, match="whole branch"):
        commit(lake, f"{repository}/main/a")
