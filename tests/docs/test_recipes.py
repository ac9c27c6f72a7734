"""The pages of orchestrators run, with stand-ins that call what they are given as the packages do.

The packages themselves are too large for the environment of the tests.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import graveler
from graveler import Branch
from tests.cli.service import KEY, SECRET, at_hand
from tests.docs import examples

Named = Callable[..., ModuleType]


@pytest.fixture
def main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Branch]:
    """The branch that the pages change; `connect()` finds its server in the variables."""
    with at_hand(tmp_path / "store") as live:
        for name in ("HOME", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(name, str(tmp_path))
        monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", live.client.url)
        monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.chdir(tmp_path)
        yield graveler.connect().create_repository("shop").branch("main")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Named:
    """A module with these names, under this name."""

    def made(name: str, **names: Any) -> ModuleType:
        parent, _, _ = name.partition(".")
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return made


def decorator(function: Any = None, **_: Any) -> Any:
    """A decorator with or without arguments that keeps the function."""
    return function if callable(function) else decorator


def test_airflow(main: Branch, stand_in: Named, capsys: pytest.CaptureFixture[str]) -> None:
    """A task is called with what its context has under the names of its parameters."""

    def task(function: Any) -> Any:
        context = {"ds": "2026-01-02", "run_id": "manual__2026-01-02T00:00:00+00:00"}
        wanted = function.__code__.co_varnames[: function.__code__.co_argcount]
        return lambda *args: function(
            *args, **{key: value for key, value in context.items() if key in wanted}
        )

    stand_in("airflow.sdk", dag=decorator, task=task)
    examples.run("docs/how-to/airflow.md", {})
    assert "1 orders" in capsys.readouterr().out
    landed = main.pin()
    assert (landed.message, landed.metadata["run"][:8]) == (
        "Load the orders of 2026-01-02",
        "manual__",
    )
    examples.run("docs/how-to/airflow.md", {})  # the same again: nothing new
    assert main.pin() == landed


def test_prefect(main: Branch, stand_in: Named, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in("prefect", flow=decorator, task=decorator)
    examples.run("docs/how-to/prefect.md", {})
    assert "2 orders" in capsys.readouterr().out
    assert main.pin().message == "Load 2 days"


def test_dagster(main: Branch, stand_in: Named, capsys: pytest.CaptureFixture[str]) -> None:
    """Assets are made in their order, each with the resources of its parameters."""
    reported: list[Any] = []

    def materialize(assets: Any, resources: dict[str, Any]) -> Any:
        reported.extend(each(**resources) for each in assets)
        return SimpleNamespace(success=True)

    stand_in(
        "dagster",
        ConfigurableResource=object,
        MaterializeResult=SimpleNamespace,
        asset=decorator,
        materialize=materialize,
    )
    examples.run("docs/how-to/dagster.md", {})
    assert "succeeded: True" in capsys.readouterr().out
    made, counted = (each.metadata for each in reported)
    assert made["commit"] == counted["commit"] == main.pin().id and counted["rows"] == 2


@pytest.mark.parametrize("passes", [True, False])
def test_dbt(
    main: Branch, stand_in: Named, capsys: pytest.CaptureFixture[str], passes: bool
) -> None:
    """`build` has written a table, or a test of dbt has failed."""
    import pyarrow
    import pyarrow.parquet

    main.write_text("raw/a.csv", "id,amount\n1,10\n")
    source = main.commit("raw")

    class dbtRunner:
        def invoke(self, arguments: list[str]) -> Any:
            assert arguments[0] == "build" and Path("build/raw/a.csv").exists()
            table = pyarrow.table({"amount": [10]})
            pyarrow.parquet.write_table(table, "build/marts/totals.parquet")
            return SimpleNamespace(success=passes)

    stand_in("dbt.cli.main", dbtRunner=dbtRunner)
    if passes:
        examples.run("docs/how-to/dbt.md", {})
        assert "[{'amount': 10}]" in capsys.readouterr().out
        assert main.pin().metadata["source"] == source.id
    else:
        with pytest.raises(RuntimeError, match="dbt build failed") as failed:
            examples.run("docs/how-to/dbt.md", {})
        assert "kept on the branch shop/main-change-" in failed.value.__notes__[0]
        assert main.pin() == source
