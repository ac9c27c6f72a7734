"""Committers and mergers of one process: threads that take turns on a branch, and share commits."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler import assembly
from graveler.core.errors import HookFailed, NoChanges, NotFound, Unavailable
from graveler.core.records import CommitEntry
from graveler.core.requests import Counts, counted_store
from graveler.engine import names as branches
from graveler.engine.commits import log, merge, reset
from graveler.engine.commits.heads import commit_of
from graveler.engine.commits.search import Once
from graveler.engine.hooks import COMMIT, HookEvent, NoHooks, Pending
from graveler.engine.ports import Deadline, OpenRepository, Ports
from graveler.engine.repositories import repository
from tests.engine.lake import COMMITTER, Lake
from tests.engine.overridden import Overridden
from tests.support.interposer import InterposedStore, Script
from tests.waiting import PATIENCE_SECONDS, until
from tests.watched_lanes import WatchedLanes

OF_A_COMMIT = {"get": 1, "scan": 2, "set_if": 2, "set_many": 1}


class Process:
    """A process with threads, and what became of their calls."""

    def __init__(self, ports: Ports) -> None:
        self.counts, self.files, self.script = Counts(), Counts(), Script()
        self._watched = WatchedLanes()
        self.answers: dict[str, Any] = {}
        self.errors: dict[str, BaseException] = {}
        self._threads: list[threading.Thread] = []
        new = repository.NewRepository("lake", _namespace(ports))
        made = repository.create(ports, new)
        kv = InterposedStore(counted_store(ports.kv, self.counts), self.script)
        settings = replace(ports.settings, lane_turn_seconds_max=PATIENCE_SECONDS)
        ranges: Any = Overridden(
            ports.ranges,
            write_range=self._counted("range", ports.ranges.write_range),
            splice_range=self._counted("range", ports.ranges.splice_range),
            write_metarange=self._counted("metarange", ports.ranges.write_metarange),
        )
        lanes = self._watched.lanes
        own = replace(ports, kv=kv, ranges=ranges, lanes=lanes, settings=settings)
        self.lake = Lake(own, made)
        self.rival = Lake(ports, made)  # another process

    def _counted(self, name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.files.add(name)
            return write(*arguments)

        return counted

    def call(self, name: str, run: Callable[[], object]) -> None:
        """Begin `run` in a thread; returns when it waits in a lane."""
        self.begin(name, run)
        until(lambda: name in self._watched.waited, f"{name} waits")

    def begin(self, name: str, run: Callable[[], object]) -> None:
        """Begin `run` in a thread."""

        def keep() -> None:
            try:
                self.answers[name] = run()
            except BaseException as error:
                self.errors[name] = error

        self._threads.append(threading.Thread(target=keep, name=name))
        self._threads[-1].start()

    def stopped(self, verb: str, run: Callable[[], object]) -> "Stop":
        """Begin `run` in a thread that stops before its next request of `verb`."""
        stop = Stop()
        self.script.before(verb, stop.stand)
        self.begin("first", run)
        assert stop.stands.wait(PATIENCE_SECONDS)
        return stop

    def committer(self, name: str, **more: Any) -> Callable[[], CommitEntry]:
        """A call that commits, with its name as message."""
        return lambda: self.lake.commit(name, **more)

    def end(self) -> None:
        """All calls have ended."""
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
        assert len(self._watched.lanes) == 0

    def messages(self) -> list[str]:
        """Those of the branch, the oldest first, without that of the repository."""
        entries, _ = log.log(self.lake.opened, "main", log.LogRequest(first_parent=True))
        return [entry.commit.message for entry in reversed(entries)][1:]


class Stop:
    """Where a thread stops, until it may go on."""

    def __init__(self) -> None:
        self.stands, self.go = threading.Event(), threading.Event()

    def stand(self) -> None:
        self.stands.set()
        assert self.go.wait(PATIENCE_SECONDS)


def _namespace(ports: Ports) -> str:
    return "mem://bucket/lake" if "Memory" in type(ports.blocks).__name__ else "local://lake/x"


@pytest.fixture(params=["memory", "embedded"])
def process(request: pytest.FixtureRequest, fast_folder: Path) -> Iterator[Process]:
    if request.param == "memory":
        yield Process(assembly.open_memory())
        return
    store = assembly.open_embedded(fast_folder / "store")
    try:
        yield Process(store.ports)
    finally:
        store.close()


def test_those_that_wait_share_one_commit_and_its_cost(process: Process) -> None:
    lake = process.lake
    lake.commit_of(warm="1")
    lake.put("first", "1")
    before, files = process.counts.snapshot(), process.files.snapshot()
    stop = process.stopped("set_many", process.committer("first"))
    spent = process.counts.since(before)
    names = [f"c{number}" for number in range(7)]
    for name in names:
        lake.put(name, "1")  # the first has sealed before
        process.call(name, process.committer(name))
    assert process.counts.since(before) == {**spent, "get": spent["get"] + 7, "set_newer": 7}
    stop.go.set()
    process.end()
    whole = process.counts.since(before)
    assert not process.errors
    assert process.messages() == ["{'warm': '1'}", "first", "c0"]
    assert {process.answers[name].id for name in names} == {lake.head()}
    assert process.answers["first"].id != lake.head()
    uploads = {"get": 7, "set_newer": 7}
    of_two = {verb: 2 * count + uploads.get(verb, 0) for verb, count in OF_A_COMMIT.items()}
    assert whole == {**uploads, **of_two}
    assert process.files.since(files) == {"range": 2, "metarange": 2}
    assert process.rival.tree("main@").keys() == {"warm", "first", *names}


def test_a_call_whose_writes_the_running_commit_took_is_answered_with_it(process: Process) -> None:
    process.lake.put("first", "1")
    stop = process.stopped("set_if", process.committer("first"))  # before its seal
    for name in ("late", "later"):
        process.lake.put(name, "1")
        process.call(name, process.committer(name))
    stop.go.set()
    process.end()
    assert not process.errors and process.messages() == ["first"]
    assert process.answers["late"] == process.answers["later"] == process.answers["first"]
    assert process.rival.tree("main").keys() == {"first", "late", "later"}


def test_a_call_with_writes_of_its_own_commits_them_on_the_running_commit(process: Process) -> None:
    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))  # after its seal
    process.lake.put("late", "1")
    process.call("late", process.committer("late"))
    stop.go.set()
    process.end()
    assert process.messages() == ["first", "late"]
    assert process.rival.tree(process.answers["first"].id) == {"first": "1"}


def test_a_call_that_comes_after_the_swap_is_not_answered_with_an_old_commit(
    process: Process,
) -> None:
    process.lake.put("first", "1")
    stop = Stop()
    hooks = _Landed(stop.stand)
    process.lake = replace(process.lake, ports=replace(process.lake.ports, hooks=hooks))
    process.begin("first", process.committer("first"))
    assert stop.stands.wait(PATIENCE_SECONDS)
    process.call("late", process.committer("late"))
    stop.go.set()
    process.end()
    assert isinstance(process.errors["late"], NoChanges)


def test_an_offer_that_is_not_the_head_is_no_answer(process: Process) -> None:
    process.lake.put("first", "1")
    # Before the offer: another process takes the rows and lands first.
    stop = process.stopped("set_many", process.committer("first"))
    process.call("late", process.committer("late"))
    process.rival.commit("elsewhere")
    stop.go.set()
    process.end()
    assert process.answers["first"].commit.message == "elsewhere"
    assert isinstance(process.errors["late"], NoChanges)


@pytest.mark.parametrize("dropped", ["reset", "anew"])
def test_a_reset_while_a_call_waits_is_not_answered_with_what_was_offered(
    process: Process, dropped: str
) -> None:
    process.lake.branch("dev")
    process.lake.put("first", "1", "dev")
    stop = Stop()
    hooks = _Landed(stop.stand)
    process.lake = replace(process.lake, ports=replace(process.lake.ports, hooks=hooks))
    before = process.stopped("set_many", process.committer("first", branch="dev"))
    process.lake.put("late", "1", "dev")
    process.call("late", process.committer("late", branch="dev"))
    before.go.set()
    assert stop.stands.wait(PATIENCE_SECONDS)
    head = process.rival.head("dev")
    if dropped == "reset":
        reset.reset(process.rival.opened, "dev")
    else:
        branches.delete_branch(process.rival.opened, "dev")
        process.rival.branch("dev", head)
    stop.go.set()
    process.end()
    # Its row is in no commit: the head of this name is no answer.
    assert isinstance(process.errors["late"], NoChanges)
    assert process.rival.tree("dev").keys() == {"first"}


class _Landed(NoHooks):
    """Hooks that stop after the first landing."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stops = [stop]

    def landed(self, repo: OpenRepository, pending: Pending) -> None:
        for stop in self._stops[:]:
            self._stops.remove(stop)
            stop()


class _Vetoing(NoHooks):
    """Refuses commits with the message *bad*."""

    def before(self, repo: OpenRepository, event: HookEvent, deadline: Deadline) -> Pending:
        if event.kind == COMMIT and commit_of(repo, event.commit).message == "bad":
            raise HookFailed("vetoed")
        return Pending()


def test_a_veto_is_answered_to_its_own_call_alone(process: Process) -> None:
    lake = process.lake = replace(process.lake, ports=replace(process.lake.ports, hooks=_Vetoing()))
    lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    lake.put("more", "1")
    for name in ("bad", "c1", "c2"):
        process.call(name, process.committer(name))
    stop.go.set()
    process.end()
    assert set(process.errors) == {"bad"}
    assert isinstance(process.errors["bad"], HookFailed)
    assert process.messages() == ["first", "c1"]
    assert process.answers["c1"] == process.answers["c2"]
    assert process.rival.tree("main@").keys() == {"first", "more"}


@pytest.mark.parametrize("error", [Unavailable("the store is away"), KeyboardInterrupt()])
def test_when_the_call_that_works_fails_the_others_commit(
    process: Process, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    process.lake.put("more", "1")
    for name in ("c0", "c1", "c2"):
        process.call(name, process.committer(name))
    process.script.before("set_if", fail, nth=2)  # the seal of c0, after the swap of the first
    stop.go.set()
    process.end()
    assert process.errors == {"c0": error}
    assert process.messages() == ["first", "c1"]
    assert process.answers["c1"] == process.answers["c2"]
    assert process.rival.tree("main@").keys() == {"first", "more"}
    process.lake.put("after", "1")
    process.lake.commit("after")


def test_a_call_whose_deadline_ends_while_it_waits_does_nothing(process: Process) -> None:
    ports = process.lake.ports
    settings = replace(ports.settings, commit_seconds_max=0.05)
    hasty = Lake(replace(ports, settings=settings), process.lake.repo)
    process.lake.branch("dev")
    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    process.lake.put("more", "1")
    before = process.counts.snapshot()
    with pytest.raises(Unavailable, match=r"^commit took too long"):
        hasty.commit("late")
    with pytest.raises(Unavailable, match=r"^landing a commit took too long"):
        hasty.merge("dev", allow_empty=True)
    assert set(process.counts.since(before)) <= {"get"}  # of the ref that is merged
    stop.go.set()
    process.end()
    assert process.messages() == ["first"]


def test_who_waits_on_a_branch_that_is_deleted_learns_that(process: Process) -> None:
    process.lake.branch("dev")
    process.lake.put("first", "1", "dev")
    stop = process.stopped("set_many", process.committer("first", branch="dev"))
    for name in ("c0", "c1", "c2"):
        process.call(name, process.committer(name, branch="dev"))
    branches.delete_branch(process.rival.opened, "dev")
    stop.go.set()
    process.end()
    assert {type(error) for error in process.errors.values()} == {NotFound}
    assert set(process.errors) == {"first", "c0", "c1", "c2"}


def test_commits_of_their_own_are_not_shared(process: Process) -> None:
    lake = process.lake
    lake.put("first", "1")
    since = lake.record().commit
    stop = process.stopped("set_many", process.committer("first"))
    lake.put("more", "1")
    marks = [Once("run", str(number), since) for number in (1, 2)]
    process.call("e0", process.committer("e0", allow_empty=True))
    process.call("e1", process.committer("e1", allow_empty=True))
    process.call("c0", process.committer("c0"))
    for name, once in zip(("o1", "o2"), marks, strict=True):
        metadata = {"run": once.value}
        process.call(name, process.committer(name, once=once, metadata=metadata))
    process.call("c1", process.committer("c1"))
    stop.go.set()
    process.end()
    # e0 took what was staged; e1, the next head, was offered to c0 and c1 before it landed.
    assert process.messages() == ["first", "e0", "e1"]
    assert process.answers["c0"] == process.answers["c1"] == process.answers["e1"]
    assert {name for name, error in process.errors.items() if isinstance(error, NoChanges)} == {
        "o1",
        "o2",
    }


def test_a_metarange_is_committed_in_its_turn(process: Process) -> None:
    lake = process.lake
    content = commit_of(lake.opened, process.rival.commit_of(a="1")).metarange  # type: ignore[arg-type]
    reset.hard_reset(process.rival.opened, "main", "main~1")
    lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    process.call("given", process.committer("given", source_metarange=content))
    stop.go.set()
    process.end()
    assert not process.errors and process.messages() == ["first", "given"]


def test_merges_into_a_branch_take_turns_and_lose_no_swap(process: Process) -> None:
    lake, names = process.lake, [f"b{number}" for number in range(8)]
    lake.commit_of(base="1")
    for name in (*names, "alone"):
        lake.branch(name)
        lake.commit_of(name, **{name: "1"})

    def merger(source: str) -> Callable[[], object]:
        request = merge.MergeRequest(COMMITTER)
        return lambda: merge.merge(lake.opened, source, "main", request)

    before = process.counts.snapshot()
    merger("alone")()
    alone = process.counts.since(before)
    before = process.counts.snapshot()
    stop = process.stopped("set_many", merger(names[0]))
    for name in names[1:]:
        process.call(name, merger(name))
    stop.go.set()
    process.end()
    assert not process.errors
    assert process.counts.since(before) == {verb: 8 * count for verb, count in alone.items()}
    assert alone["set_if"] == 1
    assert lake.tree().keys() == {"base", "alone", *names}


def test_a_turn_that_lasts_too_long_holds_no_other_verb_up(process: Process) -> None:
    ports = process.lake.ports
    hasty = replace(ports.settings, lane_turn_seconds_max=0.001)
    other = Lake(replace(ports, settings=hasty), process.lake.repo)
    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    process.lake.put("more", "1")
    assert other.commit("beside").commit.message == "beside"
    stop.go.set()
    process.end()
    # The first had built on the old head: its rows are in the commit that went ahead.
    assert process.answers["first"].commit.message == "beside"
    assert process.messages() == ["beside"]


def test_processes_do_not_wait_for_each_other(process: Process) -> None:
    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    assert process.rival.commit("elsewhere").commit.message == "elsewhere"
    stop.go.set()
    process.end()
    assert process.answers["first"].commit.message == "elsewhere"


def test_branches_do_not_wait_for_each_other(process: Process) -> None:
    process.lake.branch("dev")
    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    process.lake.commit_of("dev", a="1")
    stop.go.set()
    process.end()
    assert process.messages() == ["first"]
