"""Breaches of rules that came after the table of docs/explanation/protocol.md; see `mutants.py`."""

from tests.simulation.mutants import (
    BRANCHING,
    COMMIT,
    FILLED_DUE,
    LANDING,
    NO_WAIT,
    OBJECTS,
    RESETTING,
    SEALING,
    WRITING,
    Mutant,
)
from tests.simulation.patching import Edit

_NOTED = "    notes += trim_notes(ports, repo, attempt.branch, draft.head, tokens)\n"
_LAST_ROUND = "            tried.append(Tried(landing.entry, landing.is_new, seen, is_refused))\n"

LATER_MUTANTS = (
    Mutant(
        "R1a",
        "a superseding commit is looked for by the newest token of one's own",
        ("commits", "clean"),
        (
            Edit(
                COMMIT,
                "        if any(attempt.wanted in note.tokens for note in notes):\n",
                "        newest = drafts[-1].tokens[-1:] if drafts else ()\n"
                "        if any(note.tokens[-1:] == newest for note in notes):\n",
            ),
        ),
    ),
    Mutant(
        "R1b",
        "a superseding commit is looked for since the last round's base only",
        ("crowd", "clean"),
        (
            Edit(
                COMMIT,
                "    for entry in history_until(ports, repo, seen.branch.commit, attempt.since):\n",
                "    since = drafts[-1].base if drafts else attempt.since\n"
                "    for entry in history_until(ports, repo, seen.branch.commit, since):\n",
            ),
        ),
    ),
    Mutant(
        "R2a",
        "a merge does not note which tokens it took off",
        ("merge", "clean"),
        (
            Edit(
                LANDING,
                "trim_notes(ports, repo, branch, landing.entry.id, tokens))\n",
                "trim_notes(ports, repo, branch, landing.entry.id, tokens)[1:])\n",
            ),
        ),
    ),
    Mutant(
        "R2b",
        "a trim without a commit does not note which tokens it took off",
        ("commits", "clean"),
        (Edit(COMMIT, _NOTED, _NOTED.replace(")\n", ")[made is None :]\n")),),
    ),
    Mutant(
        "R3a",
        "commits with allow_empty do not claim their record",
        ("empty", "clean"),
        (
            Edit(
                COMMIT,
                "        made = _claimed(attempt, _drawn(attempt, base_id, overlaid.metarange))\n",
                "        commit_ = _drawn(attempt, base_id, overlaid.metarange)\n"
                "        made = CommitEntry(commit_id(commit_), commit_)\n"
                "        write = commits.write_of(repo, made.id, commit_, ports.ids.stamp())\n"
                "        notes.append(write)\n",
            ),
        ),
    ),
    Mutant(
        "R3b",
        "a commit with allow_empty is answered with somebody else's",
        ("empty", "clean"),
        (
            Edit(
                COMMIT,
                "        if attempt.request.allow_empty or not gone:\n",
                "        if not gone:\n",
            ),
        ),
    ),
    Mutant(
        "R4a",
        "a landing remembers its last round only",
        ("replay", "storm"),
        (
            Edit(
                LANDING,
                _LAST_ROUND,
                "            tried[:] = [Tried(landing.entry, landing.is_new, seen, is_refused)]\n",
            ),
        ),
    ),
    Mutant(
        "R4b",
        "a landing remembers no earlier round",
        ("merge", "amb"),
        (Edit(LANDING, _LAST_ROUND, ""),),
    ),
    Mutant(
        "R4c",
        "a landing is refused while its swap may still arrive",
        ("replay", "delay"),
        (
            Edit(
                LANDING,
                "    if any(each.over.version == seen.version for each in tried):\n",
                "    if False:\n",
            ),
        ),
    ),
    Mutant(
        "R5a",
        "a conditional write is refused whatever became of its row",
        ("cond", "storm"),
        (
            Edit(
                WRITING,
                "            if attempts.sent and _counted(ports, repo, key, seen, attempts):\n",
                "            if False:\n",
            ),
        ),
    ),
    Mutant(
        "R5b",
        "a conditional row is swapped whatever the branch record says",
        ("cond", "clean"),
        (Edit(WRITING, "            other=guard,\n", ""),),
    ),
    Mutant(
        "R6",
        "a write on a branch that was deleted meanwhile is always 'not found'",
        ("branch", "clean"),
        (
            Edit(
                WRITING,
                "    if found is ABSENT or found.branch.staging == only:\n",
                "    if True:\n",
            ),
        ),
    ),
    Mutant(
        "R7a",
        "a bulk deletion does not look whether the token moved",
        ("bulk", "clean"),
        (Edit(OBJECTS, "        if seen.branch.staging == token:\n", "        if True:\n"),),
    ),
    Mutant(
        "R7b",
        "a bulk deletion reads the record before its rows are answered",
        ("bulk", "clean"),
        (
            Edit(
                OBJECTS,
                "        results = ports.fanout.map(put, todo)\n",
                "        seen = fresh(ports, repo, branch)\n"
                "        results = ports.fanout.map(put, todo)\n",
            ),
            Edit(
                OBJECTS,
                "        seen = fresh(ports, repo, branch)\n"
                "        if seen.branch.staging == token:\n",
                "        if seen.branch.staging == token:\n",
            ),
        ),
    ),
    Mutant(
        "R8",
        "a bulk deletion writes tombstones only where something is",
        ("bulk", "clean"),
        (
            Edit(
                OBJECTS,
                "            return put_newer(ports, token, todo[path], TOMBSTONE, wid, "
                "orders[path])\n",
                '            where = Resolved(seen.branch.commit, "branch", seen, branch, True)\n'
                "            if _value_at(ports, repo, where, todo[path]) is ABSENT:\n"
                "                return orders[path], True\n"
                "            return put_newer(ports, token, todo[path], TOMBSTONE, wid, "
                "orders[path])\n",
            ),
        ),
    ),
    Mutant(
        "R9",
        "a row of greater order is taken for one's own",
        ("core", "clean"),
        (
            Edit(
                WRITING,
                "        if found is WRITTEN or found.wid == wid:\n",
                "        if True:\n",
            ),
        ),
    ),
    Mutant(
        "R10a",
        "a commit notes the clean-up after its swap",
        ("commits", "crash"),
        (
            Edit(COMMIT, _NOTED, ""),
            Edit(
                COMMIT,
                "            return _answer(drafts[-1])\n",
                "            ports.kv.set_many(\n"
                "                trim_notes(\n"
                "                    ports, repo, branch, drafts[-1].head, drafts[-1].tokens\n"
                "                )\n"
                "            )\n"
                "            return _answer(drafts[-1])\n",
            ),
        ),
    ),
    Mutant(
        "R10b",
        "a reset notes no clean-up",
        ("reset", "clean"),
        (
            Edit(
                RESETTING,
                "            ports.kv.set_many("
                "cleanups.cleanup_writes(repo, name, dropped, due_ns, ports.ids))\n",
                "",
            ),
        ),
    ),
    Mutant(
        "R11a",
        "the janitor waits for nothing",
        ("core", "clean"),
        (
            NO_WAIT,
            Edit(SEALING, "tokens, now_ns + grace_ns, ports.ids)", "tokens, now_ns, ports.ids)"),
        ),
    ),
    Mutant(
        "R12",
        "a filled token may be cleaned at once, by a janitor that looks but does not wait",
        ("reset", "clean"),
        (FILLED_DUE, NO_WAIT),
    ),
    Mutant(
        "R13",
        "a creation whose answer was lost is refused although it made the branch",
        ("branch", "storm"),
        (
            Edit(
                BRANCHING,
                "    if now is not ABSENT and now.branch.live and now.branch.rev == rev + 1:\n",
                "    if now is not ABSENT and now.branch.live:\n",
            ),
        ),
    ),
    Mutant(
        "R14",
        "a retried link is refused by its own staged row",
        ("upload", "clean"),
        (
            Edit(
                WRITING,
                "    wid = _mark(own_address) if own_address else ports.ids.stamp()\n",
                "    wid = ports.ids.stamp()\n",
            ),
        ),
    ),
    Mutant(
        "R15",
        "a branch that grows renames its open token, so that rows are looked for elsewhere",
        ("commits", "clean"),
        (
            Edit(
                COMMIT,
                "        recent_rows=max(draft.rows, record.recent_rows // 2),\n",
                "        recent_rows=max(draft.rows, record.recent_rows // 2),\n"
                "        staging=StagingToken(\n"
                "            record.staging.rpartition('.')[0] + '.%d' % max(\n"
                "                attempt.repo.staging_shards,\n"
                "                min(draft.rows, attempt.ports.settings.staging_shards_max),\n"
                "            )\n"
                "        ),\n",
            ),
        ),
    ),
)
