"""What once failed is run again, for ever.

A line of `seeds/*.txt` is `requests SEED`, `collect PROFILE SEED`, `access PROFILE SEED` (also
`logins`, `first_logins`), `path BOUND CHOICES PROGRAM`, or the name of a fuzzer of bytes and a
seed.
A soak adds lines by itself.
"""

from pathlib import Path
from random import Random

from simulator.exhaustive import PROGRAMS, Bound
from simulator.gc.run import check_collect_seed
from simulator.gc.stage import build_collect_stage
from simulator.service.requests import Fuzzer
from simulator.soak.tracks import AUTH, COLLECT, REQUESTS, follow, fuzzed, path_line
from tests.api.serving import served

SEEDS = Path(__file__).parent / "seeds"


def kept() -> list[list[str]]:
    texts = [file.read_text() for file in sorted(SEEDS.glob("*.txt"))]
    lines = [line.split() for text in texts for line in text.splitlines()]
    return [line for line in lines if line and line[0] != "#"]


def test_requests(tmp_path: Path) -> None:
    seeds = [int(line[1]) for line in kept() if line[0] == "requests"]
    with served(tmp_path / "store") as live:
        for seed in seeds:
            fuzzer = Fuzzer(live.client.host, live.client.port, live.client.authorization)
            fuzzer.run(Random(seed), REQUESTS)
            fuzzer.close()
            assert fuzzer.wrong == [], f"requests {seed}"


def test_a_path_is_written_and_followed() -> None:
    what, bound, path, *program = path_line(PROGRAMS[0], Bound(2, 0), [0, 1]).split()
    assert what == "path"
    assert follow(bound, path, " ".join(program)) == []


def test_bytes_and_collections() -> None:
    for what, *more in kept():
        if what == COLLECT:
            run = check_collect_seed(build_collect_stage(), more[0], int(more[1]))
            assert run.wrong == [], f"{what} {more}"
        elif what in AUTH:
            assert AUTH[what](more[0], int(more[1])).wrong == [], f"{what} {more}"
        elif what == "path":
            assert follow(more[0], more[1], " ".join(more[2:])) == [], f"{what} {more}"
        elif what != "requests":
            assert fuzzed(what, int(more[0])).failures == [], f"{what} {more}"
