"""Which values a reader may see: the writes of one branch, and whether an observation is legal.

A value is legal for an observation if two things hold: a write of this value began before the
observation ended, and no acknowledged write of another value lies entirely between that write and
the observation.  Merges, resets, imports, replays and the deletion of a branch are writes too.  A
refused call writes nothing that counts, but a reader may see its row for a while.
"""

from collections.abc import Sequence
from typing import NamedTuple

from graveler.core.errors import (
    Conflict,
    Contended,
    DirtyBranch,
    Invalid,
    NoChanges,
    NotFound,
    PreconditionFailed,
    Refused,
)
from graveler.core.ids import CommitId
from simulator.histories import Run
from simulator.schedule import NEVER, Call
from simulator.stage import GONE, KEYS, NO_BRANCH, Content, checksum_of
from simulator.verbs.arrivals import Event
from simulator.verbs.calls import PROPOSED
from simulator.verbs.landings import PUT
from simulator.verbs.uploads import DONE, REFUSED, pairs, possible_checksums, whole_checksum

# Errors after which a call certainly had no effect.
REFUSALS = (
    NotFound,
    NoChanges,
    DirtyBranch,
    PreconditionFailed,
    Invalid,
    Refused,
    Conflict,
    Contended,
)
STAGING = (
    "write",
    "upload",
    "delete",
    "create_only",
    "replace_only",
    "link",
    "link_only",
    "note",
)
BULK = ("bulk_job", "bulk_merge", "splice", "batch")  # they land beside staged rows
LANDING = ("merge", "squash", "revert", "pick", "import", "import_job", "pack", *BULK)
Value = str | None


class KeyWrite(NamedTuple):
    """One write of a key: when it ran, and which values it may have left."""

    start: int
    end: int
    values: frozenset[Value]
    refused: bool
    number: str = ""  # of user metadata: the write keeps the rest of the entry
    sequence: int = 0  # of an event: a newer event of its object hides it, in any order of arrival
    beaten: bool = False  # an event that may have arrived after a newer one, and changed nothing


class Judge:
    """The writes of one branch, and which values were legal at which time."""

    def __init__(self, run: Run, branch: str, calls: Sequence[Call]) -> None:
        self.run = run
        self.branch = branch
        self.calls = [call for call in calls if call.branch == branch and call.start != NEVER]
        self.writes: dict[str, list[KeyWrite]] = {}
        for call in self.calls:
            if call.verb not in ("arrive", "upload_parts", "finish"):
                self._add(call)
        for call in self.calls:
            if call.verb == "upload_parts":
                self._add_upload(call)
        self._add_events([call for call in self.calls if call.verb == "arrive"])
        self.untouched = {
            key: value for key, value in run.stage.start.items() if key not in self.writes
        }

    def _add(self, call: Call) -> None:
        if call.verb == "upload_many" and call.acknowledged:
            self._add_uploads(call)
            return
        refused = isinstance(call.error, REFUSALS)
        if (refused and call.verb not in STAGING) or self.is_of_another(call):
            return
        end = call.end if call.acknowledged and not self._landed_perhaps_twice(call) else NEVER
        if call.verb == "pull_merge":  # its commit may have landed by an earlier call
            end = NEVER
        number = call.arguments[1] if call.verb == "note" else ""
        for key, values in self._effects(call).items():
            until = NEVER if call.verb == "delete_many" and key in (call.answer or ()) else end
            self._put(key, KeyWrite(call.start, until, frozenset(values), refused, number))

    def is_of_another(self, call: Call) -> bool:
        """Whether a batch was answered with a commit that another call has made."""
        if call.verb != "batch" or not call.acknowledged:
            return False
        made = self.run.commit_record(call.answer)
        return made is not None and made.metadata.get(PUT) != call.arguments[1]

    def _put(self, key: str, found: KeyWrite) -> None:
        before = self.writes.get(key)
        if before is None:
            first = KeyWrite(-1, -1, frozenset((self.run.stage.start[key],)), False)
            before = self.writes[key] = [first]
        before.append(found)

    def _add_uploads(self, call: Call) -> None:
        """Each of several uploads is a write of its own, with an end of its own.  Of those of one
        path that are done, only the last was staged."""
        ended = [(*pair, end) for pair, end in zip(pairs(call), call.answer, strict=True)]
        last = {key: value for key, value, end in ended if end == DONE}
        for key, value, end in ended:
            if end != DONE or last[key] == value:
                until = call.end if end == DONE else NEVER
                values = frozenset((checksum_of(value),))
                self._put(key, KeyWrite(call.start, until, values, end == REFUSED))

    def _add_upload(self, call: Call) -> None:
        """An upload is one write, whoever completes it, and however often.  The write ends when the
        first completion is acknowledged."""
        key, value = call.arguments
        others = [other for other in self.calls if other.verb == "finish"]
        done = [other for other in others if other.acknowledged and value in other.answer.checksums]
        ends = [other.end for other in done]
        checksums = {str(other.answer.checksums[value]) for other in done}
        if call.acknowledged:
            ends.append(call.end)
            checksums.add(call.answer)
            if call.answer != whole_checksum(value, self.run.stage):
                self.run.wrong.append(f"I10 an upload was made of other parts: {value}")
        if len(checksums) > 1:
            self.run.wrong.append(f"I10 two objects were made of one upload: {checksums}")
        is_unknown = any(
            not other.acknowledged or value in other.answer.unknown for other in others
        )
        refused = isinstance(call.error, REFUSALS) and not ends and not is_unknown
        possible = possible_checksums(value, self.run.stage)
        values = frozenset(checksums or possible)
        self._put(key, KeyWrite(call.start, min(ends, default=NEVER), values, refused))

    def _add_events(self, deliveries: Sequence[Call]) -> None:
        """An event is one write, however often it is delivered.  The write ends when the first
        delivery of the event is acknowledged."""
        told: dict[Event, list[Call]] = {}
        for call in deliveries:
            for event in call.arguments:
                told.setdefault(event, []).append(call)
        starts = {event: min(call.start for call in calls) for event, calls in told.items()}
        for event, calls in told.items():
            end = min((call.end for call in calls if call.acknowledged), default=NEVER)
            beaten = any(
                other.key == event.key and other.sequence > event.sequence and start <= end
                for other, start in starts.items()
            )
            values = frozenset((event.value,))
            number, sequence = "", event.sequence
            found = KeyWrite(starts[event], end, values, False, number, sequence, beaten)
            self._put(event.key, found)

    def _effects(self, call: Call) -> dict[str, set[Value]]:
        verb = call.verb
        if verb in ("write", "create_only", "replace_only", "link", "link_only"):
            return {call.arguments[0]: {call.arguments[1]}}
        if verb == "upload":
            return {call.arguments[0]: {checksum_of(call.arguments[1])}}
        if verb == "upload_many":
            values: dict[str, set[Value]] = {}
            for key, value in pairs(call):
                values.setdefault(key, set()).add(checksum_of(value))
            return values
        if verb == "delete":
            return {call.arguments[0]: {GONE}}
        if verb == "delete_many":
            return {key: {GONE} for key in call.arguments}
        if verb == "note":
            return {call.arguments[0]: self._noted(*call.arguments)}
        if verb in LANDING:
            return self._landed(call)
        if verb == "pull_merge":
            return self._proposed()
        return self._moved(call)

    def _proposed(self) -> dict[str, set[Value]]:
        """What the merge of the pull request may bring."""
        more: set[Value] = {GONE}
        more |= {call.arguments[1] for call in self.calls if call.verb == "advance"}
        merged = self.run.stage.merged
        return {**{key: {value} for key, value in merged.items()}, PROPOSED: more}

    def _moved(self, call: Call) -> dict[str, set[Value]]:
        """The values of all paths after a branch was reset or dropped."""
        verb, start = call.verb, self.run.stage.start
        if verb in ("hard", "create"):
            return {key: {value} for key, value in start.items()}
        if verb == "adopt":
            merged = self.run.stage.merged
            return {key: {merged.get(key, value)} for key, value in start.items()}
        if verb == "hard_back":
            behind = self._behind_heads(call)
            return {key: {content.get(key) for content in behind} for key in KEYS}
        if verb in ("reset", "prefix", "reset_path"):
            return self._dropped(call)
        return {key: {NO_BRANCH} for key in KEYS} if verb == "drop" else {}

    def _noted(self, key: str, number: str) -> set[Value]:
        """All values that a path may have after its user metadata was set."""
        plain = {self.run.stage.start[key]}
        for call in self.calls:
            if call.verb == "write" and call.arguments[0] == key:
                plain.add(call.arguments[1])
        return {f"{value}#{number}" for value in plain if value is not GONE}

    def _landed(self, call: Call) -> dict[str, set[Value]]:
        stage = self.run.stage
        if call.verb == "pack":
            return {}
        if (
            call.verb in ("merge", "squash")
            and call.acknowledged
            and self._merged_before(call.answer)
            and not self._landed_perhaps_twice(call)
        ):
            return {}  # the source equals the base
        if call.verb == "revert":
            return {"r1": {"r1-a"}}
        if call.verb in ("bulk_merge", "batch"):
            return {call.arguments[0]: {call.arguments[1]}}
        if call.verb == "splice":
            gone: dict[str, set[Value]] = {key: {GONE} for key in KEYS if key.startswith("i/")}
            own: dict[str, set[Value]] = {call.arguments[0]: {call.arguments[1]}}
            return {**gone, **own} if call.arguments[0].startswith("i/") else own
        if call.verb in ("import", "import_job", "bulk_job"):
            return {key: {stage.imported.get(key)} for key in ("i/a", "i/b", "i/c")}
        return {key: {value} for key, value in stage.merged.items()}

    def _landed_perhaps_twice(self, call: Call) -> bool:
        """Whether a merge may have landed without an answer, been undone by a reset, and landed
        again.  Readers then saw its content, although the commit that it returned need not change
        anything."""
        return call.verb in ("merge", "squash") and any(
            other.verb in ("hard", "hard_back", "adopt", "drop")
            and other.start <= call.end
            and other.end >= call.start
            for other in self.calls
        )

    def _merged_before(self, merged: str) -> bool:
        todo = [str(self._parents(merged)[0])]
        while todo:
            here = todo.pop()
            if here == self.run.stage.other:
                return True
            todo.extend(self._parents(here))
        return False

    def _parents(self, commit: str) -> Sequence[str]:
        record = self.run.commit_record(commit)
        return () if record is None else record.parents

    def _dropped(self, call: Call) -> dict[str, set[Value]]:
        contents = self.heads_within(call)
        everything = call.verb == "reset"
        stem = "" if everything else call.arguments[0]
        alone = call.verb == "reset_path"
        keys = [key for key in KEYS if (key == stem if alone else key.startswith(stem))]
        return {key: {content.get(key) for content in contents} for key in keys}

    def _behind_heads(self, call: Call) -> list[Content]:
        """The contents of the first parents of the heads during a call."""
        parents = {parent for head in self.within(call) for parent in self._parents(head)[:1]}
        return [self.run.content_of(parent) for parent in sorted(parents)]

    def heads_within(self, call: Call) -> list[Content]:
        """The contents of the heads during a call."""
        return [self.run.content_of(head) for head in self.within(call)]

    def within(self, call: Call) -> list[CommitId]:
        """The heads during a call."""
        end = call.end if call.acknowledged or call.error is not None else NEVER
        heads = self.run.watched(self.branch).heads
        found = []
        for index, (since, head) in enumerate(heads):
            until = heads[index + 1][0] if index + 1 < len(heads) else NEVER
            known = head and self.run.commit_record(head) is not None
            if known and since <= end and until >= call.start:
                found.append(head)
        return found

    # ---- legality ----

    def legal(self, key: str, value: Value, start: int, end: int, *, seen: bool = False) -> bool:
        """Whether the value is legal (see the module).  `seen`: by a reader, who may see a row of a
        refused call."""
        writes = self.writes.get(key)
        if writes is None:
            return value == self.untouched[key]
        for write in writes:
            if value not in write.values or write.start > end or (write.refused and not seen):
                continue
            if hidden(writes, write.end, start, value) or not self._based(key, value, write):
                continue
            if not write.sequence or not outdone(writes, write, start):
                return True
        return False

    def _based(self, key: str, value: Value, write: KeyWrite) -> bool:
        """Whether the value under the user metadata could be seen when the metadata was set."""
        if not write.number or value is None:
            return True
        plain = value.partition("#")[0]
        for other in self.writes[key]:
            if other.start > write.end or other.refused or other is write:
                continue
            for base in other.values:
                same = base is not None and base.partition("#")[0] == plain
                if same and not hidden(self.writes[key], other.end, write.start, base):
                    return True
        return False

    def check(self, what: str, found: Content | str, call: Call) -> None:
        """Check every key of an observed content (or of a missing branch)."""
        seen = what == "I3 list"
        for key in KEYS:
            value = NO_BRANCH if isinstance(found, str) else found.get(key)
            if not self.legal(key, value, call.start, call.end, seen=seen):
                self.run.wrong.append(
                    f"{what}: {self.branch}/{key}={value} seen in [{call.start}, {call.end}]"
                )


def hidden(writes: Sequence[KeyWrite], after: int, before: int, value: Value) -> bool:
    return any(
        after < other.start
        and other.end < before
        and value not in other.values
        and not other.beaten
        for other in writes
    )


def outdone(writes: Sequence[KeyWrite], event: KeyWrite, before: int) -> bool:
    """Whether a newer event of the object was acknowledged before."""
    return any(other.sequence > event.sequence and other.end < before for other in writes)
