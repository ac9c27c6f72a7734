"""Many objects in a watched bucket: its notifications, shuffled and repeated, become commits.

The bucket tells a queue of the test's own, which passes on what it got: in another order, some
messages twice.  GRAVELER_EVENTS says how many objects (400).
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graveler.block import s3_notices
from graveler.core.aws import AwsSession, AwsSettings
from tests.aws.deployment.conftest import TARGET, WATCHED, Stack
from tests.aws.deployment.test_deploy import ask
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("stack")

OBJECTS = int(os.environ.get("GRAVELER_EVENTS", "200"))
BATCH = max(OBJECTS // 5, 100)
REPOSITORY = "arrivals"
THREADS = 8
WAIT_SECONDS = PATIENCE_SECONDS + OBJECTS / 20


class Lake:
    """The repository with its rule, its bucket, and the queues."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.queues = stack.aws("sqs")
        self.buckets = stack.aws("s3")
        self.events = self._url(f"{TARGET.stack}-events")
        self.tap: str = self.queues.create_queue(QueueName="tap")["QueueUrl"]

    def _url(self, name: str) -> str:
        url: str = self.queues.get_queue_url(QueueName=name)["QueueUrl"]
        return url

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """An answer of the API; while the engine has no room for its function, it says so."""
        sent = b"" if body is None else json.dumps(body).encode()
        end = time.monotonic() + WAIT_SECONDS
        while True:
            status, answer, _ = ask(self.stack, path, method, sent)
            if status != 429:
                assert status < 300, (status, answer)
                return json.loads(answer) if answer else {}
            assert time.monotonic() < end, "no room in the engine"
            time.sleep(0.2)

    def set_up(self) -> str:
        """The id of the rule."""
        self.buckets.create_bucket(Bucket=WATCHED)
        namespace = f"{self.stack.namespace}/{REPOSITORY}"
        new = {"name": REPOSITORY, "storage_namespace": namespace, "default_branch": "main"}
        self.api("POST", "/repositories", new)
        settings = AwsSettings("us-east-1", self.stack.engine, "test", "test")
        arn = self.queues.get_queue_attributes(QueueUrl=self.tap, AttributeNames=["QueueArn"])
        queue = arn["Attributes"]["QueueArn"]
        assert s3_notices.connect(AwsSession(settings), WATCHED, queue, "in/")
        rule = {"branch": "main", "bucket": WATCHED, "prefix": "in/", "path": "raw/{rest}"}
        more = {"objects": BATCH, "seconds": 3600, "marker": "_SUCCESS"}
        path = f"/repositories/{REPOSITORY}/events/rules"
        return str(self.api("POST", path, {**rule, **more})["id"])

    def notifications(self, count: int) -> list[str]:
        """That many messages of the bucket."""
        found: list[str] = []
        end = time.monotonic() + WAIT_SECONDS
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} notifications came"
            answer = self.queues.receive_message(QueueUrl=self.tap, MaxNumberOfMessages=10)
            told = answer.get("Messages", [])
            bodies = [each["Body"] for each in told]
            found += [body for body in bodies if "Records" in json.loads(body)]
            if told:
                entries = [
                    {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]}
                    for n, each in enumerate(told)
                ]
                self.queues.delete_message_batch(QueueUrl=self.tap, Entries=entries)
        return found

    def send(self, bodies: Sequence[str], queue: str = "") -> None:
        parts = [bodies[start : start + 10] for start in range(0, len(bodies), 10)]

        def part(some: Sequence[str]) -> None:
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(some)]
            self.queues.send_message_batch(QueueUrl=queue or self.events, Entries=entries)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(part, parts))

    def waiting(self, queue: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.queues.get_queue_attributes(QueueUrl=queue, AttributeNames=names)
        return sum(int(found["Attributes"][name]) for name in names)

    def is_committed(self) -> bool:
        path = f"/repositories/{REPOSITORY}/branches/main/diff?amount=1"
        return not self.api("GET", path)["results"]

    def objects(self) -> Iterator[tuple[str, str]]:
        """Path and checksum of everything in the head."""
        after, more = "", True
        while more:
            path = f"/repositories/{REPOSITORY}/refs/main@/objects/ls?amount=1000&after={after}"
            page = self.api("GET", path)
            for each in page["results"]:
                yield each["path"], each["checksum"]
            after, more = page["pagination"]["next_offset"], page["pagination"]["has_more"]

    def batches(self) -> list[str]:
        """The batch of every commit that says one."""
        log = self.api("GET", f"/repositories/{REPOSITORY}/refs/main/commits?amount=1000")
        said = [each["metadata"] or {} for each in log["results"]]
        return [each["graveler.batch"] for each in said if "graveler.batch" in each]

    def put_all(self, chance: random.Random) -> tuple[dict[str, str], int]:
        """Make, make again and remove objects; what is there at last, and how many events tell."""
        plans = [
            (number, 1 + (chance.random() < 0.1), chance.random() < 0.05)
            for number in range(OBJECTS)
        ]

        def one(plan: tuple[int, int, bool]) -> tuple[str, str]:
            number, times, is_removed = plan
            key, etag = f"in/{number % 7}/part-{number}", ""
            for time_ in range(times):
                answer = self.buckets.put_object(
                    Bucket=WATCHED, Key=key, Body=f"{number} {time_}".encode()
                )
                etag = answer["ETag"].strip('"')
            if is_removed:
                self.buckets.delete_object(Bucket=WATCHED, Key=key)
            return key.replace("in/", "raw/", 1), "" if is_removed else etag

        with ThreadPoolExecutor(THREADS) as pool:
            found = dict(pool.map(one, plans))
        events = sum(times + is_removed for _, times, is_removed in plans)
        return {path: etag for path, etag in found.items() if etag}, events


@pytest.fixture(scope="module")
def lake(stack: Stack) -> Lake:
    return Lake(stack)


@pytest.fixture(scope="module")
def rule(lake: Lake) -> str:
    return lake.set_up()


def until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < end, f"not {what} in time"
        time.sleep(0.3)


def test_many_events_become_commits_with_the_right_content(lake: Lake, rule: str) -> None:
    chance = random.Random(5)
    begun = time.monotonic()
    expected, events = lake.put_all(chance)
    told = lake.notifications(events)
    passed_on = told + chance.sample(told, len(told) // 10)
    chance.shuffle(passed_on)
    sent = time.monotonic()
    lake.send(passed_on)
    until(lambda: lake.waiting(lake.events) == 0, "taken in")
    taken = time.monotonic()
    answer = lake.buckets.put_object(Bucket=WATCHED, Key="in/_SUCCESS", Body=b"")
    expected["raw/_SUCCESS"] = answer["ETag"].strip('"')
    lake.send(lake.notifications(1))
    # Before the marker is taken in, nothing may be staged either: wait for the marker itself.
    until(lambda: "raw/_SUCCESS" in dict(lake.objects()) and lake.is_committed(), "committed")
    assert dict(lake.objects()) == expected
    batches = lake.batches()
    assert len(set(batches)) == len(batches) >= 1
    print(
        f"objects={OBJECTS} events={events} messages={len(passed_on)} commits={len(batches)} "
        f"put_seconds={sent - begun:.1f} taken_in_seconds={taken - sent:.1f} "
        f"committed_seconds={time.monotonic() - taken:.1f}"
    )
    jobs = lake._url(f"{TARGET.stack}-jobs")
    said = {"kind": "batch", "repository": REPOSITORY, "rule": rule}
    lake.send([json.dumps({**said, "batch": batch}) for batch in batches] * 2, jobs)
    lake.send(chance.sample(told, min(len(told), 100)))
    until(lambda: lake.waiting(jobs) == lake.waiting(lake.events) == 0, "told again")
    assert lake.batches() == batches
    assert lake.is_committed()
    assert dict(lake.objects()) == expected


def test_poison_ends_among_the_dead_letters_and_harms_nobody(lake: Lake, rule: str) -> None:
    attributes = lake.queues.get_queue_attributes(
        QueueUrl=lake.events, AttributeNames=["RedrivePolicy", "VisibilityTimeout"]
    )["Attributes"]
    redrive = {**json.loads(attributes["RedrivePolicy"]), "maxReceiveCount": 2}
    soon = {"VisibilityTimeout": "10", "RedrivePolicy": json.dumps(redrive)}
    dead = lake._url(f"{TARGET.stack}-events-dead")
    lake.queues.set_queue_attributes(QueueUrl=lake.events, Attributes=soon)
    try:
        lake.buckets.put_object(Bucket=WATCHED, Key="in/good", Body=b"good")
        lake.buckets.put_object(Bucket=WATCHED, Key="in/../bad", Body=b"bad")
        good, bad = sorted(lake.notifications(2), key=lambda body: "good" not in body)
        lake.send([good, "{ no message", bad])
        until(lambda: lake.waiting(dead) == 2, "dead")
    finally:
        lake.queues.set_queue_attributes(QueueUrl=lake.events, Attributes=attributes)
    path = f"/repositories/{REPOSITORY}/refs/main/objects/stat?path=raw/good"
    assert lake.api("GET", path)["path"] == "raw/good"
    found = lake.queues.receive_message(QueueUrl=dead, MaxNumberOfMessages=10)["Messages"]
    assert {each["Body"] for each in found} == {"{ no message", bad}
