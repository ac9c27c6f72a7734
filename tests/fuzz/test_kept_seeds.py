"""What once failed is run again, for ever.

A line of `seeds/*.txt` is `requests SEED`, `collect PROFILE SEED`, or the name of a fuzzer of bytes
and a seed.  A soak adds lines by itself.
"""

from pathlib import Path
from random import Random

from graveler.testing.api_fuzz import Fuzzer
from graveler.testing.sim_collect_programs import check_collect_seed
from graveler.testing.sim_collect_stage import build_collect_stage
from graveler.testing.soak_tracks import COLLECT, REQUESTS, fuzzed
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


def test_bytes_and_collections() -> None:
    for what, *more in kept():
        if what == COLLECT:
            run = check_collect_seed(build_collect_stage(), more[0], int(more[1]))
            assert run.wrong == [], f"{what} {more}"
        elif what != "requests":
            assert fuzzed(what, int(more[0])).failures == [], f"{what} {more}"
