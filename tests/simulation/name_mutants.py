"""Breaches of the rules of names, jobs and resets; see `mutants.py`."""

from tests.simulation.edits import Edit
from tests.simulation.mutants import DROP_NOW, LANDING, READS, RESETTING, Mutant

TAGS, REPOSITORIES, IMPORTING = "refs.names.tags", "refs.names.repositories", "engine.imports"
JOBS = "engine.jobs.record"
BULK_CONTENT, BREAK_PARAMETERS = "engine.bulk.land", "engine.repositories.repository"
ADOPTING = "engine.commits.adopt"

NAME_MUTANTS = (
    Mutant(
        "S13",
        "tokens dropped at once; a reader looks again, but only whether the open token moved",
        ("note", "clean"),
        (
            DROP_NOW,
            Edit(
                READS,
                "stat",
                """
                __where__ = resolved(*__ref__)
                __value__ = _value_at(...)
                """,
                """
                while True:
                    __old__
                    again = resolved(*__ref__)
                    if __where__.branch.branch.staging == again.branch.branch.staging:
                        break
                """,
            ),
        ),
    ),
    Mutant(
        "N1a",
        "a deleted tag's record is removed",
        ("tags", "delay"),
        (
            Edit(
                TAGS,
                "delete",
                "replace_row(...)",
                """
                get(kv, repository, tag)
                kv.delete(space(repository), [tag_key(tag)])
                """,
            ),
        ),
    ),
    Mutant(
        "N1b",
        "a tag is made whatever is there by now",
        ("tags", "clean"),
        (
            Edit(
                TAGS,
                "create",
                "replace_seen(...)",
                "kv.set(space(repository), tag_key(tag), change(seen, False), ids.stamp())",
            ),
        ),
    ),
    Mutant(
        "N2a",
        "a creation that may have been deleted since is made again",
        ("tags", "storm"),
        (Edit(TAGS, "create.change", "lost and ...", "False"),),
    ),
    Mutant(
        "N2b",
        "a deletion that may have happened is done again, to what was made since",
        ("tags", "storm"),
        (
            Edit(
                TAGS,
                "delete.change",
                """
                if lost:
                    ...
                """,
                "",
            ),
        ),
    ),
    Mutant(
        "N3a",
        "a pair of metadata is set whatever is there",
        ("pairs", "delay"),
        (
            Edit(
                REPOSITORIES,
                "_replace_pairs",
                "replace_seen(...)",
                "kv.set(*place, wire.encode_pairs(pairs), ids.stamp())",
            ),
        ),
    ),
    Mutant(
        "N3b",
        "a removed pair of metadata leaves no row",
        ("pairs", "delay"),
        (
            Edit(
                REPOSITORIES,
                "_replace_pairs",
                "replace_seen(*__arguments__)",
                "replace_seen(*__arguments__) if pairs else kv.delete(place[0], [place[1]])",
            ),
        ),
    ),
    Mutant(
        "J1",
        "an import that is landing can be cancelled",
        ("cancel", "clean"),
        (Edit(JOBS, "cancel", "... is JobState.LANDING", "False"),),
    ),
    Mutant(
        "J2",
        "an import looks whether it was cancelled, but does not say that it is landing",
        ("cancel", "clean"),
        (
            Edit(
                IMPORTING,
                "work.build",
                "pulse.land(__count__)",
                "pulse.beat(__count__, always=True)",
            ),
        ),
    ),
    Mutant(
        "A1",
        "a commit from elsewhere is acknowledged though its write was not answered",
        ("adopt", "amb"),
        (
            Edit(
                ADOPTING,
                "add_record",
                "commits.put(...)",
                """
                from contextlib import suppress

                with suppress(Exception):
                    __old__
                """,
            ),
        ),
    ),
    Mutant(
        "H1",
        "a relative ref is resolved once, before the loop",
        ("back", "clean"),
        (
            Edit(
                RESETTING,
                "hard_reset",
                """
                def target() -> __type__:
                    protection.check_head(*__head__)
                    __found__ = committed(*__ref__)
                    __rest__
                """,
                """
                __found__ = committed(*__ref__)

                def target() -> __type__:
                    protection.check_head(*__head__)
                    __rest__
                """,
            ),
            Edit(RESETTING, "hard_reset.target", '... if ... else b""', 'b""'),
        ),
    ),
    Mutant(
        "H2",
        "a hard reset is not counted, so what it took away seems never to have landed",
        ("merge", "storm"),
        (Edit(LANDING, "_move", "__record__.rewinds + (...)", "__record__.rewinds"),),
    ),
    Mutant(
        "H3",
        "a reset that may have landed is done again",
        ("back", "storm"),
        (Edit(LANDING, "_find_landed", "raise OutcomeUnknown(...)", ""),),
    ),
    Mutant(
        "H4",
        "a reset that landed late is refused because its ref means nothing any more",
        ("back", "delay"),
        (
            Edit(
                LANDING,
                "_move",
                "isinstance(__error__, Unavailable)",
                "isinstance(__error__, Unavailable) or __error__.__class__.__name__ == 'NotFound'",
            ),
        ),
    ),
    Mutant(
        "H5",
        "a reset whose swap was refused is taken for somebody else's",
        ("back", "clean"),
        (
            Edit(
                LANDING,
                "_find_landed",
                "if __round__.is_lost or __same__:\n    continue",
                "if __round__.is_new or __same__:\n    continue",
            ),
        ),
    ),
    Mutant(
        "P1",
        "packed ranges replace a head that moved",
        ("pack", "clean"),
        (
            Edit(
                BULK_CONTENT,
                "_content_onto",
                "follow(__space__, __base__, __written__, __head__)",
                "__written__",
            ),
        ),
    ),
    Mutant(
        "P2",
        "break parameters set whatever they were",
        ("pack", "clean"),
        (Edit(BREAK_PARAMETERS, "swap_breaks.change", "... != seen", "False"),),
    ),
)
