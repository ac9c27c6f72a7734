"""`graveler gc` and `graveler retention` on a real store: disk comes back, nothing else goes."""

import json
import time
from pathlib import Path

import pytest

from graveler.assembly import open_embedded
from graveler.block import address
from graveler.cli.main import main
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE, URL_VARIABLE
from graveler.engine import imports, janitor, names
from graveler.engine.commits import commit
from graveler.engine.gc import cluster
from graveler.engine.objects import read, write
from graveler.engine.ports import OpenRepository, open_repository
from graveler.engine.repositories import repository, verify
from graveler.engine.repositories.repository import NewRepository
from graveler.jobs.sweeper import collect_garbage
from graveler.lake.job import Collection
from tests.api.serving import ADMINISTRATOR, ended, served
from tests.cli.commands import Client
from tests.cli.service import repository as repository_of
from tests.cli.service import serving
from tests.client.scripted import Said, scripted

DAY_NS = 24 * 3600 * 1_000_000_000
BIG = bytes(200_000)


class Days:
    """The machine's clock, some days ahead."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._ahead_ns = 0
        real = time.time_ns
        patch.setattr(time, "time_ns", lambda: real() + self._ahead_ns)

    def pass_by(self, days: float) -> None:
        self._ahead_ns += int(days * DAY_NS)


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> Days:
    return Days(monkeypatch)


def _stored(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / "objects").rglob("*") if file.is_file())


def _upload(repo: OpenRepository, branch: str, path: str, content: bytes) -> None:
    write.upload(repo, branch, path, write.Upload([content]))


def _commit(repo: OpenRepository, branch: str) -> None:
    commit.commit(repo, branch, commit.CommitRequest("a commit", "me"))


@pytest.fixture
def lake(tmp_path: Path, days: Days) -> tuple[Path, Path]:
    """A store with a week behind it, and a folder that it imported."""
    folder, source = tmp_path / "store", tmp_path / "source"
    source.mkdir()
    (source / "x.csv").write_bytes(b"imported")
    store = open_embedded(folder, import_roots=[source])
    ports = store.ports
    repo = repository.create(ports, repository.NewRepository("lake", "local://lake"))
    for round_ in range(4):
        for path in ("a", "b"):
            _upload(open_repository(ports, repo), "main", path, b"%d" % round_ + BIG)
        _commit(open_repository(ports, repo), "main")
        days.pass_by(1)
    where = imports.ImportPath("common_prefix", f"local://{source}/", "in/")
    request = imports.ImportRequest([where], "import", "me")
    job = imports.submit(open_repository(ports, repo), "main", request, owner=b"me")
    imports.run(open_repository(ports, repo), "main", request, job.id)
    names.create_branch(open_repository(ports, repo), "side", "main")
    _upload(open_repository(ports, repo), "side", "c", b"side" + BIG)
    _commit(open_repository(ports, repo), "side")
    names.delete_branch(open_repository(ports, repo), "side")
    write.delete(open_repository(ports, repo), "main", "b")
    _commit(open_repository(ports, repo), "main")
    for _ in range(4):
        days.pass_by(0.2)
        janitor.sweep(open_repository(ports, repo))
    store.close()
    return folder, source


def test_disk_is_reclaimed_and_nothing_is_damaged(
    lake: tuple[Path, Path], days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, source = lake
    gc = ("gc", "--store", str(folder))
    rule = ("retention", "--store", str(folder), "--repository", "lake", "--days", "1", "--yes")
    assert main((*rule, "--yes", "--unreachable-days", "1", "--branch", "other=30")) == 0
    assert "default: kept for 1 day after the next commit" in capsys.readouterr().out
    days.pass_by(3)
    before = _stored(folder)
    assert main(gc) == 0
    said, note = capsys.readouterr()
    assert "would condemn: repository=lake data/" in said and "expired" in said
    assert note == "nothing was changed; use --delete to condemn and delete\n"
    assert main((*gc, "--delete", "--yes")) == 0
    assert "deleted: 0 files" in capsys.readouterr().out
    days.pass_by(1.1)
    assert main((*gc, "--delete", "--yes", "--repository", "lake")) == 0
    assert "deleted: 0 files" not in capsys.readouterr().out
    # Three of four rounds of two.  What the side branch has goes once its days are over.
    assert _stored(folder) < before - 5 * len(BIG)
    assert _stored(folder) > 3 * len(BIG)
    assert (source / "x.csv").read_bytes() == b"imported"
    store = open_embedded(folder, import_roots=[source])
    repo = repository.get(store.ports, "lake")
    assert not list(verify.verify(store.ports, objects=True))
    entry = read.stat(open_repository(store.ports, repo), "main", "a")
    assert b"".join(read.open_body(open_repository(store.ports, repo), entry).chunks) == b"3" + BIG
    entry = read.stat(open_repository(store.ports, repo), "main", "in/x.csv")
    assert b"".join(read.open_body(open_repository(store.ports, repo), entry).chunks) == b"imported"
    store.close()


def test_a_run_can_be_taken_back(
    lake: tuple[Path, Path], days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(lake[0])
    gc = ("gc", "--store", folder)
    main(("retention", "--store", folder, "--repository", "lake", "--days", "1", "--yes"))
    days.pass_by(9)
    capsys.readouterr()
    assert main((*gc, "--delete", "--yes")) == 0
    run = capsys.readouterr().out.split()[-1]
    assert main((*gc, "--undo", run)) == 0
    assert "undone" in capsys.readouterr().out
    days.pass_by(2)
    before = _stored(lake[0])
    main(("retention", "--store", folder, "--repository", "lake", "--days", "0"))
    assert main((*gc, "--delete", "--yes")) == 0
    assert _stored(lake[0]) >= before
    assert main((*gc, "--undo", run)) == 0  # it is undone
    capsys.readouterr()
    assert main((*gc, "--undo", "01UNKNOWN")) == 3
    assert "run of garbage collection not found: run=01UNKNOWN" in capsys.readouterr().err
    store = open_embedded(lake[0])
    unclaimed = NewRepository("unclaimed", "local://unclaimed")
    repository.create(store.ports, unclaimed)
    store.ports.blocks.delete(address.marker(unclaimed.namespace))
    store.close()
    assert main(gc) == 0
    assert "not its own: repository=unclaimed" in capsys.readouterr().out
    assert main((*gc, "--repository", "unclaimed")) == 4


@pytest.mark.parametrize("wrong", ["main", "main=x", "=3", "main=-1"])
def test_wrong_rules_are_refused(
    lake: tuple[Path, Path], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = ("retention", "--store", str(lake[0]), "--repository", "lake", "--branch", wrong)
    assert main(rule) == 1
    assert capsys.readouterr().err.startswith("graveler: branch ")


def test_the_round_of_a_service_collects(lake: tuple[Path, Path], days: Days) -> None:
    days.pass_by(20)
    before = _stored(lake[0])
    store = open_embedded(lake[0])
    repo = repository.get(store.ports, "lake")
    unclaimed = repository.create(store.ports, NewRepository("unclaimed", "local://unclaimed"))
    store.ports.blocks.delete(address.marker(unclaimed.namespace))
    collect_garbage(open_repository(store.ports, unclaimed))
    for passing in (7.1, 1.1, 0.0):  # it is noted that nothing leads to the commit; condemned; gone
        collect_garbage(open_repository(store.ports, repo))
        days.pass_by(passing)
    store.close()
    assert _stored(lake[0]) < before - len(BIG)


def test_a_run_of_a_server_can_be_taken_back(
    lake: tuple[Path, Path],
    days: Days,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(("retention", "--store", str(lake[0]), "--repository", "lake", "--days", "1", "--yes"))
    days.pass_by(9)
    with served(lake[0]) as live:
        client = live.client
        key, secret = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
        for name, said in ((URL_VARIABLE, client.url), (KEY_VARIABLE, key)):
            monkeypatch.setenv(name, said)
        monkeypatch.setenv(SECRET_VARIABLE, secret)
        capsys.readouterr()
        gc = ("gc", "--server", "--repository", "lake")
        assert main((*gc, "--delete", "--yes")) == 0
        counts, lists, said = capsys.readouterr().out.splitlines()
        assert "; condemned: 0 files" not in counts and "/_graveler/gc/01" in lists
        run = said.split()[-1]
        assert main((*gc, "--undo", run)) == main((*gc, "--undo", run)) == 0
        assert capsys.readouterr().out == "repository=lake: undone\n" * 2
        before = _stored(lake[0])
        days.pass_by(2)
        where = "/repositories/lake/gc/runs"
        job = client.send("POST", where, body={"dry_run": False}).json["id"]
        assert ended(client, f"{where}/{job}")["deleted"]["count"] == 0  # it condemns anew
        assert client.send("DELETE", f"{where}/{job}").status == 204
        dry = client.send("POST", where).json["id"]
        ended(client, f"{where}/{dry}")
        assert client.send("DELETE", f"{where}/{dry}").status == 409
        assert main((*gc, "--delete", "--yes")) == 0
        days.pass_by(2)
        assert _stored(lake[0]) >= before
        assert main((*gc, "--delete", "--yes")) == 0
        assert _stored(lake[0]) < before
        assert client.send("DELETE", f"{where}/{said.split()[-1]}").status == 204  # undone still


def test_a_service_that_collects_starts_and_stops(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--collect-hours", "24") as service:
        with service.client() as client:
            repository_of(client)
        code, _, err = service.end()
    assert (code, err) == (0, "")


def test_nothing_is_deleted_while_a_cluster_collects(
    lake: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, before = lake[0], _stored(lake[0])
    gc = ("gc", "--store", str(folder))
    store = open_embedded(folder)
    cluster.begin_turn(open_repository(store.ports, repository.get(store.ports, "lake")), "T")
    store.close()
    assert main((*gc, "--delete", "--yes", "--repository", "lake")) == 5
    assert "a cluster collects this repository" in capsys.readouterr().err
    assert main((*gc, "--delete", "--yes")) == 0
    assert "repository=lake: a cluster collects" in capsys.readouterr().out
    assert main(gc) == 0 and _stored(folder) >= before
    assert "kept; would be deleted" in capsys.readouterr().out


# ---- a server that answers what the test says ----------------------------------------------------

ORDERED = Said(202, b'{"id": "7f3c9a"}')
COLLECTED = {
    **{"id": "7f3c9a", "done": True, "dry_run": False, "run": "01RUN", "candidates": ""},
    **{"commits": 1, "commits_kept": 1},
    **{name: {"count": 1, "size_bytes": 1} for name in ("condemned", "deleted")},
}


def test_the_command_that_undoes_a_run_leads_to_the_same_server(user: Client) -> None:
    """An answer that is lost on the way does not end the waiting."""
    lost, ended = Said(502), Said(200, json.dumps(COLLECTED).encode())
    with scripted([ORDERED, lost, ended, ORDERED, ended]) as server:
        user.know(server.url)
        gc = ("gc", "--repository", "lake", "--delete", "--yes")
        named = user.run(*gc, "--server", server.url, "--profile", "test")
        assert named.code == 0, named
        assert named.out.splitlines()[-1].endswith(
            f": graveler gc --server {server.url} --profile test --repository lake --undo 01RUN"
        )
        plain = user.run(*gc, "--server")
        assert plain.out.endswith(": graveler gc --server --repository lake --undo 01RUN\n")


def test_an_interrupted_collection_is_named(user: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Collection, "progress", interrupt)
    with scripted([ORDERED]) as server:
        user.know(server.url)
        ended = user.run("gc", "--repository", "lake", "--delete", "--yes")
    assert ended.code == 130
    words = "graveler: interrupted: the server goes on: graveler jobs show lake 7f3c9a\n"
    assert ended.err == words
