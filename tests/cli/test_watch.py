"""`watch`: what happens is shown as it happens, and Ctrl-C ends it."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.commands import PROGRAM, Client, terminal
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted
from tests.waiting import PATIENCE_SECONDS


def head_of_main(lake: Lake) -> str:
    reply = lake.live.client.send("GET", f"/repositories/{lake.name}/branches/main")
    return str(reply.json["commit_id"])


@contextmanager
def watching(lake: Lake, *words: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [*PROGRAM, "watch", *words, "--interval", "0.1"],
        env=lake.user.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line(process: "subprocess.Popen[str]") -> list[str]:
    """The next event, without its time."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n").split("\t")[1:]


def test_events_of_a_repository(lake: Lake) -> None:
    name = lake.name
    head = head_of_main(lake)
    with watching(lake, name) as process:
        assert line(process) == ["head", "main", head, "head"]
        lake.put("a")
        assert line(process) == ["uncommitted", "main", "", "1 uncommitted change"]
        first = lake.commit("add a")
        assert line(process) == ["commit", "main", first, "add a"]
        assert line(process) == ["uncommitted", "main", "", "0 uncommitted changes"]
        assert lake.user.run("branch", "create", f"{name}/dev").code == 0
        assert line(process) == ["head", "dev", first, "branch created"]
        assert lake.user.run("branch", "delete", f"{name}/dev", "--yes").code == 0
        assert line(process) == ["deleted", "dev", first, "branch deleted"]
        lake.user.run("reset", "--hard", f"{name}/main", head, "--confirm", "main")
        assert line(process) == ["head", "main", head, "branch moved back"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr is not None and process.stderr.read() == ""


def test_a_number_of_events_as_json(lake: Lake) -> None:
    result = lake.user.run("watch", f"{lake.name}/main", "-n", "1", "--json")
    assert result.code == 0
    event = json.loads(result.out)["graveler"]
    assert (event["event"], event["branch"], event["id"]) == ("head", "main", head_of_main(lake))
    assert lake.user.run("watch", "nowhere", "-n", "1").code == 3


LAST = {"has_more": False, "next_offset": ""}


def page(*items: dict[str, str]) -> Said:
    return Said(200, json.dumps({"results": items, "pagination": LAST}).encode())


def run_of_hooks(id: str, status: str, branch: str = "main") -> dict[str, str]:
    return {
        "run_id": id,
        "status": status,
        "start_time": "",
        "branch": branch,
        "event_type": "pre-merge",
    }


def test_runs_of_hooks_and_a_server_that_is_away(user: Client) -> None:
    """Runs that were there at the start are not shown; a round that fails is one of several."""
    branch = Said(200, b'{"id": "main", "commit_id": "1a"}')
    old, new = run_of_hooks("r1", "completed"), run_of_hooks("r2", "failed")
    other = run_of_hooks("r3", "failed", "dev")
    rounds = (
        (branch, page(), page(old)),
        (Said(503, b'{"message": "busy"}', (("Retry-After", "60"),)),),
        (branch, page(), page(other, new, old)),
    )
    with scripted([answer for each in rounds for answer in each]) as script:
        user.know(script.url)
        result = user.run("watch", "lake/main", "-n", "2", "--interval", "0.1")
    assert result.code == 0 and result.err == "no answer: busy\n"
    events = [line.split("\t")[1:] for line in result.out.splitlines()]
    assert events == [["head", "main", "1a", "head"], ["run", "main", "r2", "pre-merge failed"]]


def test_a_server_without_runs_of_hooks(user: Client) -> None:
    branch, moved = (Said(200, b'{"id": "main", "commit_id": "%s"}' % id) for id in (b"1", b"2"))
    commit = {"id": "2", "parents": ["1"], "committer": "ann", "message": "m"}
    log = {"results": [{**commit, "creation_date": 0, "metadata": {}}]}
    log["results"].append({**log["results"][0], "id": "1", "parents": []})
    text = json.dumps({**log, "pagination": LAST}).encode()
    none = Said(501, b'{"message": "not implemented"}')
    with scripted([branch, page(), none, moved, Said(200, text), page()]) as script:
        user.know(script.url)
        result = user.run("watch", "lake/main", "-n", "2", "--interval", "0.1")
    assert result.code == 0 and result.out.endswith("\tcommit\tmain\t2\tm\n")


def test_an_interrupt_on_a_terminal(lake: Lake) -> None:
    shown = terminal(lake.user, "watch", lake.name)
    shown.until("  head  main  ")
    shown.type("\x03")
    assert shown.end() == 0 and "Traceback" not in shown.text
