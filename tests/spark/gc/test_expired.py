"""Collections on Spark condemn what retention lets go, then delete what the server's own would."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import graveler
from graveler.assembly.embedded import open_embedded
from graveler.core.errors import Gone
from graveler.engine.gc import collect as own
from graveler.engine.gc import retention
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.refs import commits, garbage
from graveler.refs.garbage import Retention
from graveler.spark import collect, connect
from graveler.spark.places import opened
from tests.engine.lake import Lake
from tests.spark.gc.test_collect import (
    ALL,
    DAY_NS,
    LaterClock,
    World,
    days_on,
    some_history,
    upload,
)
from tests.spark.lakes import KEYS

NAMES = ("repo-0", "repo-1", "repo-2")


def grown(store: Path) -> World:
    """Repositories with histories of ten days ago, and a commit on top that is new; of these days
    three are kept."""
    embedded = open_embedded(store)
    before = replace(embedded.ports, clock=LaterClock(-10))
    for seed, name in enumerate(NAMES):
        some_history(before, name, 50 + seed)
        lake = Lake(embedded.ports, repository.get(embedded.ports, name))
        upload(lake, "first")
        lake.commit("now")
        retention.set_rule(lake.opened, Retention(default_days=3))
    embedded.close()
    world = World(store, {name: set() for name in NAMES})
    world.age()
    return world


def collected(store: Path) -> dict[str, set[str]]:
    """What two runs of the server's own collection leave."""
    embedded = open_embedded(store)
    for days in (0.0, 1.1):
        ports = replace(embedded.ports, clock=LaterClock(days))
        for name in NAMES:
            own.collect(open_repository(ports, repository.get(ports, name)), delete=True)
    embedded.close()
    return World(store, {name: set() for name in NAMES}).stored()


def a_day_passes(store: Path) -> set[str]:
    """For marks, which the server compares with its clock; the commits and
    metaranges that have one."""
    embedded = open_embedded(store)
    ports, marked = embedded.ports, set()
    for name in NAMES:
        repo = repository.get(ports, name)
        for id, mark in list(garbage.list_marks(ports.kv, repo)):
            older = mark._replace(since_ns=mark.since_ns - 2 * DAY_NS)
            garbage.put_mark(ports.kv, repo, [id], older, ports.ids)
            marked.add(f"{name}/{id}")
    embedded.close()
    return marked


def of_commits(store: Path) -> set[str]:
    """The metaranges that commits have."""
    embedded = open_embedded(store)
    named = {
        f"{name}/{each.commit.metarange}"
        for name in NAMES
        for each in commits.list_all(embedded.ports.kv, repository.get(embedded.ports, name))
    }
    embedded.close()
    return named


def is_there(stored: dict[str, set[str]], marked: str) -> bool:
    name, _, id = marked.partition("/")
    return f"_lakefs/{id}" in stored[name]


def test_what_retention_lets_go_is_condemned_and_then_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = grown(tmp_path / "lake")
    shutil.copytree(world.store, tmp_path / "copy")
    before = world.stored()
    with connect(spark, world.store, KEYS) as lake:
        found = collect(lake, NAMES, ALL, dry_run=False)
        assert found.condemned.files > 0 and world.stored() == before
        graveler.Lake(lake.session).repository(NAMES[2]).undo_collection(found.run)
    marked = a_day_passes(world.store)
    assert {each.partition("/")[0] for each in marked} == set(NAMES[:2])
    metaranges = {each for each in marked if is_there(before, each)}
    old, orphans = metaranges & of_commits(world.store), metaranges - of_commits(world.store)
    assert old and orphans and marked - metaranges
    expected = collected(tmp_path / "copy") | {NAMES[2]: before[NAMES[2]]}
    with connect(spark, world.store, KEYS) as lake:
        swept = collect(days_on(lake, 1.1), NAMES, ALL, dry_run=False)
        assert world.stored() == expected
        assert all(is_there(expected, each) for each in old)  # refs lead to them
        assert not any(is_there(expected, each) for each in orphans)
        gone = {f"{name}/{each}" for name in NAMES for each in before[name] - expected[name]}
        assert swept.deleted.files == len(gone)
        name, _, commit = min(marked - metaranges).partition("/")
        with pytest.raises(Gone):
            body = {"name": "late", "source": commit}
            lake.session.call("POST", f"/repositories/{name}/branches", body)
    opened.cache_clear()
