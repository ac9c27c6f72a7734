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
    collection = _ended(session, options.repository, id)
    if collection.error:
        raise Internal(f"not collected: {collection.error}")
    would = "would be " if collection.dry_run else ""
    print(
        f"repository={options.repository}: {collection.commits_kept:,} of {collection.commits:,} "
        f"commits kept; {would}deleted: {_sum(collection.deleted)}; "
        f"{would}condemned: {_sum(collection.condemned)}"
    )
    if collection.candidates:
        print(f"listed in {collection.candidates}")
    if collection.run:
        command = f"graveler gc --server --repository {options.repository} --undo {collection.run}"
        print(f"to take it back within a day: {command}")
    if collection.dry_run:
        print("nothing was changed (--delete does it)")
    return 0


def _ended(session: Session, repository: str, id: str) -> Collection:
    end = session.clock.steady_seconds() + _WAIT_SECONDS
    while session.clock.steady_seconds() < end:
        with suppress(Unavailable):  # the server continues the collection; ask again
            collection = collections.get(session, repository, id)
            if collection.done:
                return collection
        session.clock.sleep(_PAUSE_SECONDS)
    raise Unavailable(f"collection still runs: repository={repository} id={id}")


def _sum(files: Files) -> str:
    return f"{files.count:,} files, {files.size_bytes:,} bytes"
