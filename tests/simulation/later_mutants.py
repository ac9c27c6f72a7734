"""Breaches of rules that came after the table of docs/explanation/protocol.md; see `mutants.py`."""

from tests.simulation.edits import Edit
from tests.simulation.mutants import (
    BRANCHING,
    COMMIT,
    FILLED_DUE,
    LANDING,
    NO_WAIT,
    OBJECTS,
    RESETTING,
    SEALING,
    SEARCHING,
    WRITING,
    Mutant,
)

BULK_LANDING = "engine.bulk.land"

LATER_MUTANTS = (
    Mutant(
        "T1",
        "the shortest prefix of a path resolves its conflict, not the longest",
        ("merge", "clean"),
        (Edit("committed.merge", "Resolutions.of", "self._lengths", "reversed(self._lengths)"),),
    ),
    Mutant(
        "R1a",
        "a superseding commit is looked for by the newest token that it has folded in",
        ("commits", "clean"),
        (Edit(SEARCHING, "find_by_token", "token in fold.tokens", "token in fold.tokens[-1:]"),),
    ),
    Mutant(
        "R1b",
        "a superseding commit is looked for since the last round's base only",
        ("crowd", "clean"),
        (
            Edit(
                COMMIT,
                "_find_result",
                "call.head_before",
                "drafts[-1].base if drafts else call.head_before",
            ),
        ),
    ),
    Mutant(
        "R2a",
        "a merge does not note which tokens it took off",
        ("merge", "clean"),
        (
            Edit(
                LANDING, "_store", "trim_writes(*__arguments__)", "trim_writes(*__arguments__)[1:]"
            ),
        ),
    ),
    Mutant(
        "R2b",
        "a trim without a commit does not note which tokens it took off",
        ("commits", "clean"),
        (
            Edit(
                COMMIT,
                "_build",
                "trim_writes(*__arguments__)",
                "trim_writes(*__arguments__)[entry is None :]",
            ),
        ),
    ),
    Mutant(
        "R3a",
        "commits with allow_empty do not claim their record",
        ("empty", "clean"),
        (
            Edit(
                COMMIT,
                "_build",
                "__made__ = _store_unique(..., __commit__)",
                """
                commit_ = __commit__
                __made__ = CommitEntry(commit_id(commit_), commit_)
                writes += commits.writes_of(repo.record, __made__.id, commit_, repo.ids.stamp())
                """,
            ),
        ),
    ),
    Mutant(
        "R3b",
        "a commit with allow_empty is answered with somebody else's",
        ("empty", "clean"),
        (Edit(COMMIT, "_find_result", "ABSENT if ... else __token__", "__token__"),),
    ),
    Mutant(
        "R4a",
        "a landing remembers its last round only",
        ("replay", "storm"),
        (Edit(LANDING, "_move", "__tried__.append(__round__)", "__tried__[:] = [__round__]"),),
    ),
    Mutant(
        "R4b",
        "a landing remembers no earlier round",
        ("merge", "amb"),
        (Edit(LANDING, "_move", "__tried__.append(...)", ""),),
    ),
    Mutant(
        "R4c",
        "a landing is refused while its swap may still arrive",
        ("replay", "delay"),
        (Edit(LANDING, "_past_landing", "all(...)", "True"),),
    ),
    Mutant(
        "R4d",
        "a landing is refused after a renewal of the record that may not have happened",
        ("replay", "storm"),
        (
            Edit(
                LANDING,
                "_past_landing",
                """
                if renewed is None:
                    break
                """,
                """
                if renewed is None:
                    return seen
                """,
            ),
        ),
    ),
    Mutant(
        "R5a",
        "a conditional write is refused whatever became of its row",
        ("cond", "storm"),
        (Edit(WRITING, "write_row_if", "__attempts__.sent and _counted(...)", "False"),),
    ),
    Mutant(
        "R5b",
        "a conditional row is swapped whatever the branch record says",
        ("cond", "clean"),
        (
            Edit(
                WRITING,
                "_put_over",
                "area.stage_if(*__arguments__, other=...)",
                "area.stage_if(*__arguments__)",
            ),
        ),
    ),
    Mutant(
        "R6",
        "a write on a branch that was deleted meanwhile is always 'not found'",
        ("branch", "clean"),
        (
            Edit(
                WRITING,
                "second_read",
                "__found__ is ABSENT or __found__.branch.staging == ...",
                "True",
            ),
        ),
    ),
    Mutant(
        "R7a",
        "a bulk deletion does not look whether the token moved",
        ("bulk", "clean"),
        (Edit(OBJECTS, "_delete_all", "__seen__.branch.staging == ...", "True"),),
    ),
    Mutant(
        "R7b",
        "a bulk deletion reads the record before its rows are answered",
        ("bulk", "clean"),
        (
            Edit(
                OBJECTS,
                "_delete_all",
                """
                __results__ = repo.fanout.map(*__puts__)
                __written__ = []
                for __result__ in __results_of_keys__:
                    __note__
                __seen__ = fresh(*__branch__)
                """,
                """
                __seen__ = fresh(*__branch__)
                __results__ = repo.fanout.map(*__puts__)
                __written__ = []
                for __result__ in __results_of_keys__:
                    __note__
                """,
            ),
        ),
    ),
    Mutant(
        "R7c",
        "a bulk deletion takes a row whose outcome is unknown for written",
        ("bulk", "amb"),
        (
            Edit(
                WRITING,
                "put_many_newer",
                "return [__each__ for key in keys]",
                "return [(results[key][0], True) for key in keys]",
            ),
        ),
    ),
    Mutant(
        "R7d",
        "a bulk deletion takes a row of greater order for its own",
        ("bulk", "clean"),
        (Edit(WRITING, "put_rows_newer", "__found__ is WRITTEN or __found__.wid == ...", "True"),),
    ),
    Mutant(
        "R8",
        "a bulk deletion writes tombstones only where something is",
        ("bulk", "clean"),
        (
            Edit(
                OBJECTS,
                "_delete_all.put",
                "return put_many_newer(...)",
                """
                from graveler.engine.objects.read import _value_at
                from graveler.records import ABSENT
                from graveler.refs.names.resolve import ResolvedRef
                where = ResolvedRef(seen.branch.commit, "branch", seen, branch, True)
                there = [key for key in keys if _value_at(repo, where, key) is not ABSENT]
                sent = put_many_newer(repo, token, there, TOMBSTONE, wid, orders)
                answers = dict(zip(there, sent))
                return [answers.get(key, (orders[key], True)) for key in keys]
                """,
            ),
        ),
    ),
    Mutant(
        "R9",
        "a row of greater order is taken for one's own",
        ("core", "clean"),
        (Edit(WRITING, "put_newer", "__found__ is WRITTEN or __found__.wid == ...", "True"),),
    ),
    Mutant(
        "R10a",
        "a commit notes the clean-up after its swap",
        ("commits", "crash"),
        (
            Edit(COMMIT, "_build", "__writes__ += trim_writes(...)", ""),
            Edit(
                COMMIT,
                "_install",
                "return _answer(__draft__)",
                """
                call.repo.kv.set_many(
                    trim_writes(call.repo, call.branch, __draft__.head, __draft__.tokens)
                )
                __old__
                """,
            ),
        ),
    ),
    Mutant(
        "R10b",
        "a reset notes no clean-up",
        ("reset", "clean"),
        (Edit(RESETTING, "reset", "repo.kv.set_many(...)", ""),),
    ),
    Mutant(
        "R11a",
        "the janitor waits for nothing",
        ("core", "clean"),
        (
            NO_WAIT,
            Edit(SEALING, "trim_writes", "__now_ns__ + __grace_ns__", "__now_ns__"),
        ),
    ),
    Mutant(
        "R12",
        "a filled token may be cleaned at once, by a janitor that looks but does not wait",
        ("reset", "clean"),
        (
            FILLED_DUE,
            NO_WAIT,
        ),
    ),
    Mutant(
        "R13",
        "a creation whose answer was lost is refused although it made the branch",
        ("branch", "storm"),
        (
            Edit(
                BRANCHING,
                "_check_made",
                "__now__.branch.origin == token",
                "False",
            ),
        ),
    ),
    Mutant(
        "R14",
        "a retried link is refused by its own staged row",
        ("upload", "clean"),
        (Edit(WRITING, "write_row_if", "_mark(...) if ... else __stamp__", "__stamp__"),),
    ),
    Mutant(
        "R15",
        "a branch that grows renames its open token, so that rows are looked for elsewhere",
        ("commits", "clean"),
        (
            Edit(
                COMMIT,
                "_advance",
                "__record__._replace(*__columns__)",
                """
                __record__._replace(
                    *__columns__,
                    staging=StagingToken(
                        __record__.staging.rpartition(".")[0] + ".%d" % max(
                            call.repo.record.staging_shards,
                            min(draft.rows, call.repo.settings.staging_shards_max),
                        )
                    ),
                )
                """,
            ),
        ),
    ),
    Mutant(
        "R16a",
        "a bulk job lands under rows in its folder",
        ("beside", "clean"),
        (Edit(BULK_LANDING, "_beside.has_obstacle", "return bool(__others__)", "return False"),),
    ),
    Mutant(
        "R16b",
        "a bulk merge lands under rows on its paths",
        ("beside", "clean"),
        (Edit(BULK_LANDING, "_beside.has_obstacle", "return any(...)", "return False"),),
    ),
    Mutant(
        "R16c",
        "a bulk job looks at the open token alone",
        ("beside", "clean"),
        (
            Edit(
                LANDING,
                "_is_obstructed",
                "seen.branch.tokens_newest_first",
                "(seen.branch.staging,)",
            ),
        ),
    ),
    Mutant(
        "R16d",
        "a bulk job takes off the sealed tokens beside which it lands",
        ("beside", "clean"),
        (
            Edit(
                LANDING,
                "_check_and_seal",
                """
                if beside is not ABSENT and __is_free__:
                    return seen, ()
                """,
                """
                if beside is not ABSENT and __is_free__:
                    return seen, seen.branch.sealed
                """,
            ),
        ),
    ),
)
