"""A lake with a session of Spark, the refs it resolves, and where objects are found.

Only the driver has credentials.  Executors get a `Place`: names only.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from pyspark.sql import SparkSession

import graveler
from graveler.block.address import split_prefix
from graveler.core.errors import Invalid, NotFound, Unavailable
from graveler.core.ids import MetarangeId, parse_branch_id, parse_repository_id
from graveler.core.records import BreakParameters, RangeRef, without
from graveler.core.settings import (
    ACCESS_KEY_VARIABLE,
    SECRET_KEY_VARIABLE,
    endpoint_url,
    environment,
)
from graveler.lake import lake as lakes
from graveler.lake.session import Session, below
from graveler.spark.places import Place, opened

_PROGRAM: Final = """
import os, signal, sys, threading
def follow():
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=follow, daemon=True).start()
sys.path.append(sys.argv.pop(1))
from graveler.cli.main import main
sys.exit(main())
"""


_PACKAGES: Final = str(Path(graveler.__file__).resolve().parents[1])


_READY: Final = re.compile(r"ready at (http://\S+)")


_END_SECONDS: Final = 60
_NO_WRITING: Final = BreakParameters()


class EmbeddedServer(NamedTuple):
    """The URL of a server, and a function that stops it; a second call does nothing."""

    url: str
    stop: Callable[[], None]


class Credentials(NamedTuple):
    """The credentials of the API for a job: an access key id and its secret."""

    access_key_id: str
    secret_access_key: str

    def __repr__(self) -> str:
        return without(self, "secret_access_key")


def serve(
    store: Path, credentials: Credentials, import_roots: Sequence[str | Path]
) -> EmbeddedServer:
    """Start a server on the store's folder, which is made if it does not exist, and wait until it
    answers.  Raises `Unavailable` if the server does not start: another process has the store open,
    or the folder cannot be written.  The server's errors go to this process's standard error."""
    folder = os.path.abspath(store)
    keys = {
        ACCESS_KEY_VARIABLE: credentials.access_key_id,
        SECRET_KEY_VARIABLE: credentials.secret_access_key,
    }
    roots = [word for root in import_roots for word in ("--import-root", os.path.abspath(root))]
    options = ["--store", folder, "--listen", "127.0.0.1:0", *roots]
    process = subprocess.Popen(
        # -P: no module of the current folder takes the place of one of ours.
        [sys.executable, "-P", "-c", _PROGRAM, _PACKAGES, "serve", *options],
        env={**environment(), **keys},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def stop() -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait(_END_SECONDS)

    assert process.stdout is not None, "it is piped"
    for line in process.stdout:
        match = _READY.search(line)
        if match is not None:
            return EmbeddedServer(match[1], stop)
    stop()
    raise Unavailable(
        "the store could not be served: see standard error; perhaps another "
        f"process has it open: store={folder}"
    )


class Lake(lakes.Lake):
    """A lake as the library has it, with a session of Spark.

    `store`: the folder of the embedded store, under the name by which every executor sees it; empty
    if there is none.  Leaving the `with` block, or calling `close`, closes what `connect` opened.
    It has credentials, so it cannot be pickled: Spark sends it to no executor.
    """

    def __init__(
        self,
        spark: SparkSession,
        session: Session,
        store: str = "",
        close: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(session)
        self.spark, self.store, self._close = spark, store, close

    def close(self) -> None:
        """Close what `connect` opened, and idle connections."""
        super().close()
        self._close()

    def __enter__(self) -> "Lake":
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a lake has credentials, so it is not sent to executors: use it in the driver, outside "
            "of functions that Spark runs in tasks"
        )


class Target(NamedTuple):
    """A branch or ref, and a prefix of paths: empty, or a folder with its slash."""

    repository: str
    branch: str
    prefix: str


def parse_target(text: str) -> Target:
    """Parse `repository/branch` or `repository/branch/some/folder`; a folder without a slash at its
    end gets one.  Raises `Invalid`."""
    target = parse_ref(text)
    parse_branch_id(target.branch)
    return target


def parse_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names of columns: several, or one as plain text."""
    return (names,) if isinstance(names, str) else tuple(names)


def parse_ref(text: str) -> Target:
    """Parse `repository/ref` or `repository/ref/some/folder`; a folder without a slash at its end
    gets one.  Raises `Invalid`.  The API, not this function, checks the form of the ref."""
    repository, _, rest = text.removeprefix("lakefs://").partition("/")
    ref, _, prefix = rest.partition("/")
    parse_repository_id(repository)
    if not ref:
        raise Invalid(f"ref invalid: it must look like repository/ref/folder: {text!r:.200}")
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    return Target(repository, ref, prefix)


def place_of(lake: Lake, namespace: str, breaks: BreakParameters = _NO_WRITING) -> Place:
    """Where executors find the objects of a repository.  Only writers need `breaks`.  Raises
    `Invalid` if the objects lie in a folder of the server and `lake.store` does not name it."""
    parts = split_prefix(f"{namespace}/")
    if parts.scheme == "s3":
        return Place(f"s3:{parts.bucket}", namespace, breaks, endpoint_url())
    if parts.scheme != "local" or not lake.store:
        raise Invalid(
            "the objects are in a folder of the server: name the folder that `graveler serve "
            '--store` names, as the executors see it: connect(…, store="FOLDER"): '
            f"{namespace=}"
        )
    place = Place(f"local:{lake.store}/objects", namespace, breaks)
    _check_store(place, lake.store)
    return place


@lru_cache(maxsize=64)
def _check_store(place: Place, store: str) -> None:
    """Raise `Invalid` if the folder has nothing of the repository: otherwise a wrong folder would
    look like lost objects."""
    if not opened(place).blocks.list(f"{place.namespace}/", "", 1).lines:
        raise Invalid(
            "the folder store= has no object of this repository: name the folder that the server "
            f"has open, as this machine sees it: {store=} namespace={place.namespace}"
        )


class Pin(NamedTuple):
    """The commit to which a ref was resolved, and the prefix that was given with it."""

    repository: str
    commit: str
    metarange: MetarangeId
    prefix: str
    place: Place

    def ranges(self) -> tuple[RangeRef, ...]:
        """All ranges of the commit, in key order; one request to the object store."""
        return opened(self.place).space.metarange(self.metarange).ranges


def pinned(lake: Lake, where: str) -> Pin:
    """Resolve "repository/ref/folder".  `ref`: a branch (its last commit), a tag, a commit, or one
    of these with `~n`.  Errors: `Invalid`, `NotFound`."""
    target = parse_ref(where)
    repository = lake.session.call("GET", below("repositories", target.repository))
    commit = commit_at(lake, target.repository, target.branch)
    place = place_of(lake, repository["storage_namespace"])
    metarange = MetarangeId(commit["meta_range_id"])
    return Pin(target.repository, commit["id"], metarange, target.prefix, place)


def at_commit(lake: Lake, where: str) -> str:
    """The text "repository/ref/folder" with the id of the commit in place of the ref.  Errors:
    `Invalid`, `NotFound`."""
    target = parse_ref(where)
    commit = commit_at(lake, target.repository, target.branch)["id"]
    return f"{target.repository}/{commit}/{target.prefix}"


def commit_at(lake: Lake, repository: str, ref: str) -> Any:
    """The commit of a ref, as the API returns it.  Cost: 1 request to the API."""
    commits = commits_page(lake, repository, ref, "?amount=1")["results"]
    if not commits:
        raise NotFound(f"ref has no commit: {ref=}")
    return commits[0]


def commits_page(lake: Lake, repository: str, ref: str, query: str) -> Any:
    """One page of a ref's history, newest first, as the API returns it."""
    where = below("repositories", repository, "refs", ref, "commits")
    return lake.session.call("GET", where + query)
