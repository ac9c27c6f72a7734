"""What must hold of names, chosen heads, protection and pull requests.

    N1  the value read from a name is legal, also at the end; so is a refusal because of the name
    N2  a tag is created again only after it was deleted
    N3  a commit whose storing was acknowledged is there as it was given
    N4  an import whose cancellation was acknowledged never lands
    N5  a relative reset steps back from the head that it replaces, and only once
    G1  a verb that began while a branch was protected for certain changed nothing
    G2  a verb is refused only if a rule may have been in force
    G3  one opening of a pull request has one merge commit at most, however heads were moved back
    G4  an acknowledged merge of a pull request was the head, and carries its mark
    G5  a pull request that says *merged* names that commit

A name is judged like a path (legality.py).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from graveler.core import wire
from graveler.core.errors import AlreadyExists, NotFound, Refused
from graveler.core.ids import CommitId
from graveler.core.records import PullState
from graveler.refs.keys import commit_key, pull_key
from simulator.histories import NO_HEAD, Run
from simulator.legality import REFUSALS, STAGING, KeyWrite, Value, hidden
from simulator.schedule import NEVER, Call
from simulator.stage import GONE
from simulator.verbs.calls import commit_named
from simulator.verbs.landings import JOB, elsewhere

_MAKING = {"tag": ("untag", "tag_of", "tags"), "pair": ("unpair", "", "pairs")}
_MOVING = ("hard", "adopt", "drop", "create")


def judge_registers(run: Run, calls: Sequence[Call]) -> None:
    """Add violations to `run.wrong`."""
    verbs = {call.verb for call in calls}
    for making, (unmaking, reading, listing) in _MAKING.items():
        if not verbs.isdisjoint((making, unmaking)):
            register = _Register(run, calls, making, unmaking)
            register.judge(reading, listing)
    if "tag" in verbs:
        _made_once(run, calls)
    if not verbs.isdisjoint(("record", "adopt")):
        _stored(run, calls)
    if "cancel" in verbs:
        _cancelled(run, calls)
    if "hard_back" in verbs and verbs.isdisjoint(_MOVING):
        _stepped_back(run, calls)


class _Register:
    """The calls that created and deleted names of one kind, and the values that they set."""

    def __init__(self, run: Run, calls: Sequence[Call], making: str, unmaking: str) -> None:
        self._run = run
        self._calls = calls
        self._making, self._unmaking = making, unmaking
        self._writes: dict[str, list[KeyWrite]] = {}
        for call in calls:
            if call.verb in (making, unmaking) and call.start != NEVER:
                self._add(call)

    def _add(self, call: Call) -> None:
        value: Value = GONE
        if call.verb == self._making:
            value = call.arguments[1]
            if call.verb == "tag":
                value = commit_named(self._run.stage, call.arguments[1])
        writes = self._writes.setdefault(
            call.arguments[0], [KeyWrite(-1, -1, frozenset((GONE,)), False)]
        )
        if not isinstance(call.error, REFUSALS):
            end = call.end if call.acknowledged else NEVER
            writes.append(KeyWrite(call.start, end, frozenset((value,)), False))

    def judge(self, reading: str, listing: str) -> None:
        for call in self._calls:
            if call.end == NEVER:
                continue
            if call.verb == reading and call.error is None:
                self._check(call, call.arguments[0], call.answer)
            elif call.verb == listing and call.error is None:
                self._check_all(call, call.answer)
            elif call.verb == self._making and isinstance(call.error, AlreadyExists):
                self._check_taken(call)
            elif call.verb == self._unmaking and isinstance(call.error, NotFound):
                self._check(call, call.arguments[0], GONE)
        last = Call(0, listing)
        last.start = self._run.world.step + 1
        self._run.alone(last)
        self._check_all(last, last.answer)

    def _check_all(self, call: Call, found: Mapping[str, str]) -> None:
        for name in self._writes:
            self._check(call, name, found.get(name))

    def _check(self, call: Call, name: str, value: Value) -> None:
        if not self._legal(call, name, value):
            self._run.wrong.append(
                f"N1 {call.verb} {name}={value} seen in [{call.start}, {call.end}]"
            )

    def _check_taken(self, call: Call) -> None:
        name = call.arguments[0]
        values = {value for write in self._writes.get(name, ()) for value in write.values}
        if not any(self._legal(call, name, value) for value in values - {GONE}):
            self._run.wrong.append(f"N1 {name} was free in [{call.start}, {call.end}]")

    def _legal(self, call: Call, name: str, value: Value) -> bool:
        writes = self._writes.get(name)
        if writes is None:
            return value is GONE
        return any(
            value in write.values
            and write.start <= call.end
            and not hidden(writes, write.end, call.start, value)
            for write in writes
        )


def _made_once(run: Run, calls: Sequence[Call]) -> None:
    for name in {call.arguments[0] for call in calls if call.verb == "tag"}:
        mine = [call for call in calls if call.arguments[:1] == (name,) and call.start != NEVER]
        made = sum(call.verb == "tag" and call.acknowledged for call in mine)
        gone = sum(call.verb == "untag" and not isinstance(call.error, REFUSALS) for call in mine)
        if made > gone + 1:
            run.wrong.append(f"N2 {name} was made {made} times and deleted {gone} times")


def _stored(run: Run, calls: Sequence[Call]) -> None:
    for call in calls:
        if call.verb in ("record", "adopt") and call.acknowledged:
            id, given = elsewhere(run.stage, call)
            found = run.commit_record(id)
            same = found is not None and (found.metarange, found.parents, found.generation) == (
                given.metarange,
                given.parents,
                given.generation,
            )
            if not same:
                run.wrong.append(f"N3 a commit from elsewhere is not there: {found}")


def _cancelled(run: Run, calls: Sequence[Call]) -> None:
    cancelled = {
        job for call in calls if call.verb == "cancel" and call.acknowledged for job in call.answer
    }
    for branch in {call.branch for call in calls}:
        for _, head in run.watched(branch).heads:
            found = run.commit_record(head) if head else None
            if found is not None and found.metadata.get(JOB) in cancelled:
                run.wrong.append(f"N4 an import that was cancelled has landed: {head}")


def _stepped_back(run: Run, calls: Sequence[Call]) -> None:
    for branch in {call.branch for call in calls}:
        mine = [call for call in calls if call.branch == branch and call.verb == "hard_back"]
        heads = run.watched(branch).heads
        steps = []
        for (_, before), (step, after) in pairwise(heads):
            if before in (after, _first_parent(run, after)):
                continue
            steps.append(step)
            if after != _first_parent(run, before):
                run.wrong.append(f"N5 {branch} was put on what is not behind its head: {after}")
        sent = sum(call.start != NEVER and not isinstance(call.error, REFUSALS) for call in mine)
        if len(steps) > sent:
            run.wrong.append(f"N5 {branch} stepped back {len(steps)} times for {sent} calls")
        done = sum(call.acknowledged for call in mine)
        if done > len(steps) and not run.world.faults:
            run.wrong.append(f"N5 {branch} stepped back {len(steps)} times for {done} successes")
        for call in mine:
            if call.acknowledged and not any(call.start <= step <= call.end for step in steps):
                run.wrong.append(f"N5 {branch} did not step back in [{call.start}, {call.end}]")


def _first_parent(run: Run, commit: str) -> CommitId:
    record = run.commit_record(commit)
    return record.parents[0] if record is not None and record.parents else CommitId("")


_GUARDED = (*STAGING, "delete_many", "commit", "commit_empty", "reset", "prefix", "reset_path")


def judge_gates(run: Run, calls: Sequence[Call]) -> None:
    """Add violations to `run.wrong`."""
    verbs = {call.verb for call in calls}
    if "protect" in verbs:
        for call in calls:
            if call.verb in _GUARDED and call.end != NEVER:
                _guarded(run, calls, call)
    if "pull_merge" in verbs:
        _merged_once(run, calls)


def _guarded(run: Run, calls: Sequence[Call], call: Call) -> None:
    refused = isinstance(call.error, Refused)
    if call.verb == "delete_many" and call.error is None:
        refused = any(call.answer.values())
    if refused:
        if _surely(calls, call, "unprotect", "protect") or not _maybe(calls, call, "protect"):
            run.wrong.append(f"G2 {call.verb} was refused without a rule: {call.start}")
    elif call.error is None and _surely(calls, call, "protect", "unprotect"):
        run.wrong.append(f"G1 {call.verb} changed a protected branch: {call.start}")


def _surely(calls: Sequence[Call], call: Call, verb: str, undoing: str) -> bool:
    """Whether a call of `verb` had ended before `call` began, and nothing undid it before its
    end."""
    done = [each.start for each in calls if each.verb == verb and _ended(each) < call.start]
    last = max(done, default=NEVER)
    return last != NEVER and not any(
        each.verb == undoing and each.start < call.end and _ended(each) > last for each in calls
    )


def _maybe(calls: Sequence[Call], call: Call, verb: str) -> bool:
    return any(each.verb == verb and each.start < call.end for each in calls)


def _ended(call: Call) -> int:
    return call.end if call.acknowledged else NEVER


def _merged_once(run: Run, calls: Sequence[Call]) -> None:
    """A commit that a merge of the next opening draws may equal one of the last, and then gives the
    common record its mark; or a late write of the last one does.  So a mark is that of the time
    when the commit became the head, or that of now; of a commit that was installed twice, it tells
    nothing."""
    installs = Counter(run.watched("main").installed(0))
    installed = {id: run.commit_record(id) for id in installs if id != NO_HEAD}
    landed = {id: commit for id, commit in installed.items() if commit is not None and commit.mark}
    for mark, count in Counter(commit.mark for commit in landed.values()).items():
        if count > 1:
            run.wrong.append(f"G3 {count} merge commits of {mark}")
    for call in calls:
        if call.verb == "pull_merge" and call.acknowledged and call.answer not in landed:
            run.wrong.append(f"G4 an acknowledged merge was never the head: {call.answer}")
    rows = run.world.rows[run.records]
    pull = wire.decode_pull(rows[pull_key(run.stage.pull)].value)
    if pull.state is PullState.MERGED:
        now = wire.decode_commit(rows[commit_key(pull.merged)].value)
        then = landed.get(pull.merged, now)
        is_marked = f"pull/{pull.id}/{pull.opening}" in (now.mark, then.mark)
        if not is_marked and installs[pull.merged] < 2:
            run.wrong.append(f"G5 {pull.id} names a commit that is not its merge: {pull.merged}")
