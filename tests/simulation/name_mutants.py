"""Breaches of the rules of names, jobs and resets; see `mutants.py`."""

from tests.simulation.mutants import DROP_NOW, LANDING, OBJECTS, RESETTING, Mutant
from tests.simulation.patching import Edit

TAGS, REPOSITORIES, IMPORTING = "refs.names.tags", "refs.names.repositories", "engine.imports.run"
JOBS = "engine.jobs.record"
BULK_CONTENT, BREAK_PARAMETERS = "engine.bulk.content", "engine.repositories.break_parameters"
ADOPTING = "engine.commits.adopt"

_PAIR_SWAPPED = "replace_seen(kv, place, ids, change, rows.get(place, ABSENT))"
_READ_ONCE = (
    "    where = resolved(ports, repo, ref)\n    value = _value_at(ports, repo, where, key)\n"
)

NAME_MUTANTS = (
    Mutant(
        "S13",
        "tokens dropped at once; a reader looks again, but only whether the open token moved",
        ("note", "clean"),
        (
            DROP_NOW,
            Edit(
                OBJECTS,
                _READ_ONCE,
                "    while True:\n"
                "        where = resolved(ports, repo, ref)\n"
                "        value = _value_at(ports, repo, where, key)\n"
                "        again = resolved(ports, repo, ref)\n"
                "        if where.branch.branch.staging == again.branch.branch.staging:\n"
                "            break\n",
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
                "    replace_row(kv, (space(repository), tag_key(tag)), ids, change)\n",
                "    get(kv, repository, tag)\n    kv.delete(space(repository), [tag_key(tag)])\n",
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
                "    replace_seen(kv, (space(repository), tag_key(tag)), ids, change, seen)\n",
                "    kv.set(space(repository), tag_key(tag), change(seen, False), ids.stamp())\n",
            ),
        ),
    ),
    Mutant(
        "N2a",
        "a creation that may have been deleted since is made again",
        ("tags", "storm"),
        (
            Edit(
                TAGS,
                "        if lost and (there.deleted or there.rev != rev):\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "N2b",
        "a deletion that may have happened is done again, to what was made since",
        ("tags", "storm"),
        (
            Edit(
                TAGS,
                "        if lost:  # a tag never moves, so the one that was seen is gone, "
                "whoever deleted it\n",
                "        if False:\n",
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
                _PAIR_SWAPPED,
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
                _PAIR_SWAPPED,
                f"{_PAIR_SWAPPED} if pairs else kv.delete(place[0], [place[1]])",
            ),
        ),
    ),
    Mutant(
        "J1",
        "an import that is landing can be cancelled",
        ("cancel", "clean"),
        (Edit(JOBS, "        if seen.job.state is JobState.LANDING:\n", "        if False:\n"),),
    ),
    Mutant(
        "J2",
        "an import looks whether it was cancelled, but does not say that it is landing",
        ("cancel", "clean"),
        (
            Edit(
                IMPORTING,
                "        pulse.land(len(records))\n",
                "        pulse.beat(len(records), always=True)\n",
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
                "from collections.abc",
                "from contextlib import suppress\nfrom collections.abc",
            ),
            Edit(
                ADOPTING,
                "    commits.put(ports.kv, repo, CommitId(record.id), made, ports.ids.stamp())\n",
                "    with suppress(Exception):\n"
                "        commits.put(ports.kv, repo, CommitId(record.id), made, "
                "ports.ids.stamp())\n",
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
                "    def target() -> tuple[CommitEntry, bytes]:\n"
                "        found = resolved(ports, repo, ref)\n",
                "    found = resolved(ports, repo, ref)\n\n"
                "    def target() -> tuple[CommitEntry, bytes]:\n",
            ),
            Edit(
                RESETTING,
                'found.branch.version if found.branch is not ABSENT and is_own else b""\n',
                'b""\n',
            ),
        ),
    ),
    Mutant(
        "H2",
        "a commit that was chosen by another record is tried",
        ("back", "all"),
        (
            Edit(
                LANDING,
                '            if landing.at not in (b"", seen.version):\n',
                "            if False:\n",
            ),
        ),
    ),
    Mutant(
        "H3",
        "a reset that may have landed is done again",
        ("back", "storm"),
        (
            Edit(
                LANDING,
                '        raise OutcomeUnknown(f"reset not confirmed; outcome unknown: '
                'commit={each.entry.id}")\n',
                "",
            ),
        ),
    ),
    Mutant(
        "H4",
        "a reset that landed late is refused because its ref means nothing any more",
        ("back", "delay"),
        (
            Edit(
                LANDING,
                "            except (Invalid, Conflict, NotFound):\n",
                "            except (Invalid, Conflict):\n",
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
                "        if each.is_new or each.is_refused or each.over.version == seen.version:\n",
                "        if each.is_new or each.over.version == seen.version:\n",
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
                "        return follow(space, bulk.base.commit.metarange, written, head)\n",
                "        return written\n",
            ),
        ),
    ),
    Mutant(
        "P2",
        "break parameters set whatever they were",
        ("pack", "clean"),
        (
            Edit(
                BREAK_PARAMETERS,
                "        if found.breaks != seen:\n",
                "        if False:\n",
            ),
        ),
    ),
)
