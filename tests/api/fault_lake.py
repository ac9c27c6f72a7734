"""What stands in the world before each case, made by requests.

    main    a b c committed; uncommitted: s/1 s/2 (in a sealed token), s/3, c deleted
    dev     d on top of the first commit
    clean   e on top of the first commit; nothing uncommitted
    tag     v1, the first commit
    bare    a repository that a dump of the lake can be restored into
    jobs    an import, a commit and a merge that were begun and not run; a bulk job

Names that requests need (ids of commits, an upload address) are kept with the world.
"""

from typing import Any
from urllib.parse import quote

from graveler.block import address
from graveler.core.identity import commit_id
from graveler.core.ids import BranchId, CommitId, MetarangeId, RepositoryId
from graveler.core.records import ABSENT, Commit
from graveler.refs import action_runs as action_runs
from graveler.refs import garbage, repositories
from graveler.refs.action_runs import ActionRun, HookRun
from graveler.refs.garbage import Run, RunState
from tests.api.fault_world import KEY, SECRET_KEY, Surroundings, World, sound
from tests.asgi import Ask, Door
from tests.auth.fake_sts import ROLE
from tests.auth.provider import ISSUER

LAKE = "/repositories/lake"
MAIN, CLEAN = LAKE + "/branches/main", LAKE + "/branches/clean"
SETUP = {"username": "admin", "key": {"access_key_id": KEY, "secret_access_key": SECRET_KEY}}
IMPORTED = "mem://outside/in/"
IMPORT = {
    "paths": [{"type": "common_prefix", "path": IMPORTED, "destination": "in/"}],
    "commit": {"message": "imported"},
}
READS = [{"effect": "allow", "action": ["fs:Read*"], "resource": "*"}]
_CREATED_SECONDS = 1_600_000_000


def lake(around: Surroundings) -> World:
    """The world of most cases."""
    world = World(around)
    running = world.serve(sound())
    door = running.door
    _done(door, Ask.json("POST", "/setup_lakefs", SETUP))
    for name in ("lake", "spare"):
        body = {"name": name, "storage_namespace": f"mem://{name}/x"}
        _done(door, Ask.json("POST", "/repositories", body))
    for path in ("a", "b", "c"):
        _upload(door, "main", path)
    world.names["first"] = _commit(door, "main", "first")["id"]
    for branch, path in (("dev", "d"), ("clean", "e")):
        _done(door, Ask.json("POST", LAKE + "/branches", {"name": branch, "source": "main"}))
        _upload(door, branch, path)
        made = _commit(door, branch, f"{branch} work")
        world.names[branch] = made["id"]
        world.names[f"{branch} metarange"] = made["meta_range_id"]
    _upload(door, "main", "s/1")
    _upload(door, "main", "s/2")
    _done(door, Ask("DELETE", MAIN + "/objects?path=c"))
    _upload(door, "main", "s/0")
    _done(door, Ask.json("PUT", MAIN, {"type": "object", "path": "s/0"}))
    _upload(door, "main", "s/3")
    _done(door, Ask.json("POST", LAKE + "/tags", {"id": "v1", "ref": world.names["first"]}))
    world.names["salt"] = door.get(LAKE + "/settings/breaks")["salt"]
    pairs = {"metadata": {"team": "x", "old": "y"}}
    _done(door, Ask.json("POST", LAKE + "/metadata", pairs))
    for name in ("one", "two"):
        world.blocks.put(IMPORTED + name, [name.encode()])
    handed = door.get(MAIN + "/staging/backing?path=linked")["physical_address"]
    world.blocks.put(handed, [b"linked"])
    world.names["address"] = handed
    _begin_parts(door, world)
    world.names["job"] = _done(door, Ask.json("POST", MAIN + "/import", IMPORT))["id"]
    task = _done(door, Ask.json("POST", MAIN + "/commits/async", {"message": "waits"}))
    world.names["commit job"] = task["id"]
    task = _done(door, Ask.json("POST", LAKE + "/refs/dev/merge/clean/async", {"message": "waits"}))
    world.names["merge job"] = task["id"]
    rule = {"default_retention_days": 30, "branches": []}
    _done(door, Ask.json("PUT", LAKE + "/settings/gc_rules", rule))
    ordered = Ask.json("POST", "/repositories/spare/gc/runs", {})
    world.names["collection"] = _done(door, ordered)["id"]
    world.names["dump"] = _done(door, Ask("POST", "/repositories/spare/dump"))["id"]
    _dump_to_restore(door, world)
    running.later.waiting.clear()
    begun = _done(door, Ask.json("POST", CLEAN + "/bulk", {"mode": "replace"}))
    world.names["bulk job"] = begun["id"]
    world.names["token"] = door.get(MAIN + "/staging/tokens")["results"][0]["token"]
    watched = {"branch": "main", "bucket": "arrivals", "prefix": "in/"}
    world.names["rule"] = _done(door, Ask.json("POST", LAKE + "/events/rules", watched))["id"]
    kept = [{"pattern": "kept-*"}]
    _done(door, Ask.json("PUT", LAKE + "/settings/branch_protection", kept))
    proposal = {"title": "p", "source_branch": "dev", "destination_branch": "clean"}
    world.names["pull"] = _done(door, Ask.json("POST", LAKE + "/pulls", proposal))["id"]
    comment = Ask.json("POST", f"{LAKE}/pulls/{world.names['pull']}/comments", {"text": "what?"})
    assert _done(door, comment)["id"] == "1"
    world.names["range"] = _range_of(world)
    world.names["run"] = _condemned(world)
    world.names["action run"] = _action_run(world)
    _done(door, Ask.json("POST", LAKE + "/gc/turns", {"id": "01TURN"}))
    _team(door, world)
    return world


def _team(door: Door, world: World) -> None:
    """ann is in `team`, which has the policy `reads`; ann has `own`, a key and an external
    principal; bob has nothing."""
    for user in ("ann", "bob"):
        _done(door, Ask.json("POST", "/auth/users", {"id": user}))
    _done(door, Ask.json("POST", "/auth/groups", {"id": "team"}))
    for policy in ("reads", "own", "spare"):
        _done(door, Ask.json("POST", "/auth/policies", {"id": policy, "statement": READS}))
    for link in ("groups/team/members/ann", "groups/team/policies/reads", "users/ann/policies/own"):
        _done(door, Ask("PUT", f"/auth/{link}"))
    key = _done(door, Ask("POST", "/auth/users/ann/credentials"))
    world.names["key"] = key["access_key_id"]
    _done(door, Ask("POST", "/auth/users/ann/external/principals?principalId=arn:known"))
    _done(door, Ask("POST", f"/auth/users/ann/external/principals?principalId={ROLE}"))
    subject = quote(f"oidc:{ISSUER}#s-1")
    _done(door, Ask("POST", f"/auth/users/ann/external/principals?principalId={subject}"))


def _dump_to_restore(door: Door, world: World) -> None:
    """A dump of the lake, bare repositories on copies of its files, and a restore that waits."""
    refs = _done(door, Ask("PUT", LAKE + "/refs/dump"))
    world.names |= {name.removesuffix("_meta_range_id"): id for name, id in refs.items()}
    for name in ("bare", "waiting"):
        for line in world.blocks.list("mem://lake/x/", "", 1_000).lines:
            if not line.address.endswith("/dummy"):
                world.blocks.copy(line.address, line.address.replace("lake/x", f"{name}/x", 1))
        body = {"name": name, "storage_namespace": f"mem://{name}/x"}
        _done(door, Ask.json("POST", "/repositories?bare=true", body))
    task = _done(door, Ask.json("POST", "/repositories/waiting/restore", refs))
    world.names["restore"] = task["id"]


def _condemned(world: World) -> str:
    """A run of garbage collection that has condemned what nobody has."""
    repo = repositories.get(world.kv, RepositoryId("lake"))
    run = Run("01RUN", RunState.CONDEMNED, world.clock.now_ns(), 0, 0)
    assert garbage.put_run(world.kv, repo, run, ABSENT, b"0123456789abcdef") is not ABSENT
    return run.id


def _action_run(world: World) -> str:
    """A run of actions with one hook and its log."""
    repo, now_ns = repositories.get(world.kv, RepositoryId("lake")), world.clock.now_ns()
    hook = HookRun("0000_0000", "check", "first", now_ns, now_ns, passed=True)
    first = CommitId(world.names["first"])
    run = ActionRun("v" * 20, "pre-commit", BranchId("main"), first, now_ns, now_ns, True, (hook,))
    world.kv.set_many(action_runs.writes_of(repo, run, b"0123456789abcdef"))
    world.blocks.put(address.hook_log(repo.namespace, run.id, hook.id), [b"log"])
    return run.id


def _begin_parts(door: Door, world: World) -> None:
    """An upload in parts for `joined`, of which one part is there."""
    begun = _done(door, Ask("POST", MAIN + "/staging/pmpu?path=joined&parts=1"))
    at, upload = begun["physical_address"], begun["upload_id"]
    part = world.blocks.put_part(at, upload, 1, [b"joined"])
    world.names |= {"parts": at, "upload": upload, "etag": part.etag}


def _range_of(world: World) -> str:
    """The id of some range file of the lake."""
    files = [line.address for line in world.blocks.list("mem://lake/x/_lakefs/", "", 1_000).lines]
    known = {world.names["dev metarange"], world.names["clean metarange"], "dummy"}
    return next(name for name in (at.rpartition("/")[2] for at in files) if name not in known)


def record(world: World) -> dict[str, Any]:
    """A commit made elsewhere, on top of the first."""
    made = Commit(
        committer="elsewhere",
        message="from elsewhere",
        created_ns=_CREATED_SECONDS * 10**9,
        metarange=MetarangeId(world.names["dev metarange"]),
        metadata={},
        parents=(CommitId(world.names["first"]),),
    )
    return {
        "commit_id": commit_id(made),
        "version": 1,
        "committer": made.committer,
        "message": made.message,
        "metarange_id": made.metarange,
        "creation_date": _CREATED_SECONDS,
        "parents": list(made.parents),
        "metadata": {},
        "generation": 3,
    }


def _done(door: Door, ask: Ask) -> Any:
    heard = door.send(ask)
    assert heard.status < 300, f"{ask}: {heard}"
    return heard.json if heard.body[:1] == b"{" else {}


def _upload(door: Door, branch: str, path: str) -> None:
    target = f"{LAKE}/branches/{branch}/objects?path={quote(path, safe='')}"
    _done(door, Ask("POST", target, (f"{path} on {branch}".encode(),)))


def _commit(door: Door, branch: str, message: str) -> Any:
    target = f"{LAKE}/branches/{branch}/commits"
    return _done(door, Ask.json("POST", target, {"message": message}))
