"""Requests that take long are answered in time, counted from when they arrived."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from graveler.api.app import Graveler
from graveler.auth import accounts
from graveler.auth.authenticator import Authenticator
from graveler.auth.entities import Keeper
from graveler.block.signature import Signer
from graveler.core.ids import JobId
from graveler.http.pools import BoundedPool, Pools
from graveler.http.service import Service, ServiceSettings
from graveler.jobs.handover import TimeLimits
from graveler.jobs.queue import JobMessage
from simulator.service.process import basic
from tests.api.serving import ADMINISTRATOR, USER
from tests.asgi import Ask, Door
from tests.jobs.world import LONG, World, new_world, put_long

SECRET = bytes(range(32))
HAND_OVER, ANSWER = 20.0, 27.0


def _prepare(world: World) -> Keeper:
    """Make an administrator in the store of `world`, unless there is one."""
    ports = world.lake.ports
    keeper = accounts.keeper(ports.kv, ports.clock, ports.ids, SECRET)
    if accounts.find(ports.kv) is accounts.ABSENT:
        accounts.create(keeper, USER, "", ADMINISTRATOR)
    return keeper


@contextmanager
def _door(world: World) -> Iterator[Door]:
    """A door into the API over the store of `world`, for its administrator."""
    keeper, ports = _prepare(world), world.lake.ports
    names = ("write", "body", "stream", "walk", "lookup", "copy")
    short, bodies, streams, walks, lookups, copies = (BoundedPool(1, 4, name) for name in names)
    pools = Pools(short, bodies, streams, ThreadPoolExecutor(1), walks, lookups, copies)
    loop = asyncio.new_event_loop()
    settings = ServiceSettings("mem", time_limits=TimeLimits(HAND_OVER, ANSWER))
    signer = Signer(SECRET, "", ports.clock)
    service = Service(ports, Authenticator(keeper), signer, settings, pools, world.queue)
    pair = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
    try:
        yield Door(Graveler().use(service), loop, {"Authorization": basic(*pair)})
    finally:
        pools.close()
        loop.close()


def test_a_copy_that_takes_long_is_left_to_a_worker_and_told_to_whoever_asks_again() -> None:
    world = new_world()
    put_long(world)
    with _door(world) as door:
        asked = Ask.json(
            "POST",
            "/repositories/lake/branches/main/objects/copy?dest_path=copied",
            {"src_ref": LONG.ref, "src_path": LONG.path},
        )
        first = door.send(asked)
        [message] = world.queue.messages
        assert isinstance(message, JobMessage)
        assert first.status == 503 and f"outcome unknown: job={message.job}" in first.body.decode()
        assert any(name.lower() == "retry-after" for name in first.headers)
        world.work(JobId(message.job))
        second = door.send(asked)
    said = json.loads(second.body)
    assert second.status == 201 and said["path"] == "copied"
    assert world.lake.ports.blocks.read(said["physical_address"], 0, 100) == b"long"
    assert len(world.queue.messages) == 1


def test_the_time_that_it_took_to_know_the_sender_counts() -> None:
    world = new_world()
    world.lake.put("d", "3")
    clock = world.lake.ports.clock
    _prepare(world)
    lake, script = world.lake.interposed()
    with _door(replace(world, lake=lake)) as door:
        script.seen.clear()
        script.before("get", lambda: clock.sleep(15))  # who is asking?
        script.after("scan", lambda: clock.sleep(10), 2)  # of the commit itself
        begun = clock.steady_seconds()
        heard = door.send(
            Ask.json("POST", "/repositories/lake/branches/main/commits", {"message": "m"})
        )
    assert script.finished and heard.status == 503 and b"outcome unknown" in heard.body
    assert len(world.queue.messages) == 1
    assert ANSWER <= clock.steady_seconds() - begun < ANSWER + 1


def test_a_reset_that_takes_long_is_left_to_a_worker() -> None:
    world = new_world()
    world.lake.put("r/a", "3")
    _prepare(world)
    lake, script = world.lake.interposed()
    with _door(replace(world, lake=lake)) as door:
        script.after("scan", lambda: world.lake.ports.clock.sleep(HAND_OVER))
        asked = Ask.json(
            "PUT", "/repositories/lake/branches/main", {"type": "common_prefix", "path": "r/"}
        )
        first = door.send(asked)
        [message] = world.queue.messages
        assert isinstance(message, JobMessage)
        assert first.status == 503 and f"outcome unknown: job={message.job}" in first.body.decode()
        assert len(world.lake.uncommitted()) == 1
        world.work(JobId(message.job))
        second = door.send(asked)
    assert second.status == 204 and world.lake.uncommitted() == []
