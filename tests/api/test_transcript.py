"""The recorded requests are answered as recorded, but where the recorded server was wrong."""

import copy
from pathlib import Path
from typing import Any

from tests.api.serving import USER, Served
from tests.api.transcript import RIGHT, Run, lines, replay
from tests.waiting import until

TRANSCRIPTS = Path(__file__).parents[1] / "data" / "transcripts"
CORE = TRANSCRIPTS / "core.jsonl"
MORE = TRANSCRIPTS / "more.jsonl"
DIFFERENT = {
    "SameSite=Lax": "SameSite=Strict",  # no page of ours needs the cookie to open
    "\"default-src 'none'\"": "\"default-src 'none'; sandbox\"",  # of objects
    '"next_offset": "${m3}"': '"next_offset": "<log-page>"',  # behind merges
}
ENDED = {"done", "failed"}  # states of jobs


def _run(live: Served, number: int) -> Run:
    names = {"run": str(number), "ns": f"local://transcript-{number}", "user": USER}
    return Run((live.client.host, live.client.port), names)


def test_every_recorded_request_is_answered_as_recorded(live: Served) -> None:
    run = _run(live, 1)
    recorded = list(lines(CORE, DIFFERENT))
    assert len(recorded) == 272
    wrong = {line["id"]: found for line in recorded if (found := _replayed(live, run, line))}
    assert not wrong


def test_every_request_of_the_second_recording_is_answered_as_recorded(live: Served) -> None:
    run = _run(live, 3)
    recorded = list(lines(MORE, DIFFERENT))
    assert len(recorded) == 84
    wrong = {line["id"]: found for line in recorded if (found := _awaited(live, run, line))}
    assert not wrong


def _awaited(live: Served, run: Run, line: dict[str, Any]) -> list[str]:
    """The recorded server had ended its task when it was asked; and it had no commits that go on
    behind the answer, which ours must end before the next request looks at the branch."""
    if line["id"] == "dump.status":
        until(lambda: not replay(run, line), "the dump has ended")
    found = replay(run, line)
    if line["id"] == "async.commit":
        jobs = f"/repositories/m-{run.names['run']}/jobs"
        until(lambda: _states(live, jobs) <= ENDED, "the commit has ended")
    return found


def _states(live: Served, jobs: str) -> set[str]:
    return {job["state"] for job in live.client.send("GET", jobs).json["results"]}


def _replayed(live: Served, run: Run, line: dict[str, Any]) -> list[str]:
    """The recorded server linked what nobody had written."""
    if line["id"] == "object.link":
        live.embedded.ports.blocks.put(run.names["addr"], [b"a"])
    return replay(run, line)


def test_the_corrections_name_recorded_requests() -> None:
    assert set(RIGHT) <= {line["id"] for path in (CORE, MORE) for line in lines(path)}


def test_the_runner_notices_a_wrong_answer(live: Served) -> None:
    run = _run(live, 2)
    line = next(line for line in lines(CORE) if line["id"] == "config")
    assert replay(run, line) == []
    for spoil in (
        lambda response: response.update(status=201),
        lambda response: response["json"].update(extra=1),
        lambda response: response["json"]["storage_config"].update(blockstore_type="s3"),
        lambda response: response["headers"].update({"content-type": "text/html"}),
        lambda response: response["json"]["version_config"].update(version="<rfc3339>"),
    ):
        spoiled = copy.deepcopy(line)
        spoil(spoiled["response"])
        assert len(replay(run, spoiled)) == 1
