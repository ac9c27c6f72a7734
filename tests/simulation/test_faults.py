"""The checker has teeth: each fault at a port breaks a rule, and the seeds of its family notice it.

`FAULTS` names the rule (of docs/explanation/protocol.md or of a port), the family and profile whose
seeds are searched, how a violation that must be found begins, and the port that breaks the rule.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from graveler.core.errors import GravelerError
from simulator.access import check_access
from simulator.exhaustive import Bound, search
from simulator.families import FAMILIES
from simulator.gc.run import check_collect_seed
from simulator.gc.stage import CollectStage, build_collect_stage
from simulator.histories import JANITOR
from simulator.invariants import check_seed
from simulator.logins import check_first_logins, check_logins
from simulator.schedule import Breach
from simulator.stage import Stage, build_stage
from tests.simulation import faults as f
from tests.simulation.faults import at

SEEDS_MAX = 2_000
COLLECTOR = 90
Stages = tuple[Stage, CollectStage]


class Fault(NamedTuple):
    """See the module."""

    rule: str
    family: str
    profile: str
    noticed: str
    breach: Breach


def _kv(kind: Callable[..., Any], *given: Any) -> Breach:
    return at("kv", kind, *given)


FAULTS = (
    # ---- the branch record and its tokens
    Fault(
        "a swap lands only over the record that it names", "commits", "clean", "I5",
        _kv(f.BlindSwaps, f.RECORDS, f.BRANCHES),
    ),
    Fault(
        "a packed content lands only on the head that it was made of", "pack", "clean", "I5",
        _kv(f.BlindSwaps, f.RECORDS, f.BRANCHES),
    ),
    Fault(
        "a relative reset steps back from the head that it read", "back", "clean", "N5",
        _kv(f.BlindSwaps, f.RECORDS, f.BRANCHES),
    ),
    Fault(
        "a hard reset is counted", "back", "storm", "N5",
        _kv(f.Rewritten, f.RECORDS, f.BRANCHES, f.resets_uncounted),
    ),
    Fault(
        "the second read of a writer is fresh", "core", "clean", "I2",
        _kv(f.StaleReads, f.RECORDS, f.BRANCHES),
    ),
    Fault(
        "sealed tokens are folded in from the oldest on", "commits", "clean",
        "unexpected AssertionError('what is folded is the oldest sealed')",
        _kv(f.Rewritten, f.RECORDS, f.BRANCHES, f.newest_sealed_first),
    ),
    Fault(
        "only the janitor deletes the rows of a token", "core", "clean", "I3",
        _kv(f.TokensDropped),
    ),
    Fault(
        "tokens leave a record only with the head that has their rows", "merge", "clean", "I1",
        _kv(f.HeadLeftBehind),
    ),
    Fault(
        "the record of a deleted branch stays", "branch", "delay", "I2",
        _kv(f.RemovedWhenDeleted, f.RECORDS, f.DELETED),
    ),
    Fault("a version is used once", "twins", "clean", "I5", at("ids", f.SameStamp)),
    # ---- commits
    Fault(
        "a commit is stored before the swap that makes it the head", "adopt", "clean", "I1",
        _kv(f.Unkept, f.RECORDS, f.COMMITS),
    ),
    Fault(
        "a commit with allow_empty claims its record", "empty", "clean", "I8",
        _kv(f.BlindSwaps, f.RECORDS, f.COMMITS),
    ),
    Fault(
        "a fold names every token that a commit took in", "crowd", "clean", "I9",
        _kv(f.Rewritten, f.RECORDS, f.FOLDS, f.newest_token_only),
    ),
    Fault(
        "a metarange is what its commit says", "replay", "clean", "I3",
        at("ranges", f.MetarangeMistaken),
    ),
    Fault(
        "a commit is shared with callers that came before its work began", "shared", "clean", "I2",
        at("turns", f.ResultsKept),
    ),
    Fault("a veto stops the commit", "shared", "clean", "I11", at("hooks", f.VetoIgnored)),
    # ---- staged rows
    Fault("an acknowledged row is kept", "core", "clean", "I1", _kv(f.Unkept, f.STAGED)),
    Fault("the row of greater order stays", "core", "delay", "I1", _kv(f.OrderIgnored)),
    Fault(
        "a row that was refused is put again", "core", "clean", "I3", _kv(f.OlderIsWritten)
    ),
    Fault(
        "a reset fills its token with what the commit says", "reset", "clean", "I1",
        _kv(f.Unkept, f.STAGED),
    ),
    Fault("a scan shows every row", "commits", "clean", "I2", _kv(f.RowMissed, f.STAGED)),
    Fault(
        "a bulk job looks at every row that can be in its way", "beside", "clean", "I2",
        _kv(f.RowMissed, f.STAGED),
    ),
    Fault(
        "a splice looks at every row that can be in its way", "splice", "clean", "I",
        _kv(f.RowMissed, f.STAGED),
    ),
    Fault(
        "a splice guards what its base had", "splice", "clean", "I12", _kv(f.BaseForgotten)
    ),
    Fault(
        "the mark of a stream is one write with the branch record", "streams", "clean", "I12",
        _kv(f.LoneSwaps, f.RECORDS, f.BRANCHES),
    ),
    Fault(
        "a batch lands only over the record that its mark was read after", "streams", "clean", "I",
        _kv(f.BlindSwaps, f.RECORDS, f.BRANCHES),
    ),
    Fault(
        "a batch has landed only if its commit is in the history", "streams", "clean", "I12",
        _kv(f.Rewritten, f.RECORDS, f.BRANCHES, f.resets_uncounted),
    ),
    Fault("a deletion is a row", "bulk", "clean", "I2", _kv(f.DeletionsUnseen)),
    Fault(
        "of two creations of a path one wins", "cond", "clean", "I7", _kv(f.BlindSwaps, f.STAGED)
    ),
    Fault(
        "a conditional row is guarded by the branch record", "cond", "clean", "I7",
        _kv(f.UnguardedSwaps),
    ),
    Fault(
        "of two replacements of a value one wins", "match", "clean", "I7",
        _kv(f.BlindSwaps, f.STAGED),
    ),
    Fault(
        "user metadata is set on the entry that was read", "note", "clean", "I2",
        _kv(f.BlindSwaps, f.STAGED),
    ),
    Fault(
        "of two links to an absent path one wins", "upload", "clean", "I7",
        _kv(f.BlindSwaps, f.STAGED),
    ),
    Fault("each upload of a batch is kept", "batches", "clean", "I1", _kv(f.LastUnkept)),
    Fault(
        "a row without an answer is not acknowledged", "batches", "amb", "I3",
        _kv(f.UnknownIsWritten),
    ),
    Fault(
        "row and record of an upload are written in one step", "parts", "clean", "I1",
        _kv(f.HalvedPairs),
    ),
    # ---- names, jobs, pull requests, rules
    Fault("a tag is made once", "tags", "clean", "N2", _kv(f.BlindSwaps, f.RECORDS, f.TAGS)),
    Fault(
        "a refusal says that the write was not applied", "tags", "clean", "N1",
        _kv(f.FalselyDeclined, f.RECORDS, f.TAGS),
    ),
    Fault(
        "a removed pair leaves an empty row", "pairs", "delay", "N1",
        _kv(f.RemovedWhenDeleted, f.RECORDS, f.PAIRS),
    ),
    Fault(
        "a job that is landing is not cancelled", "cancel", "clean", "N4",
        _kv(f.BlindSwaps, f.RECORDS, f.JOBS),
    ),
    Fault(
        "a cancelled job of a cluster does not land", "cluster", "clean", "N4",
        _kv(f.BlindSwaps, f.RECORDS, f.JOBS),
    ),
    Fault("an import takes in every object", "import", "clean", "I", at("blocks", f.ObjectMissed)),
    Fault(
        "a rule is in force when it is acknowledged", "guard", "clean", "G1",
        _kv(f.StaleReads, b"repos"),
    ),
    Fault(
        "the merge of a pull request carries its mark", "pulls", "clean", "G4",
        _kv(f.Rewritten, f.RECORDS, f.COMMITS, f.unmarked),
    ),
    Fault(
        "a pull request that was merged says so", "pulls", "clean", "G3",
        _kv(f.Unkept, f.RECORDS, f.PULLS),
    ),
    Fault(
        "a merge notes its swap before it sends it", "rollbacks", "crash", "G3",
        _kv(f.Rewritten, f.RECORDS, f.PULLS, f.swaps_unnoted),
    ),
    # ---- events
    Fault(
        "what counted once counts for ever", "arrivals", "clean", "E2", _kv(f.Unkept, f.EVENTS)
    ),
    Fault(
        "an event is one write with its row", "arrivals", "clean", "E2", _kv(f.HalvedPairs)
    ),
    Fault(
        "a batch is closed once", "arrivals", "clean", "E", _kv(f.BlindSwaps, f.RECORDS, f.BATCHES)
    ),
    # ---- the janitor, garbage collection
    Fault(
        "a clean-up is noted before the swap", "commits", "clean", "LEAK",
        _kv(f.Unkept, f.RECORDS, f.CLEANUPS),
    ),
    Fault(
        "the janitor waits for its grace", "commits", "clean", "I9",
        at("clock", f.FastClock, JANITOR),
    ),
    Fault(
        "a staged row uses its object", "collect", "clean", "deleted in use",
        _kv(f.Unseen, f.STAGED),
    ),
    Fault(
        "a condemned commit may not be used", "collect", "clean", "",
        _kv(f.Unseen, f.RECORDS, f.CONDEMNED),
    ),
    Fault(
        "a collection waits for its undo period", "collect", "clean", "",
        at("clock", f.FastClock, COLLECTOR),
    ),
    Fault(
        "a file that was written again is not deleted", "collect", "kill", "",
        at("blocks", f.AnyObjectDeleted),
    ),
    # ---- users, groups, policies, principals
    Fault(
        "a right is looked at again when its view is old", "access", "clean", "V1",
        at("clock", f.StoppedClock),
    ),
    Fault(
        "a policy that is attached grants", "access", "clean", "V2",
        _kv(f.Unseen, b"auth/policies"),
    ),
    Fault("no link lacks its row", "access", "clean", "V4", _kv(f.Unkept, b"auth/members")),
    Fault(
        "a removed link leaves no row", "access", "clean", "V5",
        _kv(f.UnkeptRemovals, b"auth/holders"),
    ),
    Fault(
        "an ended principal lets nobody in", "logins", "clean", "W1", _kv(f.Unkept, b"auth/users")
    ),
    Fault(
        "a principal lets in whom it stands for", "logins", "clean", "W2",
        _kv(f.Unkept, b"auth/principals"),
    ),
    Fault(
        "an ended principal leaves no row", "logins", "clean", "W3",
        _kv(f.UnkeptRemovals, b"auth/principals"),
    ),
    Fault(
        "a subject has one user", "first_logins", "clean", "X1",
        _kv(f.BlindSwaps, b"auth/users"),
    ),
    Fault(
        "an older token changes no groups", "first_logins", "clean", "X3",
        _kv(f.BlindSwaps, b"auth/users"),
    ),
    Fault(
        "no membership of a token lacks its row", "first_logins", "clean", "X4",
        _kv(f.Unkept, b"auth/members"),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def stages() -> Stages:
    return build_stage(), build_collect_stage()


def _wrong(stages: Stages, fault: Fault, seed: int) -> list[str]:
    others = {"access": check_access, "logins": check_logins, "first_logins": check_first_logins}
    if fault.family in others:
        return others[fault.family](fault.profile, seed, fault.breach).wrong
    if fault.family != "collect":
        return check_seed(stages[0], fault.family, fault.profile, seed, fault.breach).wrong
    try:
        return check_collect_seed(stages[1], fault.profile, seed, fault.breach).wrong
    except GravelerError as error:  # who goes on after the run may look for what is gone
        return [str(error)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.family}: {fault.rule}")
def test_a_fault_is_noticed(stages: Stages, fault: Fault) -> None:
    for seed in range(SEEDS_MAX):
        if any(each.startswith(fault.noticed) for each in _wrong(stages, fault, seed)):
            return
    pytest.fail(f"nothing was noticed in {SEEDS_MAX} seeds")


def test_every_family_can_fail() -> None:
    own = {"collect", "access", "logins", "first_logins"}
    assert {fault.family for fault in FAULTS} == FAMILIES.keys() | own


def test_the_exhaustive_search_can_fail(stages: Stages) -> None:
    breach = _kv(f.BlindSwaps, f.RECORDS, f.BRANCHES)
    assert search(stages[0], "w c|w c", Bound(preemptions=2), breach).wrong
