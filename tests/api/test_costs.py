"""What requests to the API cost beside what the engine does for them: exact, on the memory drivers.

Authorization costs nothing while the rights of the caller are known.
"""

from collections import Counter

from graveler.core import limits
from graveler.engine.bulk import land
from graveler.engine.bulk.land import Finish
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from tests.api.fault_lake import CLEAN, MAIN
from tests.api.fault_world import Running, Strikes, World
from tests.asgi import Ask

BRANCH = Ask("GET", MAIN)


def requests(running: Running, strikes: Strikes, ask: Ask, status: int = 200) -> Counter[str]:
    """The requests to the key-value store for one request to the API."""
    strikes.seen.clear()
    heard = running.send(ask)
    assert heard.status == status, heard
    return _of_rows(strikes)


def _of_rows(strikes: Strikes) -> Counter[str]:
    return Counter(verb for verb in strikes.seen if verb.startswith("kv."))


def test_authorization_costs_no_request_while_the_rights_are_known(template: World) -> None:
    world, strikes = template.copy(), Strikes()
    running = world.serve(strikes)
    first = requests(running, strikes, BRANCH)
    known = requests(running, strikes, BRANCH)
    assert known == {"kv.get": 1}  # of the branch
    assert first - known == {"kv.get": 2, "kv.get_many": 3}  # key and repository; rights
    world.clock.sleep(limits.access_seconds_max + 1)
    old = requests(running, strikes, BRANCH)
    assert old["kv.get_many"] == 1
    running.service.auth.access.forget()
    assert requests(running, strikes, BRANCH) - known == {"kv.get_many": 3}
    assert requests(running, strikes, BRANCH) == known


def test_the_end_of_a_bulk_job_costs_two_requests_for_the_rights_below_its_prefix(
    template: World,
) -> None:
    names = template.names
    job, metarange = names["bulk job"], names["dev metarange"]
    strikes = Strikes()
    running = template.copy().serve(strikes)
    requests(running, strikes, BRANCH)
    ports = running.service.ports
    opened = open_repository(ports, repository.get(ports, "lake"))
    strikes.seen.clear()
    land.finish(opened, "clean", job, Finish(metarange, "r", "landed", "c"))
    alone = _of_rows(strikes)

    running = template.copy().serve(strikes)
    requests(running, strikes, BRANCH)
    body = {"metarange": metarange, "request_id": "r", "message": "landed"}
    whole = requests(running, strikes, Ask.json("PUT", f"{CLEAN}/bulk/{job}/finish", body), 201)
    assert whole - alone == {"kv.get": 2} and not alone - whole
    # Two of them read commits that this process has not seen: the job's base, and the head.
    assert alone == {"kv.get": 8, "kv.scan": 1, "kv.set_if": 4, "kv.set_many": 1}
