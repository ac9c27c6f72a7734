"""What must hold of branch protection and of pull requests, beside the checks of `invariants.py`.

    G1  a verb that began while a branch was protected for certain changed nothing
    G2  a verb is refused only if a rule may have been in force
    G3  one opening of a pull request has one merge commit at most, however heads were moved back
    G4  an acknowledged merge of a pull request was the head, and carries its mark
    G5  a pull request that says *merged* names that commit

For tests only.
"""

from collections import Counter
from collections.abc import Sequence

from graveler import wire
from graveler.errors import Refused
from graveler.records import PullState
from graveler.refs.keys import commit_key, pull_key
from simulator.histories import NO_HEAD, Run
from simulator.legality import STAGING
from simulator.schedule import NEVER, Call

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
        refused = bool(call.answer)
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
