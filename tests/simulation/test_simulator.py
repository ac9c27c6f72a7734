"""The doors to how fast schedules run, and to the compiled simulator."""

import ast
import gc
import json
import multiprocessing
import shutil
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import graveler
from graveler.errors import Unavailable
from graveler.records import ABSENT
from simulator import machine_code
from simulator.families import FAMILIES, PROFILES
from simulator.gc.programs import PROFILES as COLLECT_PROFILES
from simulator.invariants import check_seed
from simulator.machine_code import modules
from simulator.rates import collections, measure, rarely_collected, report
from simulator.schedule import without_frames
from simulator.stage import build_stage
from tests import draws
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


def test_every_cell_is_measured() -> None:
    seconds = measure(build_stage(), seeds=1, rounds=1)
    assert seconds.keys() == {(family, profile) for family in FAMILIES for profile in PROFILES}
    *table, last = report(seconds).splitlines()
    assert len(table) == 1 + len(FAMILIES)
    said = json.loads(last)
    assert said["schedules_per_second_per_core"] > 0 < said["of_all_cells"]
    assert said["compiled"] is False
    page = (ROOT / "docs" / "explanation" / "reliability.md").read_text(encoding="utf-8")
    assert f"There are {len(seconds)} cells" in page


def test_seeds_of_collection_are_judged() -> None:
    total = collections(2)
    assert (total["runs"], total["wrong"]) == (2 * len(COLLECT_PROFILES), 0)
    assert total["deleted"] > 0


def test_the_collector_is_left_as_it_was() -> None:
    before = gc.get_threshold()
    with rarely_collected():
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()
    gc.freeze()  # what the collection of the tests had made was kept out before, too


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_leaves_nothing_to_the_collector(family: str) -> None:
    """A few hundred objects a run cost more than a tenth of its time once they are looked for."""
    stage = build_stage()
    gc.disable()
    try:
        run = weakref.ref(check_seed(stage, family, "clean", 1).run)
        assert run() is None
    finally:
        gc.enable()


def test_what_is_compiled_holds_all_flows() -> None:
    package = ROOT / "graveler"
    flows = {file for room in ("engine", "refs") for file in package.glob(f"{room}/**/*.py")}
    missing = flows - set(modules(ROOT))
    assert len(flows) > 50
    assert missing == {package / "refs/cache.py"}


def _imported(module: str) -> Iterator[tuple[str, str, str]]:
    """The names that a module imports: its own name for them, their module, their name there."""
    for node in ast.walk(ast.parse(_file(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                yield name.asname or name.name, str(node.module), name.name


def _file(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _that_schedules_import() -> set[str]:
    modules, ahead = set[str](), ["simulator.soak.schedules", "simulator.rates"]
    while ahead:
        module = ahead.pop()
        if module not in modules and _file(module).exists():
            modules.add(module)
            for _, source, name in _imported(module):
                ahead += [source, f"{source}.{name}"]
    return modules


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    """Python refuses such a class when it is made: compiled schedules would not run."""
    compiled = set(modules(ROOT))
    used = _that_schedules_import()
    assert {"simulator.uploads", "simulator.gc.run", "graveler.engine.commits.commit"} <= used
    for module in used:
        if _file(module) in compiled:
            continue
        foreign = {name: _file(source) for name, source, _ in _imported(module)}
        for node in ast.walk(ast.parse(_file(module).read_text(encoding="utf-8"))):
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                name = ast.unparse(base).split("[")[0]
                assert foreign.get(name) not in compiled, f"compile {module}: it extends {name}"


@pytest.mark.slow
def test_flows_are_translated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the C compiler, which refuses here: compiling takes minutes.  A soak that compiles all
    flows ends with a failure if one cannot be translated."""
    some = ("graveler/engine/ports.py", "graveler/refs/rows.py")
    monkeypatch.setenv("CC", "false")
    with pytest.raises(machine_code.Refused, match=r"Command '\['false'"):
        if draws.ALL:
            machine_code.kept(tmp_path / "kept", 600, lambda: False)
        else:
            machine_code.kept(tmp_path / "kept", 600, lambda: False, some)


def _whence(queue: "multiprocessing.Queue[str]") -> None:
    queue.put(str(graveler.__file__))


@pytest.mark.parametrize("elsewhere", [False, True])
def test_processes_take_the_flows_that_they_are_given(tmp_path: Path, elsewhere: bool) -> None:
    shutil.copytree(Path(graveler.__file__).parent, tmp_path / "graveler")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[str] = context.Queue()
    process = context.Process(target=_whence, args=(queue,))
    before = list(sys.path)
    with machine_code.imported_from(tmp_path if elsewhere else ABSENT):
        process.start()
    assert sys.path == before
    found = queue.get(timeout=PATIENCE_SECONDS)
    process.join()
    assert Path(found).is_relative_to(tmp_path) is elsewhere


def test_a_compiler_that_is_stopped_leaves_nothing_to_be_used(tmp_path: Path) -> None:
    assert machine_code.kept(tmp_path / "kept", 60, lambda: True) is ABSENT
    assert not machine_code.place(tmp_path / "kept").exists()


def test_without_a_compiler_the_sources_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine_code.kept(tmp_path / "kept", 60, lambda: False) is ABSENT


def test_what_is_compiled_is_kept_for_its_very_sources(tmp_path: Path) -> None:
    machine_code.place(tmp_path).mkdir()
    assert machine_code.kept(tmp_path, 0, lambda: True) == machine_code.place(tmp_path)
    assert machine_code.place(tmp_path, ("graveler/ids.py",)) != machine_code.place(tmp_path)


def test_flows_that_do_something_else_than_the_sources_are_told_apart(tmp_path: Path) -> None:
    for package in ("graveler", "simulator"):
        shutil.copytree(ROOT / package, tmp_path / package)
    assert machine_code.does_the_same(tmp_path)
    limits = tmp_path / "graveler" / "limits.py"
    told = limits.read_text()
    few = told.replace("commit_round_count_max = 12", "commit_round_count_max = 1")
    assert few != told
    limits.write_text(few)
    assert not machine_code.does_the_same(tmp_path)
    limits.write_text("nothing that runs")
    assert not machine_code.does_the_same(tmp_path)


def test_an_error_that_leads_back_to_itself_loses_its_frames() -> None:
    first, second = Unavailable("first"), Unavailable("second")
    for error, cause in ((first, second), (second, first)):
        try:
            raise error from cause
        except Unavailable:
            assert error.__traceback__ is not None
    assert without_frames(first) is first
    assert first.__traceback__ is None and second.__traceback__ is None
