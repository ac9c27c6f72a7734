"""`graveler gc` and `graveler retention`: collects the garbage of a store that no service has open.

Without `--delete` nothing changes: stdout lists the files that would be deleted or condemned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from graveler.cli.gc_arguments import UNCHANGED, GcOptions, RetentionOptions
from graveler.cli.stores import opened
from graveler.engine.gc import cluster_turns, collect
from graveler.engine.gc import retention as rules
from graveler.engine.gc.candidates import Doomed
from graveler.engine.ports import Ports
from graveler.engine.repositories import repository
from graveler.engine.upkeep import janitor
from graveler.errors import Conflict, Invalid, NotFound, Refused
from graveler.ids import parse_branch_id
from graveler.records import Repository
from graveler.refs.gc.retention import FOREVER, Retention


def gc(options: GcOptions) -> int:
    """Collect garbage, or undo a run.  Returns 0."""
    with opened(options.store) as store:
        ports = store.ports
        if options.undo:
            _undo(ports, options)
            return 0
        for repo in _repositories(ports, options.repository):
            if options.delete:
                janitor.sweep(ports, repo)
            try:
                if options.delete:
                    cluster_turns.check_none(ports, repo)
                collected = collect.collect(ports, repo, delete=options.delete)
            except (Conflict, Refused) as error:
                if options.repository:
                    raise
                print(f"repository={repo.id}: {error}")
                continue
            _tell(repo, collected, dry=not options.delete)
    if not options.delete:
        print("nothing was changed (--delete does it)")
    return 0


def _repositories(ports: Ports, name: str) -> Iterator[Repository]:
    if name:
        yield repository.get(ports, name)
        return
    yield from repository.every(ports)


def _tell(repo: Repository, collected: collect.Collected, *, dry: bool) -> None:
    where = f"repository={repo.id}"
    if dry:
        for word, file in [("delete", file) for file in collected.deleted] + [
            ("condemn", file) for file in collected.condemned
        ]:
            print(f"would {word}: {where} {file.address} {file.size} bytes, {file.reason}")
    would = "would be " if dry else ""
    print(
        f"{where}: {collected.kept:,} of {collected.commits:,} commits kept; "
        f"{would}deleted: {_sum(collected.deleted)}; {would}condemned: {_sum(collected.condemned)}"
    )
    if collected.run:
        print(f"{where}: to take it back within a day: graveler gc --undo {collected.run}")


def _sum(doomed: Sequence[Doomed]) -> str:
    return f"{len(doomed):,} files, {sum(each.size for each in doomed):,} bytes"


def _undo(ports: Ports, options: GcOptions) -> None:
    for repo in _repositories(ports, options.repository):
        if any(run.id == options.undo for run in collect.list_runs(ports, repo)):
            run = collect.undo(ports, repo, options.undo)
            print(f"repository={repo.id}: undone: {run.count:,} files, {run.size:,} bytes")
            return
    raise NotFound(f"no such run of garbage collection: run={options.undo}")


# ---- retention -----------------------------------------------------------------------------------


def retention(options: RetentionOptions) -> int:
    """Apply the requested changes to the retention rule, and show it.  Returns 0."""
    with opened(options.store) as store:
        repo = repository.get(store.ports, options.repository)
        rule = rules.get_rule(store.ports, repo)
        new = _changed(rule, options)
        if new != rule:
            rules.set_rule(store.ports, repo, new)
    print(f"default: {_days(new.default_days)}")
    for branch, days in sorted(new.branches.items()):
        print(f"branch {branch}: {_days(days)}")
    print(f"commits that no branch and no tag leads to: kept for {new.unreachable_days} days")
    return 0


def _changed(rule: Retention, options: RetentionOptions) -> Retention:
    branches = dict(rule.branches)
    for pair in options.branches:
        name, equals, days = pair.partition("=")
        branch = parse_branch_id(name)
        if not equals or (days and not (days.isascii() and days.isdigit())):
            raise Invalid(f"branch rule invalid: it must be NAME=DAYS or NAME=: {pair!r}")
        branches.pop(branch, None)
        if days:
            branches[branch] = int(days)
    new = replace(rule, branches=branches)
    if options.days != UNCHANGED:
        new = replace(new, default_days=options.days)
    if options.unreachable_days != UNCHANGED:
        new = replace(new, unreachable_days=options.unreachable_days)
    return new


def _days(days: int) -> str:
    return "kept for ever" if days == FOREVER else f"kept for {days} days after the next commit"
