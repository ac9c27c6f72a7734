"""Races of S3 clients with clients of the API, under SIGKILL, and the judge of conditional writes.

`GRAVELER_RACE_SECONDS` is how long lives and deaths of the service go on; by default there are
two.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import draws
from tests.cli.service import Service, run, serving
from tests.engine.history import NOTHING, History, Observed, Span
from tests.engine.load import FEATURE, SINK, judged
from tests.engine.test_threads import HttpDoor
from tests.gateway.races import REACHED, Claim, Races, broken_claims

LIVES = 2
SECONDS = float(os.environ.get("GRAVELER_RACE_SECONDS", "0"))


def lives(races: Races) -> Iterator[float]:
    """How long each life goes on once all is under way."""
    chance, end = random.Random(races.seed), time.monotonic() + SECONDS
    while races.lives < LIVES or time.monotonic() < end:
        yield chance.uniform(0.0, 2.0 if SECONDS else 0.3)


def set_up(service: Service, races: Races) -> None:
    with service.client() as client:
        body = {"name": "lake", "storage_namespace": "local://lake/x"}
        client.post("/repositories", json=body).raise_for_status()
        for branch in (FEATURE, SINK):
            body = {"name": branch, "source": "main"}
            client.post("/repositories/lake/branches", json=body).raise_for_status()
    races.begin(service.url)


@pytest.mark.slow
def test_s3_clients_race_with_clients_of_the_api_and_with_kills(tmp_path: Path) -> None:
    races, store = Races(draws.seed()), tmp_path / "store"
    for seconds in lives(races):
        with serving(store) as service:
            if races.lives:
                races.settle(service.url)
            else:
                set_up(service, races)
            races.live(service.url, lambda: kill(service), seconds)
        assert not races.history.failures, races.history.failures[:20]
    with serving(store) as service, contextlib.closing(HttpDoor(service.url)) as door:
        races.settle(service.url)
        wrong = judged(races.history, door)
        wrong += broken_claims(races.claims, races.history, door.tree("main"))
        assert service.end()[0::2] == (0, "")
    report(races, wrong)
    assert not wrong, "\n".join([f"{races.seed=}: {len(wrong)} wrong", *wrong[:20]])
    for kind in REACHED:
        assert races.history.answers.get(kind), f"the races must reach this: {kind}"
    verified = run("verify", "--store", str(store), "--objects")
    assert verified.returncode == 0, verified.stdout


def kill(service: Service) -> None:
    service.end(signal.SIGKILL)


def report(races: Races, wrong: list[str]) -> None:
    answers, looks = races.history.answers, len(races.history.observed)
    print(*(f"{kind} {answers[kind]}" for kind in sorted(answers)), sep="\n")
    print(f"kills {races.lives} looks {looks} commits {len(races.history.made)}")
    print(f"completions sent again {races.resent}, wrong {len(wrong)}")


def test_clients_never_find_all_new_keys_taken() -> None:
    races, rng, taken = Races(seed=1), random.Random(1), set[str]()
    for _ in range(2_000):
        key = races.new_key(rng)
        races.created += key not in taken
        taken.add(key)
    assert len(taken) > 200


def test_what_two_claims_of_one_etag_say() -> None:
    first, second = Claim("a", NOTHING, "x", True), Claim("a", "x", "y", True)
    seen = History(observed=[Observed("list", Span(0, 1), {"a": "y"})])
    assert broken_claims([first, second], seen, {"a": "y"}) == []
    # Another one had the same etag to leave from, and was acknowledged too.
    assert len(broken_claims([first, second, Claim("a", "x", "z", True)], seen, {"a": "y"})) == 2
    # It has no answer: it may have lost, unless it was seen.
    unknown = Claim("a", "x", "z", False)
    assert broken_claims([first, second, unknown], seen, {"a": "y"}) == []
    seen.looked(Observed("list", Span(0, 1), {"a": "z"}))
    assert broken_claims([first, second, unknown], seen, {"a": "y"})
    # What was acknowledged is gone.
    assert broken_claims([first, second], History(), {"a": "x"})
