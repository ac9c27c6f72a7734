"""`connect`: a lake with a session of Spark, whose refs have tables.

lake = connect(spark)                       the server of your login, as `graveler.connect`
lake = connect(spark, "https://host", Credentials("KEY", "secret"))
lake = connect(spark, "folder")             an embedded store, in this process
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from graveler.core.errors import Invalid, Unauthenticated
from graveler.lake import lake as lakes
from graveler.lake.errors import raising
from graveler.lake.extras import open_lake
from graveler.lake.ref import Ref
from graveler.lake.session import Session
from graveler.lake.session import connect as session_of
from graveler.spark import lake as connected
from graveler.spark.lake import Credentials, serve
from graveler.spark.places import check_workers
from graveler.spark.table import Table
from graveler.spark.views import made

_SCHEMES: Final = ("http://", "https://")


class Lake(connected.Lake):
    """A lake as the library has it, with a session of Spark: `lake.repository("shop")`, and
    `branch("main").table("orders")` of it.  Made by `connect`.

    Leaving the `with` block, or calling `close`, closes what `connect` opened.  It has credentials,
    so it cannot be pickled: Spark sends it to no executor.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._views: dict[str, str] = {}

    def __enter__(self) -> "Lake":
        return self

    def use(self, address: str, *folders: str) -> dict[str, str]:
        """Make the tables of a ref, "shop/dev", views of the session, for `spark.sql`; returns
        their names and the addresses of the tables.

        `folders`: these; without any, each folder of the first level that has data files (the
        format is known from the table, or from the names of its files).  A view has the name of its
        folder, and stays at the commit that the ref has now: call `use` again to see later ones.
        Views of an earlier call are dropped.  Errors: as `Table.read`; `Invalid` if two folders
        have one name.  Cost: of each table, that of `Table.read`; one list for each folder."""
        for name in self._views:
            self.spark.catalog.dropTempView(name)
        self._views = {}
        self._views = made(self, address, folders)
        return dict(self._views)

    def _table(self, ref: Ref, path: str, format: str) -> Table:
        return Table(self, ref, path, format)


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
