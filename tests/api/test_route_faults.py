"""Every port call of every route fails in turn, in every way.

Each request meets one world, one call of which (numbered over both ports) goes wrong: alone, alone
below the wrappers that retry, and as the first of all that follow.  Then:

    acknowledged              the effect is there, also when the late twin of a call lands
    503 "outcome unknown"     the world is as before, or as after a success
    503 otherwise, 507        the world is exactly as before
    repeated                  the same request ends well, and the world is as after a success
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from graveler.engine.ports import UnconfirmedWrite
from simulator.service.described import described
from tests.api.fault_cases import CASES, HANDED, LINK, Case, operations
from tests.api.fault_lake import CLEAN, LAKE, MAIN, lake
from tests.api.fault_picture import picture
from tests.api.fault_world import Running, State, Strikes, Surroundings, World, sound
from tests.asgi import Ask, Door, Heard
from tests.support.faults import Fault

pytestmark = pytest.mark.slow
READS = frozenset(
    ("kv.get", "kv.get_many", "kv.scan", "block.get", "block.read", "block.head", "block.list")
)
SAME_WHEN_LASTING = frozenset((verb, Fault.DROPPED) for verb in READS)
SAME_WHEN_RETRIED = SAME_WHEN_LASTING  # a wrapper repeats a read however it failed
OF_READS = (Fault.REFUSED, Fault.DROPPED)
OF_WRITES = (Fault.REFUSED, Fault.FULL, Fault.DROPPED, Fault.LOST, Fault.REPEATED, Fault.LATE)
PUT = "block.put"  # never repeated below its caller (B5); not retried if its body is a stream
UNAVAILABLE, FULL = 503, 507
UNKNOWN = "outcome unknown"


_STATUS = {
    "importStart": CLEAN + "/import?id={id}",
    "commitAsync": MAIN + "/commits/async/{id}/status",
    "dumpSubmit": LAKE + "/dump?task_id={id}",
    "restoreSubmit": "/repositories/bare/restore?task_id={id}",
    "orderCollection": LAKE + "/gc/runs/{id}",
    "to delete": "/repositories/spare/gc/runs/{id}",  # in the lake a cluster has the turn
    "mergeIntoBranchAsync": LAKE + "/refs/dev/merge/clean/async/{id}/status",
}


class Blow(NamedTuple):
    """How one call goes wrong.  `lasting`: so does all that follows.  `retrying`: below wrappers
    that retry.  `late_last`: what is late lands after the repetition, not before."""

    number: int
    verb: str
    fault: Fault
    lasting: bool = False
    retrying: bool = False
    late_last: bool = False


class Known(NamedTuple):
    """What a case does when nothing goes wrong.  `pictures`: what new processes have shown."""

    verbs: list[str]
    heard: Heard
    before: dict[str, Any]
    after: dict[str, Any]
    pictures: dict[object, dict[str, Any]]


@pytest.fixture(scope="module")
def template(around: Surroundings) -> Callable[[Case], World]:
    """The world that a case begins with; to be copied."""
    full, empty = lake(around), World(around)
    return lambda case: empty if case.empty else full


def test_every_route_has_a_case() -> None:
    assert {each.operation for each in described()} == set(operations())
    assert len({str(case) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_call_fails_in_each_way(case: Case, template: Callable[[Case], World]) -> None:
    problems = _problems(case, template(case))
    assert not problems, "\n".join(problems)


def test_a_verb_that_forgets_what_it_sent_is_found_out(
    template: Callable[[Case], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnconfirmedWrite, "mark_unconfirmed", lambda _unconfirmed: None)
    case = next(case for case in CASES if case.operation == "deleteBranch")
    assert any("the world after" in found for found in _problems(case, template(case)))


def _problems(case: Case, begun: World) -> list[str]:
    """What is wrong, one line for each way in which a call failed."""
    known = _clean(case, begun)
    problems = []
    for blow in _blows(known.verbs):
        try:
            _judge(case, begun.copy(), known, blow)
        except AssertionError as error:
            problems.append(f"{case}: {blow}: {str(error).splitlines()[0]}")
    return problems


def _clean(case: Case, begun: World) -> Known:
    also = case.also(begun)
    before = picture(begun.copy().serve(sound()).door, also)
    world, strikes = begun.copy(), Strikes()
    running = world.serve(strikes)
    heard = running.send(case.ask(world))
    assert heard.status == case.status, heard
    strikes.armed = False
    return Known(strikes.seen, heard, before, picture(running.door, also), {})


def _blows(verbs: list[str]) -> Iterator[Blow]:
    for number, verb in enumerate(verbs, start=1):
        for fault in OF_READS if verb in READS else OF_WRITES:
            if (verb, fault) == (PUT, Fault.REPEATED):
                continue
            yield Blow(number, verb, fault)
            if fault is Fault.LATE:
                yield Blow(number, verb, fault, late_last=True)
            if fault is not Fault.REPEATED and (verb, fault) not in SAME_WHEN_LASTING:
                yield Blow(number, verb, fault, lasting=True, retrying=True)
            if fault not in (Fault.REPEATED, Fault.FULL) and (verb, fault) not in SAME_WHEN_RETRIED:
                yield Blow(number, verb, fault, retrying=True)


def _judge(case: Case, world: World, known: Known, blow: Blow) -> None:
    strikes = Strikes(blow.number, blow.fault, lasting=blow.lasting)
    running = world.serve(strikes, retrying=blow.retrying)
    begun = world.state
    heard = running.send(case.ask(world))
    strikes.armed = False
    assert len(strikes.seen) >= blow.number, "the call was not made"
    _check_status(case, heard)
    hidden = blow.fault is Fault.REFUSED or blow.fault is Fault.LOST
    repeated = blow.verb != PUT or case.holds_all(world)
    if blow.retrying and not blow.lasting and hidden and repeated:
        assert heard.status == case.status, f"a retry should have hidden it: {heard}"
    if blow.lasting and not case.goes_on and blow.verb != case.tidies:
        assert heard.status != case.status, f"acknowledged by services that are gone: {heard}"
    also = case.also(world)
    if heard.status == case.status:
        _check_answer(case, world.copy(), heard, known)
    allowed = _allowed(case, running, heard, known, blow)
    if blow.retrying and not blow.lasting and heard.status == case.status:
        # The wrappers hid it: the process knows what it does after a success.
        shown = _shown_anew(world, begun, known, also)
    else:
        shown = _shown(running, world, begun, known, also)
    assert shown in allowed or not allowed, f"{heard} {_differing(shown, known)}"
    if blow.fault is Fault.LATE and not blow.late_last:
        running.land()
        shown = _shown(running, world, begun, known, also)
        assert shown in allowed or not allowed, f"late: {heard} {_differing(shown, known)}"
    acknowledged = allowed == [known.after]
    if acknowledged or (case.adds and shown == known.after):
        return
    world.clock.sleep(case.patience)
    again = running.send(case.ask(world))
    expected = (case.status, *case.again) if shown == known.after else (case.status,)
    assert again.status in expected, f"repeated: {heard} {again}"
    running.land()
    last = _shown_anew(world, begun, known, also)
    assert last == known.after, f"repeated: {heard} {again} {_differing(last, known)}"


def _shown(
    running: Running, world: World, begun: State, known: Known, also: tuple[str, ...]
) -> dict[str, Any]:
    """The picture that the process itself shows."""
    touched = world.touched(begun)
    if not touched:
        return known.before
    return picture(running.door, also, known.before, touched, world.kept(begun))


def _shown_anew(world: World, begun: State, known: Known, also: tuple[str, ...]) -> dict[str, Any]:
    """The picture that a new process shows.  It knows only rows and objects, and a picture has no
    times, so worlds with the same ones have one picture."""
    rows, objects = world.state
    same = frozenset(rows.items()), frozenset(objects.items()), also
    if same not in known.pictures:
        door = world.serve(sound()).door
        known.pictures[same] = picture(
            door, also, known.before, world.touched(begun), world.kept(begun)
        )
    return known.pictures[same]


def _check_status(case: Case, heard: Heard) -> None:
    if heard.status == case.status:
        return
    assert heard.status in (UNAVAILABLE, FULL), f"undocumented: {heard}"
    assert heard.status != UNAVAILABLE or heard.headers.get("retry-after"), f"no hint: {heard}"
    if case.operation != "headObject":
        assert heard.json["message"], f"nothing said: {heard}"


def _check_answer(case: Case, world: World, heard: Heard, known: Known) -> None:
    """An acknowledgement is worth what it says, to another process too."""
    door = world.serve(sound()).door
    if case.operation == "getPhysicalAddress":
        world.blocks.put(heard.json["physical_address"], [b"linked"])
        link = Ask.json("PUT", HANDED, LINK | {"staging": heard.json})
        assert door.send(link).status == 200, "the address cannot be linked"
    elif case.operation == "createPresignMultipartUpload":
        assert _finished(door, world, heard.json) == 200, "the upload cannot be finished"
    elif case.operation in ("beginBulkJob", "beatBulkJob"):
        assert door.get(f"{CLEAN}/bulk/{heard.json['id']}") == heard.json
    elif case.operation in ("beginCollectionTurn", "beatCollectionTurn"):  # clocks go on
        assert heard.json["id"] == known.heard.json["id"]
        assert heard.json["until_time"] >= known.heard.json["until_time"]
    elif case.operation in ("login", "externalPrincipalLogin", "stsLogin"):
        token = {"Authorization": f"Bearer {heard.json['token']}"}
        assert door.send(Ask("GET", "/user", (), token)).status == 200
    elif known.before == known.after and not case.goes_on:  # each order has an id of its own
        assert heard.body == known.heard.body, heard


def _finished(door: Door, world: World, begun: dict[str, Any]) -> int:
    at, upload = begun["physical_address"], begun["upload_id"]
    part = world.blocks.put_part(at, upload, 1, [b"part"])
    body = {"physical_address": at, "parts": [{"part_number": 1, "etag": part.etag}]}
    return door.send(Ask.json("PUT", f"{MAIN}/staging/pmpu/{upload}?path=n", body)).status


def _allowed(
    case: Case, running: Running, heard: Heard, known: Known, blow: Blow
) -> list[dict[str, Any]]:
    """What may be shown until the request is repeated; nothing: any part of the effect."""
    either = [] if case.parts else [known.before, known.after]
    if heard.status != case.status:
        return either if _is_unknown(heard) else [known.before]
    if case.operation == "deleteObjects" and heard.json["errors"]:
        return either
    if not case.goes_on:
        return [known.after]
    status = _STATUS.get(case.note) or _STATUS[case.operation]
    job = running.door.get(status.format(id=heard.json["id"]))
    if "error" in job:
        said = job["error"] if isinstance(job["error"], str) else job["error"]["message"]
        return either if UNKNOWN in said else [known.before]
    if job.get("completed") or job.get("done"):
        return [known.after]
    assert blow.lasting, f"the job never ends: {job}"
    return either


def _is_unknown(heard: Heard) -> bool:
    return heard.status == UNAVAILABLE and UNKNOWN.encode() in heard.body


def _differing(shown: dict[str, Any], known: Known) -> str:
    if shown in (known.before, known.after):
        return "shown: the world " + ("before" if shown == known.before else "after")
    return f"shown: {shown}"
