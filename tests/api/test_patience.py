"""Requests that take long are answered in time, counted from when they arrived."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from graveler.api.pools import BoundedPool, Pools
from graveler.api.routing import api_route
from graveler.api.service import Service, ServiceSettings
from graveler.auth import accounts
from graveler.auth.authenticator import Authenticator
from graveler.block.signature import Signer
from graveler.ids import JobId
from graveler.jobs.handover import Patience
from graveler.jobs.queue import JobMessage
from simulator.service.http_client import basic
from tests.api.serving import ADMINISTRATOR, USER
from tests.asgi import Ask, Door
from tests.jobs.world import LONG, World, new_world, put_long

SECRET = bytes(range(32))
HAND_OVER, ANSWER = 20.0, 27.0


def _service(world: World, pools: Pools) -> Service:
    """Over the store of `world`, in which there is an administrator."""
    ports = world.lake.ports
    keeper = accounts.keeper(ports.kv, ports.clock, ports.ids, SECRET)
    if accounts.find(ports.kv) is accounts.ABSENT:
        accounts.create(keeper, USER, "", ADMINISTRATOR)
    settings = ServiceSettings("mem", patience=Patience(HAND_OVER, ANSWER))
    signer = Signer(SECRET, "", ports.clock)
    return Service(ports, Authenticator(keeper, SECRET), signer, settings, pools, world.queue)


def test_a_copy_that_takes_long_is_left_to_a_worker_and_told_to_whoever_asks_again() -> None:
    world = new_world()
    put_long(world)
    short, bodies, walks = (BoundedPool(1, 4, name) for name in ("write", "stream", "walk"))
    pools = Pools(short, bodies, ThreadPoolExecutor(1), walks)
    loop = asyncio.new_event_loop()
    try:
        door = Door(
            api_route(_service(world, pools)).handle,
            loop,
            {"Authorization": basic(ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)},
        )
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
    finally:
        pools.close()
        loop.close()
    said = json.loads(second.body)
    assert second.status == 201 and said["path"] == "copied"
    assert world.lake.ports.blocks.read(said["physical_address"], 0, 100) == b"long"
    assert len(world.queue.messages) == 1


def test_the_time_that_it_took_to_know_the_sender_counts() -> None:
    world = new_world()
    world.lake.put("d", "3")
    clock = world.lake.ports.clock
    short, bodies, walks = (BoundedPool(1, 4, name) for name in ("write", "stream", "walk"))
    pools = Pools(short, bodies, ThreadPoolExecutor(1), walks)
    loop = asyncio.new_event_loop()
    try:
        _service(world, pools)
        lake, script = world.lake.interposed()
        slow = replace(world, lake=lake)
        door = Door(
            api_route(_service(slow, pools)).handle,
            loop,
            {"Authorization": basic(ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)},
        )
        script.seen.clear()
        script.before("get", lambda: clock.sleep(15))  # who is asking?
        script.after("scan", lambda: clock.sleep(10), 2)  # of the commit itself
        begun = clock.steady_seconds()
        heard = door.send(
            Ask.json("POST", "/repositories/lake/branches/main/commits", {"message": "m"})
        )
    finally:
        pools.close()
        loop.close()
    assert script.finished and heard.status == 503 and b"outcome unknown" in heard.body
    assert len(world.queue.messages) == 1
    assert ANSWER <= clock.steady_seconds() - begun < ANSWER + 1


def test_a_reset_that_takes_long_is_left_to_a_worker() -> None:
    world = new_world()
    world.lake.put("r/a", "3")
    short, bodies, walks = (BoundedPool(1, 4, name) for name in ("write", "stream", "walk"))
    pools = Pools(short, bodies, ThreadPoolExecutor(1), walks)
    loop = asyncio.new_event_loop()
    try:
        _service(world, pools)
        lake, script = world.lake.interposed()
        door = Door(
            api_route(_service(replace(world, lake=lake), pools)).handle,
            loop,
            {"Authorization": basic(ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)},
        )
        script.after("scan", lambda: world.lake.ports.clock.sleep(HAND_OVER))
        asked = Ask.json(
            "PUT",
            "/repositories/lake/branches/main",
            {"type": "common_prefix", "path": "r/"},
        )
        first = door.send(asked)
        [message] = world.queue.messages
        assert isinstance(message, JobMessage)
        assert first.status == 503 and f"outcome unknown: job={message.job}" in first.body.decode()
        assert len(world.lake.uncommitted()) == 1
        world.work(JobId(message.job))
        second = door.send(asked)
    finally:
        pools.close()
        loop.close()
    assert second.status == 204 and world.lake.uncommitted() == []
