"""No pickle that Spark makes has the credentials; plans are made by the process that has them."""

import io
import os
import socket
import stat
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from graveler.core.errors import Internal, Invalid, NotFound
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE
from graveler.spark import Lake, import_, register
from graveler.spark.datasource import PLAN, answered, source_of
from graveler.spark.planner import Planner, planner_of
from tests.spark.lakes import frame, write
from tests.spark.verbs.test_land import ascii_rows, repository

__all__ = ["repository"]  # a fixture


def credentials(lake: Lake) -> list[bytes]:
    return [lake.session.access_key_id.encode(), lake.session.secret_access_key.encode()]


def assert_clean(lake: Lake, *sent: bytes) -> None:
    for body in sent:
        for each in credentials(lake):
            assert each not in body


def planner(lake: Lake) -> Planner:
    return planner_of(lake.session, lake.store, answered)


def tables(repository: str) -> list[dict[str, str]]:
    here = f"{repository}/main"
    return [
        {"path": f"{here}/t"},
        {"path": here, "table": "entries"},
        {"path": here, "table": "diff", "left": f"{here}~1"},
        {"path": here, "table": "log"},
        {"path": here, "table": "ranges"},
    ]


def planned(source: DataSource, schema: StructType) -> bytes:
    """What Spark's planning worker sends to the executors: the read function and partitions."""
    sent = io.BytesIO()
    write_read_func_and_partitions(
        sent,
        reader=source.reader(schema),
        data_source=source,
        schema=schema,
        max_arrow_batch_size=100,
        binary_as_bytes=True,
    )
    return sent.getvalue()


def test_what_planning_workers_send_has_no_credentials(lake: Lake, repository: str) -> None:
    """Of the class (which Spark sends to executors too), the instance, the plan of a read."""
    write(lake, lake.spark.range(5), f"{repository}/main/t")
    kind = source_of(planner(lake))
    sent = [CloudPickleSerializer().dumps(kind)]
    for options in tables(repository):
        source = kind(options)
        schema = source.schema()
        schema = StructType.fromDDL(schema) if isinstance(schema, str) else schema
        again = CloudPickleSerializer().loads(CloudPickleSerializer().dumps(source))
        sent += [CloudPickleSerializer().dumps(again), planned(again, schema)]
        assert repository.encode() in sent[-1] or options.get("table") in ("log", "ranges")
    assert len(sent) == 11
    assert_clean(lake, *sent)


def test_what_the_driver_sends_to_executors_has_no_credentials(lake: Lake, repository: str) -> None:
    """The whole plan of a query, as the JVM serializes it for tasks."""
    register(lake)
    write(lake, lake.spark.range(5), f"{repository}/main/t")
    for options in tables(repository):
        df = lake.spark.read.format("graveler").options(**options).load()
        rows = df._jdf.queryExecution().executedPlan().execute()  # type: ignore[operator]
        jvm = lake.spark.sparkContext._jvm
        assert jvm is not None
        body = jvm.java.io.ByteArrayOutputStream()
        jvm.java.io.ObjectOutputStream(body).writeObject(rows)
        sent = bytes(body.toByteArray())
        assert b"Graveler" in sent  # the class of the data source
        assert_clean(lake, sent)


def test_functions_of_every_kind_of_work_have_no_credentials(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that PySpark pickles in the driver while the whole package works."""
    from graveler.lake import bulk
    from graveler.spark import collect, commit, diff, entries, log, pack, ranges
    from graveler.spark.reads import read

    sent: list[bytes] = []
    real = CloudPickleSerializer.dumps

    def spy(self: CloudPickleSerializer, obj: object) -> bytes:
        sent.append(real(self, obj))
        return sent[-1]

    monkeypatch.setattr(CloudPickleSerializer, "dumps", spy)
    here = f"{repository}/main"
    import_(lake, frame(lake.spark, ascii_rows(133, 20)), f"{here}/in")
    write(lake, lake.spark.range(5), f"{here}/t")
    branch = f"/repositories/{repository}/branches/main"
    lake.session.call("POST", f"{branch}/objects?path=staged", {"staged": 1})
    commit(lake, here)
    now = bulk.read_breaks(lake.session, repository)
    pack(lake, here, replace(now, min_size=1 << 20))
    for df in (read(lake, f"{here}/t"), entries(lake, here), diff(lake, f"{here}~1", here)):
        df.collect()
    log(lake, here).collect(), ranges(lake, here).collect()
    collect(lake, [repository]).report.collect()
    assert len(sent) > 15
    assert_clean(lake, *sent)


def test_only_its_own_user_reaches_the_driver(lake: Lake) -> None:
    folder = os.path.dirname(planner(lake).socket)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert planner(lake) is planner(lake)


def test_what_a_killed_driver_leaves_is_removed(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next driver of this user, unless the folder is young.  It does not wait for one that
    was stopped."""
    temporary = tmp_path_factory.mktemp("t")  # a socket's path may have 107 bytes
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    folders = [temporary / f"graveler-plans-{name}" for name in ("dead", "young", "alive", "empty")]
    ways = []
    for folder in folders[:3]:
        folder.mkdir()
        ways.append(socket.socket(socket.AF_UNIX))
        ways[-1].bind(str(folder / "socket"))
    folders[3].mkdir()
    ways[2].listen(0)
    for _ in range(2):  # nobody accepts, and no more can wait
        ways.append(socket.socket(socket.AF_UNIX))
        ways[-1].setblocking(False)
        with suppress(BlockingIOError):
            ways[-1].connect(str(folders[2] / "socket"))
    ways[0].close(), ways[1].close()
    for folder in (folders[0], *folders[2:]):
        os.utime(folder, (1, 1))
    planner_of(lake.session, "another store", answered)
    assert [folder.exists() for folder in folders] == [False, True, True, True]
    for way in ways:
        way.close()


def test_on_another_machine_the_environment_has_the_credentials(
    lake: Lake, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = replace(planner(lake), socket=str(tmp_path / "none"))
    question = {"call": PLAN, "options": {"path": f"{repository}/main", "table": "log"}}
    question["schema"] = None  # type: ignore[assignment]
    with pytest.raises(Invalid, match=f"set {KEY_VARIABLE} and {SECRET_VARIABLE}"):
        elsewhere.ask(question, answered)
    monkeypatch.setenv(KEY_VARIABLE, lake.session.access_key_id)
    monkeypatch.setenv(SECRET_VARIABLE, lake.session.secret_access_key)
    assert elsewhere.ask(question, answered).pieces


def test_errors_come_back_as_what_they_are(lake: Lake, repository: str) -> None:
    for options, kind, words in (
        ({"path": f"{repository}/none"}, NotFound, "not found"),
        ({"path": f"{repository}/main", "table": "x"}, Invalid, "unknown table: 'x'"),
    ):
        with pytest.raises(kind, match=words):
            planner(lake).ask({"call": PLAN, "options": options, "schema": None}, answered)


def test_an_answer_that_is_cut_is_none(tmp_path: Path) -> None:
    """The driver died while it answered."""
    for number, body in enumerate((b"", b"\0" * 7 + b"\x09" + b"12345678")):
        where = str(tmp_path / f"socket-{number}")
        with socket.socket(socket.AF_UNIX) as way:
            way.bind(where)
            way.listen()

            def answer(way: socket.socket = way, body: bytes = body) -> None:
                found, _ = way.accept()
                with found:
                    while found.recv(100):
                        pass
                    found.sendall(body)

            thread = Thread(target=answer)
            thread.start()
            with pytest.raises(Internal, match="could not plan"):
                Planner(where, "http://localhost", "").ask({}, answered)
            thread.join()
