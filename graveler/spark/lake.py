"""A lake with a session of Spark, the refs it resolves, and where objects are found.

    lake = connect(spark)                       the server of your login, as `graveler.connect`
    lake = connect(spark, "https://host", Credentials("KEY", "secret"))
    lake = connect(spark, "folder")             an embedded store, in this process

Only the driver has credentials.  Executors get a `Place`: names only.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from pyspark.sql import SparkSession

import graveler
from graveler.block.address import split_prefix
from graveler.core.errors import Invalid, NotFound, Unauthenticated, Unavailable
from graveler.core.ids import MetarangeId, parse_branch_id, parse_repository_id
from graveler.core.records import BreakParameters, RangeRef
from graveler.core.settings import (
    ACCESS_KEY_VARIABLE,
    SECRET_KEY_VARIABLE,
    endpoint_url,
    environment,
)
from graveler.lake import lake as lakes
from graveler.lake.errors import raising
from graveler.lake.extras import open_lake
from graveler.lake.ref import Ref
from graveler.lake.session import Session, below
from graveler.lake.session import connect as session_of
from graveler.spark.places import Place, check_workers, opened

if TYPE_CHECKING:
    from graveler.spark.table import Table

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
_SCHEMES: Final = ("http://", "https://")
_NO_WRITING: Final = BreakParameters()


class EmbeddedServer(NamedTuple):
    """The URL of a server, and a function that stops it; a second call does nothing."""

    url: str
    stop: Callable[[], None]


class Credentials(NamedTuple):
    """The credentials of the API for a job: an access key id and its secret."""

    access_key_id: str
    secret_access_key: str


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
    """A lake as the library has it, with a session of Spark: `lake.repository("shop")`, and
    `branch("main").table("orders")` of it.  Made by `connect`.

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
        self._views: dict[str, str] = {}

    def use(self, address: str, *folders: str) -> dict[str, str]:
        """Make the tables of a ref, "shop/dev", views of the session, for `spark.sql`; returns
        their names and the addresses of the tables.

        `folders`: these; without any, each folder of the first level that has data files (the
        format is known from the table, or from the names of its files).  A view has the name of its
        folder, and stays at the commit that the ref has now: call `use` again to see later ones.
        Views of an earlier call are dropped.  Errors: as `Table.read`; `Invalid` if two folders
        have one name.  Cost: of each table, that of `Table.read`; one list for each folder."""
        from graveler.spark.views import made

        for name in self._views:
            self.spark.catalog.dropTempView(name)
        self._views = {}
        self._views = made(self, address, folders)
        return dict(self._views)

    def _table(self, ref: Ref, path: str, format: str) -> "Table":
        from graveler.spark.table import Table

        return Table(self, ref, path, format)

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


@raising
def connect(
    spark: SparkSession,
    where: str | Path | lakes.Lake = "",
    credentials: Credentials | tuple[str, str] | None = None,
    *,
    profile: str = "",
    store: str | Path = "",
    import_roots: Sequence[str | Path] = (),
) -> Lake:
    """A lake with this session of Spark.

    `where`: the URL of a server; the folder of an embedded store that no other process has open,
    which this process opens; or a lake that `graveler.connect` or `graveler.open` has returned.
    Without it, the server that `graveler.connect` finds: a profile of `graveler login`, or the
    variables or file of lakectl.  `profile`: another one.
    `credentials`: an access key id and its secret, instead of those of the profile.  With a folder:
    a process of its own serves the store until `close`, and these are the administrator's.
    `store`: the folder of the embedded store that the server serves.
    `import_roots`: folders of this machine from which the store in a folder may import.
    Errors: `Invalid` (also if Spark's workers have another Python or other packages than this
    process; one small job finds that out, once for each session); `Unauthenticated`; `Unavailable`
    if the server does not start (its output goes to standard error) or does not answer.
    """
    check_workers(spark)
    if isinstance(where, lakes.Lake):
        folder = getattr(where, "folder", "")
        return Lake(
            spark, where.session, os.path.abspath(folder or store) if folder or store else ""
        )
    text = str(where)
    if text and "://" not in text:
        return _of_folder(spark, text, credentials, import_roots)
    if text and not text.startswith(_SCHEMES):
        raise Invalid(f"not the URL of a server and not a folder: {text!r:.200}")
    folder = os.path.abspath(store) if store else ""
    if folder and not os.path.isdir(os.path.join(folder, "objects")):
        raise Invalid(f"store= is not the folder of an embedded store: store={folder}")
    if credentials and not text:
        raise Invalid("credentials need the URL of their server: connect(spark, url, credentials)")
    key, secret = credentials or ("", "")
    lake = lakes.connect(text, key, secret, profile=profile)
    _check_known(lake.session)
    return Lake(spark, lake.session, folder)


def _of_folder(
    spark: SparkSession,
    folder: str,
    credentials: Credentials | tuple[str, str] | None,
    import_roots: Sequence[str | Path],
) -> Lake:
    store = os.path.abspath(folder)
    if credentials is None:
        lake = open_lake(store, import_roots=import_roots)
        return Lake(spark, lake.session, store, lake.close)
    keys = Credentials(*credentials)
    served = serve(Path(folder), keys, import_roots)
    session = session_of(served.url, keys.access_key_id, keys.secret_access_key)
    return Lake(spark, session, store, served.stop)


def _check_known(session: Session) -> None:
    """Raise `Unauthenticated` unless the server accepts the session."""
    try:
        session.call("GET", "/user")
    except Unauthenticated as error:
        raise Unauthenticated(
            f"{error}: url={session.url!r} access_key_id={session.access_key_id}"
        ) from error


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
            "the objects are in a folder of the server: name it, as the executors see it, with "
            f"connect(…, store=…): {namespace=}"
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
