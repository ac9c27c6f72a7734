"""The script of the page about platforms lands a day, skips it, and refuses a bad one."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

import graveler.spark
from graveler.lake.change import CheckFailed
from graveler.spark import Credentials, Lake, connect, job
from tests.docs import examples
from tests.spark.programs import ROOT
from tests.spark.verbs.test_land import repository

__all__ = ["repository"]  # a fixture
PLATFORMS = "docs/how-to/spark-platforms.md"


@pytest.mark.parametrize("case", ["a day of orders", "a null", "no rows"])
def test_the_daily_load_on_glue(
    lake: Lake,
    repository: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: str,
) -> None:
    """With the rights that the page gives the job's user, and stand-ins for what Glue brings."""
    text = (ROOT / PLATFORMS).read_text(encoding="utf-8")
    user, policy = f"{repository}-load", f"{repository}-bulk"
    (rights,) = re.findall(r"echo '(.*)' \|", text)
    admin = lake.admin
    admin.create_user(user)
    admin.add_member("Developers", user)
    admin.create_policy(policy, json.loads(rights))
    admin.attach(policy, user=user)
    key = admin.create_key(user)

    def connected(spark: SparkSession, _: str, keys: Credentials) -> Lake:
        return connect(spark, lake.session.url, keys, store=lake.store)

    def options(words: list[str], names: list[str]) -> dict[str, str]:
        return {name: words[words.index(f"--{name}") + 1] for name in names}

    glue = ModuleType("awsglue.utils")
    glue.getResolvedOptions = options  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "awsglue", ModuleType("awsglue"))
    monkeypatch.setitem(sys.modules, "awsglue.utils", glue)
    monkeypatch.setattr(graveler.spark, "connect", connected)
    monkeypatch.setattr(job, "credentials", lambda _: Credentials(key.id, key.secret))
    (code,) = examples.blocks(PLATFORMS)
    for there, here in (("s3://my-landing", str(tmp_path)), ('"sales"', repr(repository))):
        assert there in code
        code = code.replace(there, here)

    def load(day: str, run: str = "1") -> str:
        monkeypatch.setattr(sys, "argv", ["load_orders.py", "--day", day, "--run", run])
        exec(compile(code, PLATFORMS, "exec"), {})
        return capsys.readouterr().out

    landing = lake.spark.sql(
        "SELECT * FROM VALUES (1, '2026-11-05'), (2, '2026-11-05'), (3, '2026-11-06'), "
        "(null, '2026-11-07') AS t(id, day)"
    )
    landing.write.parquet(str(tmp_path / "orders"))
    main = lake.repository(repository).branch("main")
    assert load("2026-11-05").startswith("landed: load-2026-11-05-1 as ")
    first = main.pin()
    if case == "a day of orders":
        assert load("2026-11-06").startswith("landed")
        assert f"landed before, as {first.id}" in load("2026-11-05")
        assert load("2026-11-05", "2").startswith("landed: load-2026-11-05-2")
        assert main.table("orders").count() == 3
        main.undo(main.pin())
        assert load("2026-11-05", "2").startswith("landed: load-2026-11-05-2")
        return
    day = "2026-11-07" if case == "a null" else "2026-11-08"
    with pytest.raises(CheckFailed) as told:
        load(day)
    assert told.value.branch == f"main-change-load-{day}-1" and main.pin() == first
