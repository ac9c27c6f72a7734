"""`graveler jobs`: jobs of a served repository, and what a cancellation asks."""

import json

from graveler.api.jobs import Job
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


def test_a_commit_is_a_job(lake: Lake) -> None:
    user, name = lake.user, lake.name
    assert user.run("jobs", "list", name) == (0, "", "no jobs\n")
    lake.put("a")
    assert user.run("commit", f"{name}/main", "-m", "x").code == 0
    (job,) = user.read(list[Job], "jobs", "list", name)
    assert (job.kind, job.state, job.branch) == ("commit", "done", "main")
    assert user.read(Job, "jobs", "show", name, job.id) == job
    assert f"result:       {job.commit_id}\n" in user.run("jobs", "show", name, job.id).out
    listed = user.run("jobs", "list", name, "--kind", "commit", "--state", "done", "-n", "1")
    assert listed.out.startswith(f"{job.id}\tcommit\tdone\t")
    assert user.run("jobs", "list", name, "--state", "running").out == ""
    assert user.run("jobs", "cancel", name, job.id, "--yes").code == 5
    assert user.run("jobs", "cancel", name, job.id).code == 2


def test_an_unknown_job(lake: Lake) -> None:
    result = lake.user.run("jobs", "show", lake.name, "nope")
    assert result.code == 3
    assert result.err.endswith(f"{lake.name} nope\ntry: graveler jobs list {lake.name}\n")


def test_a_cancellation_is_asked_for(user: Client) -> None:
    job = {
        **{"id": "j1", "kind": "import", "state": "running", "create_time": "", "attempts": 1},
        **{"update_time": "", "cancellable": True},
        "progress": {"done": 7, "unit": "objects", "per_second": 2.0},
    }
    running = Said(200, json.dumps(job).encode())
    with scripted([running, Said(204, b""), running, Said(204, b"")]) as server:
        user.know(server.url)
        shown = terminal(user, "jobs", "cancel", "lake", "j1")
        shown.until("Cancel import j1 (running, 7 objects, 2/s)? [y/N]: ")
        shown.type("y\n")
        assert shown.end() == 0 and "cancelled j1" in shown.text
        assert server.asked[-1].method == "DELETE"
        shown = terminal(user, "jobs", "cancel", "lake", "j1")
        shown.until("[y/N]: ")
        shown.type("n\n")
        assert shown.end() == 1 and server.asked[-1].method == "GET"
        said = user.run("jobs", "cancel", "lake", "j1", "--yes", "--json")
        assert json.loads(said.out) == {"graveler": {"done": "cancelled j1"}}
