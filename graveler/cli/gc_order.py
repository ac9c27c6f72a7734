"""`graveler gc --server`: orders a garbage collection on a server, waits, and prints the result.

An interruption ends only the waiting; the server continues the collection.
"""

from contextlib import suppress
from typing import Final

from graveler import limits
from graveler.cli.gc_arguments import OrderOptions
from graveler.client import Session, collections, connect_as_lakectl
from graveler.client.collections import Collection, Files
from graveler.errors import Internal, Unavailable
from graveler.settings import environment

_PAUSE_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = limits.job_seconds_max + 15 * 60


def order(options: OrderOptions) -> int:
    """Order a collection and wait for it, or undo a run.  Returns 0.

    Raises `Internal` if the collection fails, `Unavailable` if it does not end in time, and the
    errors of `Session.ask`."""
    session = connect_as_lakectl(environment(), options.server, options.access_key_id)
    if options.undo:
        collections.undo(session, options.repository, options.undo)
        print(f"repository={options.repository}: undone")
        return 0
    id = collections.order(session, options.repository, dry_run=not options.delete)
    found = _ended(session, options.repository, id)
    if found.error:
        raise Internal(f"not collected: {found.error}")
    would = "would be " if found.dry_run else ""
    print(
        f"repository={options.repository}: {found.commits_kept:,} of {found.commits:,} "
        f"commits kept; {would}deleted: {_sum(found.deleted)}; "
        f"{would}condemned: {_sum(found.condemned)}"
    )
    if found.candidates:
        print(f"listed in {found.candidates}")
    if found.run:
        told = f"graveler gc --server --repository {options.repository} --undo {found.run}"
        print(f"to take it back within a day: {told}")
    if found.dry_run:
        print("nothing was changed (--delete does it)")
    return 0


def _ended(session: Session, repository: str, id: str) -> Collection:
    end = session.clock.steady_seconds() + _WAIT_SECONDS
    while session.clock.steady_seconds() < end:
        with suppress(Unavailable):  # the server continues the collection; ask again
            found = collections.get(session, repository, id)
            if found.done:
                return found
        session.clock.sleep(_PAUSE_SECONDS)
    raise Unavailable(f"collection still runs: repository={repository} id={id}")


def _sum(files: Files) -> str:
    return f"{files.count:,} files, {files.size_bytes:,} bytes"
