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
                found = collect.collect(ports, repo, delete=options.delete)
            except (Conflict, Refused) as error:
                if options.repository:
                    raise
                print(f"repository={repo.id}: {error}")
                continue
            _tell(repo, found, dry=not options.delete)
    if not options.delete:
        print("nothing was changed (--delete does it)")
    return 0


def _repositories(ports: Ports, name: str) -> Iterator[Repository]:
    if name:
        yield repository.get(ports, name)
        return
    yield from repository.every(ports)


def _tell(repo: Repository, found: collect.Collected, *, dry: bool) -> None:
    where = f"repository={repo.id}"
    if dry:
        for word, each in [("delete", each) for each in found.deleted] + [
            ("condemn", each) for each in found.condemned
        ]:
            print(f"would {word}: {where} {each.address} {each.size} bytes, {each.reason}")
    would = "would be " if dry else ""
    print(
        f"{where}: {found.kept:,} of {found.commits:,} commits kept; "
        f"{would}deleted: {_sum(found.deleted)}; {would}condemned: {_sum(found.condemned)}"
    )
    if found.run:
        print(f"{where}: to take it back within a day: graveler gc --undo {found.run}")


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
        wanted = _changed(rule, options)
        if wanted != rule:
            rules.set_rule(store.ports, repo, wanted)
    print(f"default: {_days(wanted.default_days)}")
    for branch, days in sorted(wanted.branches.items()):
        print(f"branch {branch}: {_days(days)}")
    print(f"commits that no branch and no tag leads to: kept for {wanted.unreachable_days} days")
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
    wanted = replace(rule, branches=branches)
    if options.days != UNCHANGED:
        wanted = replace(wanted, default_days=options.days)
    if options.unreachable_days != UNCHANGED:
        wanted = replace(wanted, unreachable_days=options.unreachable_days)
    return wanted


def _days(days: int) -> str:
    return "kept for ever" if days == FOREVER else f"kept for {days} days after the next commit"
