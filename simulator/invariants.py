"""What must hold in every simulated run, whatever was interleaved, lost, killed or delayed.

    I1  the end state is legal, and a last commit changes nothing that a reader sees
    I2  the content of an acknowledged commit is legal for the time of its call ("no changes" too);
        that of a bulk job is the commit before it with the job's changes, and no staged row
    I3  reads and lists are legal; a list never shows half a merge
    I5  every acknowledged commit is in the history
    I7  of several conditional creations at most one wins; none is refused by its own write; of
        several replacements of one value at most one wins
    I8  allow_empty makes a commit for each caller
    I9  without faults, no call fails
    I10 one object is made of an upload in parts, and of the parts that its completion names
    I11 the veto of a hook is answered to no other call; its commit never becomes the head
    I12 what a splice guards is the same in its base and in the commit that it lands on; batches of
        a stream are in a history once and in order; an acknowledged one, or a later one, is there
    LEAK  no rows of tokens that no branch names remain after the janitor has had enough time

histories.py checks I4 and parts of I1, I5 and I11 during the run.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from graveler.core import limits, wire
from graveler.core.errors import (
    Conflict,
    Contended,
    GravelerError,
    HookFailed,
    NoChanges,
    NotFound,
    PreconditionFailed,
    Refused,
    Unavailable,
)
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import Commit
from graveler.refs.keys import branch_key
from graveler.refs.stream_marks import batch_in
from simulator.arrivals import ArrivalWatch
from simulator.families import FAMILIES, profile_of, program, sweeps_of
from simulator.histories import Run
from simulator.legality import BULK, LANDING, REFUSALS, Judge
from simulator.registers import judge_gates, judge_registers
from simulator.schedule import JUMP_NS, NEVER, Breach, Call, SeededChoices, faithful
from simulator.stage import KEYS, NO_BRANCH, Content, Stage
from simulator.verbs.landings import BASE, batch_of, cleared
from simulator.verbs.uploads import DONE, LATE

COMMITS = ("commit", "commit_empty", "commit_vetoed")
RESETS = ("hard", "hard_back", "adopt", "drop")
QUIET = ("read", "list", *COMMITS)  # verbs that change no path
MOVING = (*COMMITS, *LANDING)
_LEAK_SHARE = 8  # one in this many runs counts its leaks


class Verdict(NamedTuple):
    """The result of one run."""

    wrong: list[str]
    run: Run
    clients: list[list[Call]]


def check_seed(
    stage: Stage, family: str, profile: str, seed: int, breach: Breach = faithful
) -> Verdict:
    """Run and judge one seed of a cell (a family with a profile)."""
    random = Random(f"{family}/{profile}/{seed}")
    clients = program(FAMILIES[family], random)
    every = [list(calls) for calls in clients]
    plan = profile_of(profile, seed)
    run = Run(stage, SeededChoices(random, plan), random, FAMILIES[family].processes, breach)
    arrived = ArrivalWatch(run) if "arrive" in FAMILIES[family].weights else None
    run.play(clients, sweeps=sweeps_of(profile, seed))
    if arrived is not None:
        every.append(arrived.settle(every))
    judge(run, every, calm=profile == "clean", fully=seed % 3 == 0)
    if arrived is not None:
        arrived.judge(every)
    if seed % _LEAK_SHARE == 0:
        run.leaked = count_leaks(run)
        if run.leaked and profile != "aging":  # there, calls last longer than old tokens are kept
            run.wrong.append(f"LEAK {run.leaked} rows of tokens that nobody names")
    # They refer to the run; without this, only Python's collector could free it.
    run.world.watches.clear()
    return Verdict(run.wrong, run, every)


def judge(
    run: Run, clients: Sequence[Sequence[Call]], *, calm: bool = False, fully: bool = True
) -> list[str]:
    """Everything that is wrong with a finished run.  `calm`: no fault was injected.  `fully`: also
    make a last commit."""
    calls = [call for client in clients for call in client]
    for branch in sorted({call.branch for call in calls}):
        verdict = Judge(run, branch, calls)
        for call in verdict.calls:
            if call.end != NEVER:
                _observed(verdict, call)
        _conditional(verdict)
        _matched(verdict)
        if any(call.verb == "batch" for call in verdict.calls):
            _batches(verdict)
        _final(verdict, fully=fully)
    _empties(run, calls)
    _replaced_once(run, calls)
    judge_registers(run, calls)
    judge_gates(run, calls)
    if calm and not run.world.jumped_ns:
        _calm(run, calls)
    return run.wrong


def _observed(verdict: Judge, call: Call) -> None:
    if call.error is not None:
        _failed(verdict, call)
    elif call.verb == "read":
        key = call.arguments[0]
        if not verdict.legal(key, call.answer, call.start, call.end, seen=True):
            verdict.run.wrong.append(f"I3 read {key}={call.answer} in [{call.start}, {call.end}]")
    elif call.verb == "list":
        verdict.check("I3 list", call.answer, call)
        _unmixed(verdict, call)
    elif call.verb in COMMITS or call.verb in LANDING:
        if verdict.run.commit_record(call.answer) is None:
            verdict.run.wrong.append(f"I1 {call.verb} answered a commit that is not there")
        else:
            content = verdict.run.content_of(call.answer)
            if verdict.is_of_another(call):
                _answered(verdict, call)
                return
            if call.verb in BULK:
                _beside(verdict, call, content)
            else:
                verdict.check(f"I2 {call.verb}", content, call)
            if call.answer not in verdict.run.watched(verdict.branch).installed(call.start):
                verdict.run.wrong.append(f"I2 {call.verb} answered a commit of before its time")


def _beside(verdict: Judge, call: Call, content: Content) -> None:
    """The commit of a bulk job is the one before it with the job's changes, and no staged row."""
    run = verdict.run
    record = run.commit_record(call.answer)
    before = run.content_of(record.parents[0]) if record is not None else {}
    if call.verb in ("bulk_merge", "batch", "splice"):
        key, value = call.arguments
        prefix = cleared(key) if call.verb == "splice" else key
        kept = {path: held for path, held in before.items() if not path.startswith(prefix)}
        right = {**kept, key: value}
        if call.verb == "splice" and record is not None:
            _guarded(run, record.metadata[BASE], before, prefix)
        if call.verb == "batch":
            _answered(verdict, call)
    else:
        kept = {key: value for key, value in before.items() if not key.startswith("i/")}
        right = {**kept, **run.stage.imported}
    if content != right:
        run.wrong.append(f"I2 {call.verb} made {content} of {before}")


def _guarded(run: Run, base: str, before: Content, prefix: str) -> None:
    """What a splice guards was not changed between its base and the commit that it landed on."""
    first = run.content_of(CommitId(base))
    if any(first.get(key) != before.get(key) for key in KEYS if key.startswith(prefix)):
        run.wrong.append(f"I12 a splice landed over {before}, and its base is {first}: {prefix}")


def _answered(verdict: Judge, call: Call) -> None:
    """A batch is answered with the commit of this batch, or of a later one, which the branch had
    during the call."""
    if all(call.answer not in _line(verdict.run, head) for head in verdict.within(call)):
        verdict.run.wrong.append(f"I12 a batch was answered with a lost commit: {call.answer}")
    record = verdict.run.commit_record(call.answer)
    landed = -1 if record is None else batch_in(record.metadata)[1]
    if landed < batch_of(call):
        verdict.run.wrong.append(f"I12 batch {batch_of(call)} was answered with batch {landed}")


def _batches(verdict: Judge) -> None:
    """In the history of each head, every batch is there once, and in order."""
    for _, head in verdict.run.watched(verdict.branch).heads:
        last = 1 << 62
        for record in _line(verdict.run, head).values():
            _, number = batch_in(record.metadata)
            if number >= last:
                verdict.run.wrong.append(f"I12 batch {number} of {head} comes before batch {last}")
                return
            last = number if number >= 0 else last


def _line(run: Run, head: str) -> dict[str, Commit]:
    """The commits along first parents from a head on."""
    line: dict[str, Commit] = {}
    while head and (record := run.commit_record(head)) is not None:
        line[head] = record
        head = str(record.parents[0]) if record.parents else ""
    return line


def _failed(verdict: Judge, call: Call) -> None:
    if isinstance(call.error, NoChanges) and call.verb in ("commit", "commit_vetoed"):
        _no_changes(verdict, call)
    elif not isinstance(call.error, (*REFUSALS, Unavailable)) and not (
        isinstance(call.error, HookFailed) and call.verb == "commit_vetoed"
    ):
        verdict.run.wrong.append(f"unexpected {call.error!r} of {call.verb}")


def _replaced_once(run: Run, calls: Sequence[Call]) -> None:
    """No two calls replace the same break parameters, because each call sets new ones."""
    replaced = [call.answer for call in calls if call.verb == "breaks" and call.acknowledged]
    if len(set(replaced)) < len(replaced):
        run.wrong.append(f"I7 break parameters were replaced twice: {replaced}")


def _unmixed(verdict: Judge, call: Call) -> None:
    """m1 and m2 change together, unless a call writes one of them alone."""
    alone = ("write", "delete", "prefix", "reset_path")
    if call.answer == NO_BRANCH or any(
        other.verb == "arrive" or (other.verb in alone and other.arguments[0] in ("m1", "m2"))
        for other in verdict.calls
    ):
        return
    sides = {(call.answer.get(key) or "").endswith("other") for key in ("m1", "m2")}
    if len(sides) > 1:
        verdict.run.wrong.append(f"I3 list shows half a merge: {call.answer}")


def _no_changes(verdict: Judge, call: Call) -> None:
    """Some head during the call holds everything that was acknowledged before it."""
    for content in verdict.heads_within(call):
        if all(verdict.legal(key, content.get(key), call.start, call.end) for key in KEYS):
            return
    if all(head for _, head in verdict.run.watched(verdict.branch).heads):
        verdict.run.wrong.append(f"I2 no changes: no head of [{call.start}, {call.end}]")


def _conditional(verdict: Judge) -> None:
    """Check creations of one path that no other call could have created or deleted."""
    tries = [call for call in verdict.calls if call.verb in ("create_only", "link_only")]
    for key in {call.arguments[0] for call in tries}:
        mine = [call for call in tries if call.arguments[0] == key]
        if verdict.run.stage.start[key] is not None or any(
            _touches(call, key) for call in verdict.calls if call not in mine
        ):
            continue
        winners = [call for call in mine if call.acknowledged]
        if len(winners) > 1:
            verdict.run.wrong.append(f"I7 {len(winners)} winners of one creation: {key}")
        refused = [
            call
            for call in mine
            if isinstance(call.error, PreconditionFailed) or call.answer == LATE
        ]
        if refused and len(mine) == 1:
            verdict.run.wrong.append(f"I7 a creation was refused by its own write: {key}")


def _matched(verdict: Judge) -> None:
    """Check replacements of a value that is never written again: each value has one at most."""
    tries = [call for call in verdict.calls if call.verb == "replace_only" and call.acknowledged]
    replaced = Counter((call.arguments[0], call.answer) for call in tries)
    for (key, value), winners in replaced.items():
        if winners > 1:
            verdict.run.wrong.append(f"I7 {key}={value} was replaced {winners} times")


def _touches(call: Call, key: str) -> bool:
    if call.verb in QUIET:
        return False
    if call.verb in ("bulk_job", "splice") and key.startswith("i/"):
        return True
    return call.verb in ("drop", "create", "reset", "hard") or key in call.arguments


def _final(verdict: Judge, *, fully: bool) -> None:
    """Check the end state; with `fully`, then a listing, one more commit, and the end state
    again."""
    run, branch = verdict.run, verdict.branch
    end = Call(0, "end", branch=branch, start=run.world.step + 1, end=run.world.step + 1)
    shown = run.shown(branch)
    verdict.check("I1 end", shown, end)
    if fully:
        if any(call.verb == "protect" for call in verdict.calls):
            run.alone(Call(0, "unprotect", branch=branch))
        listed = run.alone(Call(0, "list", branch=branch))
        last = run.alone(Call(0, "commit", branch=branch))
        if listed.error is not None or listed.answer != shown:
            run.wrong.append(f"I1 {branch} is listed as {listed.answer} {listed.error!r}: {shown}")
        if last.error is None:
            if run.content_of(last.answer) != shown:
                run.wrong.append(f"I1 the last commit of {branch} is not what was seen")
        elif not isinstance(last.error, NoChanges | NotFound):
            run.wrong.append(f"I1 last commit of {branch} failed: {last.error!r}")
        if run.watched(branch).sealed:
            run.wrong.append(f"I1 the last commit of {branch} left sealed tokens")
        if run.shown(branch) != shown:
            run.wrong.append(f"I1 a commit changed what is seen: {shown} {run.shown(branch)}")
    if shown != NO_BRANCH:
        _ancestry(verdict)


def _ancestry(verdict: Judge) -> None:
    run = verdict.run
    if any(call.verb in RESETS for call in verdict.calls):
        return
    seen: set[str] = set()
    todo = [str(run.watched(verdict.branch).heads[-1][1])]
    while todo:
        here = todo.pop()
        if here not in seen:
            seen.add(here)
            record = run.commit_record(here)
            if record is None:
                run.wrong.append(f"I1 a commit of the history is not there: {here}")
            else:
                todo.extend(record.parents)
    for call in verdict.calls:
        if call.acknowledged and call.verb in MOVING and call.answer not in seen:
            run.wrong.append(f"I5 an acknowledged {call.verb} is not in the history")


def _empties(run: Run, calls: Sequence[Call]) -> None:
    made = [call.answer for call in calls if call.verb == "commit_empty" and call.acknowledged]
    if len(set(made)) < len(made):
        run.wrong.append(f"I8 {len(made)} callers of allow_empty got {len(set(made))} commits")


def _calm(run: Run, calls: Sequence[Call]) -> None:
    """No call fails for a reason that is not its caller's own."""
    dropping = any(call.verb == "reset" or call.verb in RESETS for call in calls)
    for call in calls:
        error = call.error
        waited = call.verb == "arrive"  # it waited for a newer event, whose worker had no turn
        if isinstance(error, Unavailable | Contended) and not dropping and not waited:
            run.wrong.append(f"I9 {call.verb} failed though nothing broke: {error!r}")
        elif call.verb == "upload_many" and not dropping and {*(call.answer or ())} != {DONE}:
            run.wrong.append(f"I9 an upload failed though nothing broke: {call.answer}")
        elif call.verb in COMMITS and isinstance(error, Conflict) and not dropping:
            run.wrong.append(f"I9 commit failed for others: {error!r}")
        elif isinstance(error, Refused):
            continue  # `judge_gates` judges it
        elif isinstance(error, GravelerError) and call.verb == "write" and not dropping:
            run.wrong.append(f"I9 write failed: {error!r}")


def count_leaks(run: Run) -> int:
    """The number of rows of unnamed tokens that are left after the janitor has had enough time."""
    run.world.jumped_ns += limits.unnamed_token_seconds * limits.SECOND_NS
    for _ in range(5):
        run.world.jumped_ns += 3 * JUMP_NS
        run.alone(Call(0, "sweep"))
    named = set[str]()
    for branch in ("main", "twin"):
        named |= run.watched(branch).tokens
    row = run.world.rows[run.records][branch_key(BranchId("other"))]
    named |= set(wire.decode_branch(row.value).tokens_newest_first)
    return sum(
        len(rows)
        for partition, rows in run.world.rows.items()
        if partition.startswith(b"s/") and partition[2:].rpartition(b"/")[0].decode() not in named
    )
