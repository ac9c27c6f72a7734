"""Prepares a collection by lakeFS's Spark client: what of the namespace is in use, as files.

    client   uncommitted, page by page ─► commits ─► list `data/` ─► delete what is in neither

    <namespace>/_lakefs/retention/gc/uncommitted/<run>/uncommitted/<n>.parquet   addresses
    <namespace>/_lakefs/retention/gc/commits/run_id=<run>/commits.csv            commits in use

An entry moves from a staging token into a commit, never back, and the client reads the tokens
first.  So no entry is missed.  The client leaves out files that are younger than the grace period
(`limits.collect_min_age_seconds`), which is longer than any operation.

The commits in use are all commits, except those whose content a collection of Graveler has given
up.  So the client deletes objects that no commit and no staged row names.  Retention is applied by
Graveler's own collections, which condemn a commit before its objects are deleted.

Used by the delivery layer.
"""

import csv
import json
import re
from base64 import urlsafe_b64decode
from io import StringIO
from typing import Final, NamedTuple

from graveler import limits
from graveler.block import address
from graveler.clock import descending_partition
from graveler.engine import namespaces
from graveler.engine.gc import mark, parquet, root_pages
from graveler.engine.gc.content import NO_FILE
from graveler.engine.gc.retention import find_rule
from graveler.engine.namespaces import list_namespaces
from graveler.engine.ports import OpenRepository, Ports
from graveler.errors import Code, Invalid, NotFound
from graveler.records import ABSENT

_FOLDER: Final = "_lakefs/retention/gc/"
_RUN: Final = re.compile(r"[0-9a-v]{20}", re.ASCII)
_FILES_MAX: Final = 1_000_000


class PreparedCommits(NamedTuple):
    """A run; the address of its list of commits; the folder for the client's own lists."""

    run: str
    commits: str
    addresses: str


class PreparedPage(NamedTuple):
    """A run; the folder with the uncommitted addresses, empty if there are none so far; the
    continuation token of the next page, empty after the last."""

    run: str
    folder: str
    following: str


class _Progress(NamedTuple):
    """What a continuation token holds: the run, its files so far, and the place in the roots."""

    run: str
    files: int
    place: str


def commits(repo: OpenRepository) -> PreparedCommits:
    """Store the list of commits whose content is in use.

    Errors: `NotFound` without a retention rule; `Refused` if the namespace is not this
    repository's alone; `Conflict` for a bare repository.  Cost: 1 KV request, 1 for each 1,000
    repositories, that of `roots.judged`; a read and a put.
    """
    if find_rule(repo) is ABSENT:
        raise NotFound("retention rule not found", Code.RULE_NOT_FOUND)
    namespaces.check_own(repo, list_namespaces(repo))
    judgement = mark.judged(repo)
    run = _new_run(repo)
    lines = StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(("commit_id", "expired", "metarange_id"))
    for id in sorted(judgement.history.keys() - judgement.over()):
        metarange = judgement.history[id].metarange
        if metarange not in NO_FILE:
            table.writerow((id, "false", metarange))
    place = address.join(repo.namespace, f"{_FOLDER}commits/run_id={run}/commits.csv")
    repo.blocks.put(place, [lines.getvalue().encode()])
    return PreparedCommits(run, place, address.join(repo.namespace, f"{_FOLDER}addresses/"))


def uncommitted(
    repo: OpenRepository, after: str, amount: int = limits.bulk_page_count_max
) -> PreparedPage:
    """Store a page: at most `amount` addresses of staged rows, or that were handed out.

    `after`: the continuation token of the page before.  A page may be stored again.

    Errors: `Invalid` for an `after` that no page returned; `Refused` as `commits`.  Cost: that of
    `root_pages.uncommitted`, and a put if the page has addresses; of the first page also 1 KV
    request for each 1,000 repositories, and a read.
    """
    if after:
        progress = _decoded(after)
    else:
        namespaces.check_own(repo, list_namespaces(repo))
        progress = _Progress(_new_run(repo), 0, "")
    page = root_pages.uncommitted(repo, progress.place, amount)
    folder = address.join(repo.namespace, f"{_FOLDER}uncommitted/{progress.run}/uncommitted/")
    files = progress.files
    if page.roots:
        content = parquet.column("physical_address", [root.name for root in page.roots])
        repo.blocks.put(f"{folder}{files:06}.parquet", [content])
        files += 1
    following = ""
    if page.following:
        following = root_pages.encoded(progress._replace(files=files, place=page.following))
    return PreparedPage(progress.run, folder if files else "", following)


def _new_run(ports: Ports) -> str:
    return descending_partition(ports.clock.now_ns(), ports.ids.stamp())


def _decoded(after: str) -> _Progress:
    try:
        run, files, place = json.loads(urlsafe_b64decode(after))
        sound = _RUN.fullmatch(run) and type(files) is int and isinstance(place, str) and place
    except (ValueError, TypeError, RecursionError) as error:
        raise _invalid(after) from error
    if not sound or not 0 <= files <= _FILES_MAX:
        raise _invalid(after)
    return _Progress(run, files, place)


def _invalid(after: str) -> Invalid:
    return Invalid(
        "continuation_token must be the value that the previous page returned: "
        f"continuation_token={after!r:.80}"
    )
