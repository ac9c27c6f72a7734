"""Committers and mergers of one process: threads that take turns on a branch, and share commits."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler import assembly
from graveler.core import limits
from graveler.core.errors import HookFailed, NoChanges, NotFound, Unavailable
from graveler.core.records import CommitEntry
from graveler.core.requests import Counts, counted_store
from graveler.engine import names as branches
from graveler.engine.commits import log, merge, reset
from graveler.engine.commits.heads import commit_of
from graveler.engine.commits.search import Once
from graveler.engine.hooks import COMMIT, PREPARE, HookEvent, NoHooks, Pending
from graveler.engine.ports import Deadline, OpenRepository, Ports
from graveler.engine.repositories import repository
from tests.engine.lake import COMMITTER, Lake
from tests.engine.overridden import Overridden
from tests.support.interposer import InterposedStore, Script
from tests.waiting import PATIENCE_SECONDS, until
from tests.watched_turns import WatchedTurns

OF_A_COMMIT = {"get": 1, "scan": 2, "set_if": 2, "set_many": 1}


class Process:
    """A process with threads, and what became of their calls."""

    def __init__(self, ports: Ports) -> None:
        self.counts, self.files, self.script = Counts(), Counts(), Script()
        self._watched = WatchedTurns()
        self.answers: dict[str, Any] = {}
        self.errors: dict[str, BaseException] = {}
        self._threads: list[threading.Thread] = []
        new = repository.NewRepository("lake", _namespace(ports))
        made = repository.create(ports, new)
        kv = InterposedStore(counted_store(ports.kv, self.counts), self.script)
        settings = ports.settings._replace(turn_seconds_max=PATIENCE_SECONDS)
        ranges: Any = Overridden(
            ports.ranges,
            write_range=self._counted("range", ports.ranges.write_range),
            splice_range=self._counted("range", ports.ranges.splice_range),
            write_metarange=self._counted("metarange", ports.ranges.write_metarange),
        )
        turns = self._watched.turns
        own = replace(ports, kv=kv, ranges=ranges, turns=turns, settings=settings)
        self.lake = Lake(own, made)
        self.rival = Lake(ports, made)  # another process

    def _counted(self, name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.files.add(name)
            return write(*arguments)

        return counted

    def call(self, name: str, run: Callable[[], object]) -> None:
        """Begin `run` in a thread; returns when it waits."""
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
        assert len(self._watched.turns) == 0

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
    # Of each: that of its upload, and that before it waits.
    assert process.counts.since(before) == {**spent, "get": spent["get"] + 14, "set_newer": 7}
    stop.go.set()
    process.end()
    whole = process.counts.since(before)
    assert not process.errors
    assert [message.splitlines()[0] for message in process.messages()] == [
        "{'warm': '1'}",
        "first",
        "c0",
    ]
    assert {process.answers[name].id for name in names} == {lake.head()}
    assert process.answers["first"].id != lake.head()
    besides = {"get": 14, "set_newer": 7}
    of_two = {verb: 2 * count + besides.get(verb, 0) for verb, count in OF_A_COMMIT.items()}
    assert whole == {**besides, **of_two}
    assert process.files.since(files) == {"range": 2, "metarange": 2}
    assert process.rival.tree("main@").keys() == {"warm", "first", *names}


def test_a_shared_commit_keeps_what_each_of_eight_committers_says(process: Process) -> None:
    lake, names = process.lake, [f"c{number}" for number in range(7)]
    lake.put("first", "1")
    stop = process.stopped(
        "set_many", lambda: lake.commit("load first", committer="ann", metadata={"run-first": "1"})
    )
    for name in names:
        lake.put(name, "1")
        process.call(
            name,
            lambda name=name: lake.commit(  # type: ignore[misc]
                f"load {name}",
                committer=f"user-{name}",
                metadata={f"run-{name}": name, "team": "sales"},
            ),
        )
    stop.go.set()
    process.end()
    assert not process.errors
    entries, _ = log.log(lake.opened, "main", log.LogRequest(first_parent=True))
    shared, first = (entry.commit for entry in entries[:2])
    assert first.message == "load first" and first.metadata == {"run-first": "1"}
    assert shared.message.splitlines() == [
        "load c0",
        "",
        *(f"user-{name}: load {name}" for name in names[1:]),
    ]
    assert shared.committer == "user-c0"
    assert shared.metadata == {"team": "sales", **{f"run-{name}": name for name in names}}
    assert {process.answers[name].id for name in names} == {entries[0].id}


def test_what_each_of_eight_free_committers_says_is_in_exactly_one_commit(
    process: Process,
) -> None:
    def commit_often(name: str) -> dict[str, CommitEntry]:
        answers = {}
        for number in range(5):
            words = f"<{name}-{number}>"
            process.lake.put(words, "1")
            with suppress(NoChanges):  # another one has landed the row before the call
                answers[words] = process.lake.commit(words, metadata={words: ""})
        return answers

    for name in "abcdefgh":
        process.begin(name, lambda name=name: commit_often(name))  # type: ignore[misc]
    process.end()
    assert not process.errors
    answers = {words: entry.id for own in process.answers.values() for words, entry in own.items()}
    entries, _ = log.log(process.lake.opened, "main", log.LogRequest(first_parent=True, amount=100))
    for field in ("message", "metadata"):
        said = [
            (words, entry.id)
            for entry in entries[:-1]
            for words in re.findall(r"<.-.>", str(getattr(entry.commit, field)))
        ]
        assert sorted(said) == sorted(answers.items())


def test_the_same_words_of_one_committer_are_said_once(process: Process) -> None:
    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    process.lake.put("more", "1")
    for name, message in (("a", "save"), ("b", "save"), ("c", "end"), ("d", "end"), ("e", "save")):
        process.call(name, process.committer(message))
    stop.go.set()
    process.end()
    assert process.messages() == ["first", "save\n\ntester: end"]


def test_metadata_that_contradict_get_two_commits(process: Process) -> None:
    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    process.lake.put("more", "1")
    for name, run in (("a", "1"), ("b", "2"), ("c", "1"), ("d", "2")):
        process.call(name, process.committer(name, metadata={"run": run, name: "x"}))
    stop.go.set()
    process.end()
    assert not process.errors
    assert process.messages() == ["first", "a\n\ntester: c", "b\n\ntester: d"]
    entries, _ = log.log(process.lake.opened, "main", log.LogRequest(first_parent=True))
    # The first took all rows: the second changes nothing, and keeps what its callers say.
    assert [entry.commit.metadata for entry in entries[:2]] == [
        {"run": "2", "b": "x", "d": "x"},
        {"run": "1", "a": "x", "c": "x"},
    ]
    assert entries[0].commit.metarange == entries[1].commit.metarange
    for name, entry in zip("badc", [entries[0], entries[1]] * 2, strict=True):
        assert process.answers[name].id == entry.id


@pytest.mark.parametrize(
    "words",
    [
        {"message": "m" * (limits.message_length_bytes_max - 4)},
        {"metadata": {f"key-{number}": "" for number in range(limits.metadata_pairs_max)}},
        {"created_ns": 1_700_000_000 * limits.SECOND_NS},
    ],
    ids=lambda words: next(iter(words)),
)
def test_calls_that_fit_into_no_shared_commit_get_two(
    process: Process, words: dict[str, Any]
) -> None:
    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    process.lake.put("more", "1")
    process.call("a", process.committer("a", metadata={"a": "1"}))
    process.call("b", lambda: process.lake.commit(**{"message": "b", **words}))
    process.call("c", process.committer("c", metadata={"c": "1"}))
    stop.go.set()
    process.end()
    assert process.answers["a"] == process.answers["c"] != process.answers["b"]
    assert len(process.messages()) == 3


def test_a_call_whose_writes_the_running_commit_took_makes_a_commit_of_its_words(
    process: Process,
) -> None:
    process.lake.put("first", "1")
    stop = process.stopped("set_if", process.committer("first"))  # before its seal
    for name in ("late", "later"):
        process.lake.put(name, "1")
        process.call(name, process.committer(name))
    stop.go.set()
    process.end()
    assert not process.errors and process.messages() == ["first", "late\n\ntester: later"]
    assert process.answers["late"] == process.answers["later"]
    assert process.rival.tree(process.answers["first"].id).keys() == {"first", "late", "later"}


def test_a_call_that_arrives_after_the_seal_makes_a_commit_of_its_words(process: Process) -> None:
    process.lake.put("first", "1")
    process.lake.put("late", "1")
    stop = process.stopped("set_many", process.committer("first"))  # after its seal
    process.call("late", process.committer("late"))
    stop.go.set()
    process.end()
    assert not process.errors and process.messages() == ["first", "late"]


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


def test_a_call_whose_writes_another_process_took_makes_a_commit_of_its_words(
    process: Process,
) -> None:
    process.lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    process.call("late", process.committer("late"))
    process.rival.commit("elsewhere")
    stop.go.set()
    process.end()
    assert process.answers["first"].commit.message == "elsewhere"
    assert process.answers["late"].commit.message == "late"


@pytest.mark.parametrize("dropped", ["reset", "anew"])
def test_a_call_whose_writes_a_reset_dropped_while_it_waited_makes_no_commit(
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
    """Refuses commits whose message has the word *bad*, before they read the rows or after."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def before(self, repo: OpenRepository, event: HookEvent, deadline: Deadline) -> Pending:
        if event.kind == self._kind:
            message = event.message or commit_of(repo, event.commit).message
            if "bad" in message:
                raise HookFailed("vetoed")
        return Pending()


@pytest.mark.parametrize("kind", [PREPARE, COMMIT])
@pytest.mark.parametrize("names", [("bad", "c1", "c2"), ("c1", "bad", "c2"), ("c1", "c2", "bad")])
def test_a_veto_is_answered_to_its_own_call_alone(
    process: Process, kind: str, names: tuple[str, ...]
) -> None:
    hooks = _Vetoing(kind)
    lake = process.lake = replace(process.lake, ports=replace(process.lake.ports, hooks=hooks))
    lake.put("first", "1")
    stop = process.stopped("set_many", process.committer("first"))
    lake.put("more", "1")
    for name in names:
        process.call(name, process.committer(name))
    stop.go.set()
    process.end()
    assert set(process.errors) == {"bad"}
    assert isinstance(process.errors["bad"], HookFailed)
    assert process.messages() == ["first", "c1", "c2"]
    assert process.answers["c1"].commit.message == "c1"
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
    assert process.messages() == ["first", "c1\n\ntester: c2"]
    assert process.answers["c1"] == process.answers["c2"]
    assert process.rival.tree("main@").keys() == {"first", "more"}
    process.lake.put("after", "1")
    process.lake.commit("after")


def test_a_call_whose_deadline_ends_while_it_waits_does_nothing(process: Process) -> None:
    ports = process.lake.ports
    settings = ports.settings._replace(commit_seconds_max=0.05)
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
    # e0 took what was staged: the commits after it change nothing.
    assert not process.errors
    assert process.messages() == ["first", "e0", "e1", "c0\n\ntester: c1", "o1", "o2"]
    assert process.answers["c0"] == process.answers["c1"]


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
    hasty = ports.settings._replace(turn_seconds_max=0.001)
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
