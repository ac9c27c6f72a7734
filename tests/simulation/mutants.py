"""Broken variants of the protocol, each the breach of one rule, and where it is looked for.

S1 to S26 are the insufficient steps that docs/explanation/protocol.md names; R1 and on break rules
that came later.  `cell`: the family and the profile whose seeds are searched.
"""

from typing import NamedTuple

from tests.simulation.patching import Edit

COMMIT, LANDING = "engine.commits.commit", "engine.commits.land"
SEALING, SCANNING = "engine.commits.seal", "engine.commits.scan"
WRITING, OBJECTS, RESETTING = (
    "engine.objects.stage",
    "engine.objects.objects",
    "engine.commits.reset",
)
BRANCHING, JANITOR, AREA, STACK = (
    "engine.names.branches",
    "engine.upkeep.janitor",
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
    "        if not drafts or (drafts[-1].base, drafts[-1].tokens) != (base, tokens):\n",
    "        if drafts:\n"
    "            drafts.append(drafts[-1]._replace(tokens=tokens))\n"
    "        else:\n",
)
# Built on the head of the call's beginning whatever the head is now, from all deltas.
_REPARENT = (
    Edit(
        COMMIT,
        "            drafts.append(_build(attempt, base, folding._replace(tokens=tokens)))\n",
        "            drafts.append(_build(attempt, base, folding)._replace(tokens=tokens))\n",
    ),
    Edit(
        COMMIT,
        "    base, tokens = commit_of(ports, repo, base_id), folding.tokens\n",
        "    base, tokens = commit_of(ports, repo, attempt.since), folding.tokens\n",
    ),
)
DROP_NOW = Edit(
    COMMIT,
    "            return _answer(drafts[-1])\n",
    "            from graveler.staging import area\n"
    "            for token in drafts[-1].tokens:\n"
    "                area.drop(ports.kv, token)\n"
    "            return _answer(drafts[-1])\n",
)
_NO_RECHECK = Edit(
    JANITOR,
    "    return found is not ABSENT and found.branch.live and token in "
    "found.branch.tokens_newest_first\n",
    "    return False\n",
)
NO_WAIT = Edit(
    JANITOR,
    "    if now_ns < cleanup.marked_ns + grace_ns * (cleanup.passes + 1):\n",
    "    if False:\n",
)
FILLED_DUE = Edit(
    RESETTING,
    "    due_ns = area.born_ns(token) + ports.settings.unnamed_token_seconds * limits.SECOND_NS\n",
    "    due_ns = 0\n",
)

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
        (*_REPARENT, DROP_NOW),
    ),
    Mutant("S3", "re-parented only: a merge is overwritten", ("merge", "clean"), _REPARENT),
    Mutant(
        "S4",
        "sealed tokens newest first",
        ("commits", "clean"),
        (
            Edit(
                SEALING,
                "            sealed=(*record.sealed, record.staging),\n",
                "            sealed=(record.staging, *record.sealed),\n",
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
                "    assert record.sealed[: len(draft.tokens)] == draft.tokens, "
                '"what is folded is the oldest sealed"\n',
                "    seen = fresh(attempt.ports, attempt.repo, attempt.branch)\n"
                "    record = seen.branch\n"
                "    draft = draft._replace(tokens=record.sealed)\n",
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
                "from graveler.committed.apply import apply\n",
                "from graveler.committed import reader\n"
                "from graveler.committed.apply import apply\n",
            ),
            Edit(
                SCANNING,
                "    space = keyspace(ports, repo)\n",
                "    space = keyspace(ports, repo)\n    bases: list[MetarangeId] = []\n",
            ),
            Edit(
                SCANNING,
                "        applied = apply(space, base, "
                "stack.combine([deltas[token] for token in left]))\n",
                "        bases.append(base)\n"
                "        old = bases[0]\n"
                "        said = stack.combine([deltas[token] for token in left])\n"
                "        there = reader.get_many(space, old, [key for key, _ in said])\n"
                "        changes = [\n"
                "            (key, value)\n"
                "            for key, value in said\n"
                "            if (there.get(key) != value)\n"
                "            and (isinstance(value, bytes) or key in there)\n"
                "        ]\n"
                "        applied = apply(space, base, changes)\n",
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
                "    return sorted(together.items(), key=lambda item: item[0])\n",
                "    kept = [item for item in together.items() if isinstance(item[1], bytes)]\n"
                "    return sorted(kept, key=lambda item: item[0])\n",
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
                "    raise Conflict(\n"
                '        f"commit lost its changes: the branch was reset meanwhile: '
                'branch={attempt.branch}"\n'
                "    )\n",
                "    head = seen.branch.commit\n"
                "    return CommitEntry(head, commit_of(attempt.ports, attempt.repo, head))\n",
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
                "        if _advance(attempt, seen, drafts[-1]):\n",
                "        if drafts[-1].made is None or _advance(attempt, seen, drafts[-1]):\n",
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
                "        before = seen.branch.staging\n        seen = _second_read",
                "        if written:\n            return\n"
                "        before = seen.branch.staging\n        seen = _second_read",
            ),
        ),
    ),
    Mutant(
        "S11",
        "the second read comes from a cache",
        ("core", "clean"),
        (
            Edit(
                WRITING,
                "        found = branches.find(ports.kv, repo, branch)\n",
                "        found = cached(ports, repo, branch)\n",
            ),
        ),
    ),
    Mutant(
        "S12",
        "the second read was under way before the write was answered",
        ("core", "clean"),
        (
            Edit(
                WRITING,
                "        order, written = put_newer(ports, seen.branch.staging, key, value, "
                "wid, order)\n"
                "        before = seen.branch.staging\n"
                "        seen = _second_read(ports, repo, branch, ABSENT if attempt else before)\n",
                "        before = seen.branch.staging\n"
                "        seen = _second_read(ports, repo, branch, ABSENT if attempt else before)\n"
                "        order, written = put_newer(ports, before, key, value, wid, order)\n",
            ),
        ),
    ),
    Mutant(
        "S14",
        "readers use a cached record",
        ("core", "clean"),
        (
            Edit(
                OBJECTS,
                "    where = resolved(ports, repo, ref)\n    value =",
                "    found = cached(ports, repo, BranchId(ref))\n"
                '    where = Resolved(found.branch.commit, "branch", found, BranchId(ref), True)\n'
                "    value =",
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
                "        order, written = put_newer(ports, seen.branch.staging, key, value, "
                "wid, order)\n",
                '        look = _look(ports, repo, seen, key, Attempts(b"", "", []))\n'
                "        if value is TOMBSTONE and look.present is ABSENT:\n"
                "            written = True\n"
                "        else:\n"
                "            order, written = put_newer(\n"
                "                ports, seen.branch.staging, key, value, wid, order\n"
                "            )\n",
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
                "        order, written = put_newer(ports, seen.branch.staging, key, value, "
                "wid, order)\n",
                "        head = commit_of(ports, repo, seen.branch.commit)\n"
                "        bare = reader.get(keyspace(ports, repo), head.metarange, key) is ABSENT\n"
                "        if value is TOMBSTONE and bare:\n"
                "            partition, place = area.place_of(seen.branch.staging, key)\n"
                "            ports.kv.delete(partition, [place])\n"
                "            written = True\n"
                "        else:\n"
                "            order, written = put_newer(\n"
                "                ports, seen.branch.staging, key, value, wid, order\n"
                "            )\n",
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
                "    check_clean(ports, repo, branch, tuple(reversed(tokens)), sealed, deadline)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "S19",
        "a merge leaves rows on top that say what the old head says",
        ("merge", "clean"),
        (
            Edit(
                LANDING,
                "    sealed = seal(ports, repo, branch, seen)\n",
                "    return seen, ()\n",
            ),
        ),
    ),
    Mutant(
        "S20",
        "a reset of a prefix drops its filled token when the swap seems to have failed",
        ("reset", "amb"),
        (
            Edit(
                RESETTING,
                "        if token in fresh(ports, repo, branch).branch.tokens_newest_first:\n",
                "        area.drop(ports.kv, token)\n"
                "        if token in fresh(ports, repo, branch).branch.tokens_newest_first:\n",
            ),
        ),
    ),
    Mutant(
        "S21",
        "a filled token may be cleaned at once, by a janitor that waits for nothing",
        ("reset", "clean"),
        (FILLED_DUE, _NO_RECHECK, NO_WAIT),
    ),
    Mutant(
        "S22",
        "a committer removes its record when the swap seems to have failed",
        ("commits", "amb"),
        (
            Edit(
                COMMIT,
                "        seen = fresh(ports, repo, branch)\n"
                "        settled = _settled(attempt, seen, drafts)\n",
                "        if drafts[-1].made is not None:\n"
                "            key = commits.commit_key(drafts[-1].made.id)\n"
                "            ports.kv.delete(commits.space(repo), [key])\n"
                "        seen = fresh(ports, repo, branch)\n"
                "        settled = _settled(attempt, seen, drafts)\n",
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
                "            done = swap(ports, repo, branch, found, gone)\n",
                "            ports.kv.delete(branches.space(repo), [branches.branch_key(branch)])\n"
                "            done = found\n",
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
                '    outcome = kv.set_newer(partition, key, row, columns["version"], '
                'columns["order"])\n',
                '    kv.set(partition, key, row, columns["version"])\n    outcome = WRITTEN\n',
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
                "            over = seen, branches.place(repo, branch), look\n",
                "            return write(ports, repo, branch, key, value)\n"
                "            over = seen, branches.place(repo, branch), look\n",
            ),
        ),
    ),
)
