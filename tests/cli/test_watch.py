"""`watch`: what happens is shown as it happens, and Ctrl-C ends it."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.commands import PROGRAM, terminal
from tests.cli.conftest import Lake


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
        assert process.wait() == 0
        assert process.stderr is not None and process.stderr.read() == ""


def test_a_number_of_events_as_json(lake: Lake) -> None:
    result = lake.user.run("watch", f"{lake.name}/main", "-n", "1", "--json")
    assert result.code == 0
    event = json.loads(result.out)["graveler"]
    assert (event["event"], event["branch"], event["id"]) == ("head", "main", head_of_main(lake))
    assert lake.user.run("watch", "nowhere", "-n", "1").code == 3


def test_an_interrupt_on_a_terminal(lake: Lake) -> None:
    shown = terminal(lake.user, "watch", lake.name)
    shown.until("  head  main  ")
    shown.type("\x03")
    assert shown.end() == 0 and "Traceback" not in shown.text
