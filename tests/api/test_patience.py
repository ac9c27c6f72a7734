"""Requests that take long are answered in time, counted from when they arrived."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from graveler.api.pools import BoundedPool, Pools
from graveler.api.routing import api_route
from graveler.api.service import Service, ServiceSettings
from graveler.auth import accounts
from graveler.auth.authenticator import Authenticator
from graveler.block.signing import Signer
from graveler.jobs.handing import Patience
from graveler.testing.asgi import Ask, Door
from graveler.testing.http_client import basic
from tests.api.serving import ADMINISTRATOR, USER
from tests.jobs.world import World, new_world

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
