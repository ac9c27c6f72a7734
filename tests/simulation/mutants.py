"""Broken variants of the protocol, each the breach of one rule, and where it is looked for.

Each of S1 to S28 takes one correction of the published design out of the verbs, or breaks a rule of
docs/explanation/protocol.md.  R1 and on, in later_mutants.py, break rules that came later.
`cell`: the family and the profile whose seeds are searched.
"""

from typing import NamedTuple

from tests.simulation.edits import Edit

COMMIT, LANDING = "engine.commits.commit", "engine.commits.land"
SEALING, SCANNING = "engine.commits.seal", "engine.commits.seal"
SEARCHING = "engine.commits.search"
WRITING, READS, OBJECTS, RESETTING = (
    "engine.objects.rows",
    "engine.objects.read",
    "engine.objects.write",
    "engine.commits.reset",
)
BRANCHING, JANITOR, AREA, STACK = (
    "engine.names",
    "engine.janitor",
    "staging.area",
    "staging.stack",
)


class Mutant(NamedTuple):
    """See the module."""

    name: str
    breach: str
    cell: tuple[str, str]
    edits: tuple[Edit, ...]


_REBUILD = Edit(
    COMMIT,
    "_run_tries",
    """
    if not drafts or ... != (base, tokens):
        __build__
    """,
    """
    if drafts:
        drafts.append(drafts[-1]._replace(tokens=tokens))
    else:
        __build__
    """,
)
# Built on the head of the call's beginning whatever the head is now, from all deltas.
_REPARENT = (
    Edit(
        COMMIT,
        "_run_tries",
        "_build(__attempt__, __base__, __folding__._replace(*__tokens__))",
        "_build(__attempt__, __base__, __folding__)._replace(*__tokens__)",
    ),
    Edit(
        COMMIT, "_build", "commit_of(*__lake__, base_id)", "commit_of(*__lake__, call.head_before)"
    ),
)
DROP_NOW = Edit(
    COMMIT,
    "_install",
    "return _answer(__draft__)",
    """
    from graveler.staging import area

    for token in __draft__.tokens:
        area.drop(call.repo.kv, token)
    __old__
    """,
)
_NO_RECHECK = Edit(JANITOR, "_named", "return ...", "return False")
NO_WAIT = Edit(JANITOR, "_tend", "... < __cleanup__.marked_ns + ...", "False")
FILLED_DUE = Edit(RESETTING, "_noted", "area.born_ns(...) + ...", "0")

MUTANTS = (
    Mutant(
        "S1",
        "a commit is installed on a head it was not built on",
        ("commits", "clean"),
        (_REBUILD,),
    ),
    Mutant(
        "S2",
        "re-parented only, and tokens dropped at once",
        ("commits", "clean"),
        (
            *_REPARENT,
            DROP_NOW,
        ),
    ),
    Mutant("S3", "re-parented only: a merge is overwritten", ("merge", "clean"), _REPARENT),
    Mutant(
        "S4",
        "sealed tokens newest first",
        ("commits", "clean"),
        (
            Edit(
                SEALING,
                "seal",
                "(*__record__.sealed, __record__.staging)",
                "(__record__.staging, *__record__.sealed)",
            ),
        ),
    ),
    Mutant(
        "S5",
        "swapped over a record read again, and all sealed tokens cleared",
        ("commits", "clean"),
        (
            Edit(
                COMMIT,
                "_advance",
                "assert ..., ...",
                """
                seen = fresh(call.repo, call.branch)
                record = seen.branch
                draft = draft._replace(tokens=record.sealed)
                """,
            ),
        ),
    ),
    Mutant(
        "S6",
        "rebuilt from the difference to the old base instead of the deltas",
        ("commits", "clean"),
        (
            Edit(
                SCANNING,
                "scan",
                "space = keyspace(...)",
                """
                from graveler.committed import reader

                __old__
                bases: list[MetarangeId] = []
                """,
            ),
            Edit(
                SCANNING,
                "scan.content",
                "__applied__ = apply(__space__, __base__, __deltas__)",
                """
                bases.append(__base__)
                before = bases[0]
                deltas_ = __deltas__
                stored = reader.get_many(__space__, before, [key for key, _ in deltas_])
                changes = [
                    (key, value)
                    for key, value in deltas_
                    if (stored.get(key) != value) and (isinstance(value, bytes) or key in stored)
                ]
                __applied__ = apply(__space__, __base__, changes)
                """,
            ),
        ),
    ),
    Mutant(
        "S7",
        "deletions lost while tokens are combined",
        ("core", "clean"),
        (
            Edit(
                STACK,
                "combine",
                "sorted(__items__, *__order__)",
                "sorted([item for item in __items__ if isinstance(item[1], bytes)], *__order__)",
            ),
        ),
    ),
    Mutant(
        "S8",
        "tokens that are gone are taken for committed, after a reset too",
        ("reset", "clean"),
        (
            Edit(
                COMMIT,
                "_find_or_raise",
                "raise changes_lost(...)",
                """
                head = seen.branch.commit
                return CommitEntry(head, commit_of(call.repo, head))
                """,
            ),
        ),
    ),
    Mutant(
        "S9",
        "'no changes' without a swap",
        ("commits", "clean"),
        (
            Edit(
                COMMIT,
                "_install",
                "_advance(*__arguments__)",
                "seen if draft.made is None else _advance(*__arguments__)",
            ),
        ),
    ),
    Mutant(
        "S10",
        "a writer does not read a second time",
        ("core", "clean"),
        (
            Edit(
                WRITING,
                "_write",
                "__seen__ = second_read(...)",
                """
                if written:
                    return
                __old__
                """,
            ),
        ),
    ),
    Mutant(
        "S11",
        "the second read comes from a cache",
        ("core", "clean"),
        (Edit(WRITING, "second_read", "branches.find(...)", "cached(repo, branch)"),),
    ),
    Mutant(
        "S12",
        "the second read was under way before the write was answered",
        ("core", "clean"),
        (
            Edit(
                WRITING,
                "_write",
                """
                __order__, __written__ = put_newer(__ports__, __token__, *__row__)
                __before__ = __token__
                __seen__ = second_read(*__read__)
                """,
                """
                __before__ = __token__
                __seen__ = second_read(*__read__)
                __order__, __written__ = put_newer(__ports__, __before__, *__row__)
                """,
            ),
        ),
    ),
    Mutant(
        "S14",
        "readers use a cached record",
        ("core", "clean"),
        (
            Edit(
                READS,
                "stat",
                "__where__ = resolved(...)",
                """
                from graveler.engine.commits.heads import cached
                from graveler.ids import BranchId
                found = cached(repo, BranchId(ref))
                __where__ = ResolvedRef(found.branch.commit, "branch", found, BranchId(ref), True)
                """,
            ),
        ),
    ),
    Mutant("S15", "tokens dropped at once, under readers", ("core", "clean"), (DROP_NOW,)),
    Mutant(
        "S16",
        "a deletion only where something is",
        ("core", "clean"),
        (
            Edit(
                WRITING,
                "_write",
                "__order__, __written__ = put_newer(...)",
                """
                state = look(repo, seen, key, WriteState(b"", ABSENT, []))
                if value is TOMBSTONE and state.present is ABSENT:
                    __written__ = True
                else:
                    __old__
                """,
            ),
        ),
    ),
    Mutant(
        "S17",
        "a deletion removes the row where the commit has none",
        ("core", "clean"),
        (
            Edit(
                WRITING,
                "_write",
                "__order__, __written__ = put_newer(...)",
                """
                head = commit_of(repo, seen.branch.commit)
                bare = reader.get(keyspace(repo), head.metarange, key) is ABSENT
                if value is TOMBSTONE and bare:
                    partition, place = area.place_of(seen.branch.staging, key)
                    repo.kv.delete(partition, [place])
                    __written__ = True
                else:
                    __old__
                """,
            ),
        ),
    ),
    Mutant(
        "S18",
        "a merge seals, but does not look again",
        ("merge", "clean"),
        (
            Edit(
                LANDING,
                "_check_and_seal",
                """
                __tokens__ = __sealed__.branch.sealed
                check_clean(...)
                """,
                "__tokens__ = __sealed__.branch.sealed",
            ),
        ),
    ),
    Mutant(
        "S19",
        "a merge leaves rows on top that say what the old head says",
        ("merge", "clean"),
        (Edit(LANDING, "_check_and_seal", "__sealed__ = seal(...)", "return seen, ()"),),
    ),
    Mutant(
        "S20",
        "a reset of a prefix drops its filled token when the swap seems to have failed",
        ("reset", "amb"),
        (
            Edit(
                RESETTING,
                "_cover",
                """
                if _is_swapped(...):
                    ...
                """,
                """
                __old__
                area.drop(repo.kv, token)
                """,
            ),
        ),
    ),
    Mutant(
        "S21",
        "a filled token may be cleaned at once, by a janitor that waits for nothing",
        ("reset", "clean"),
        (
            FILLED_DUE,
            _NO_RECHECK,
            NO_WAIT,
        ),
    ),
    Mutant(
        "S22",
        "a committer removes its record when the swap seems to have failed",
        ("commits", "amb"),
        (
            Edit(
                COMMIT,
                "_run_tries",
                "__seen__ = fresh_after(...)",
                """
                if drafts[-1].made is not None:
                    key = commits.commit_key(drafts[-1].made.id)
                    repo.kv.delete(commits.space(repo.record), [key])
                __old__
                """,
            ),
        ),
    ),
    Mutant(
        "S23",
        "the janitor believes the clean-up record and not the branch",
        ("commits", "aging"),
        (_NO_RECHECK,),
    ),
    Mutant(
        "S24",
        "the record of a deleted branch is removed",
        ("branch", "delay"),
        (
            Edit(
                BRANCHING,
                "delete_branch",
                "__sent__ = send(...)",
                """
                repo.kv.delete(branches.space(repo.record), [branches.branch_key(branch)])
                __sent__ = SwapOutcome.LANDED
                """,
            ),
        ),
    ),
    Mutant(
        "S25",
        "staged rows are set whatever is there",
        ("core", "delay"),
        (
            Edit(
                AREA,
                "stage",
                "__outcome__ = __kv__.set_newer(__partition__, __key__, __row__, __version__, ...)",
                """
                __kv__.set(__partition__, __key__, __row__, __version__)
                __outcome__ = WRITTEN
                """,
            ),
        ),
    ),
    Mutant(
        "S26",
        "a conditional creation looks, then writes",
        ("cond", "clean"),
        (
            Edit(
                WRITING,
                "write_row_if",
                """
                if _put_over(...):
                    ...
                """,
                "return write(repo, branch, key, value)",
            ),
        ),
    ),
    Mutant(
        "S27",
        "a conditional replacement checks the value, then writes",
        ("match", "clean"),
        (
            Edit(
                WRITING,
                "write_row_if",
                """
                if _put_over(...):
                    ...
                """,
                "return write(repo, branch, key, value)",
            ),
        ),
    ),
    Mutant(
        "S28",
        "a conditional replacement checks only that the path exists",
        ("match", "clean"),
        (
            Edit(
                WRITING,
                "check_mode",
                """
                if not holds:
                    ...
                """,
                "",
            ),
        ),
    ),
)
