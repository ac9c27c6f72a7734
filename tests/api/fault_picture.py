"""All that GETs show of a world: what clients see, to compare before and after a request.

    before = picture(door)
    after = picture(door, (), before, touched)      asks only about what is touched

What is touched has names (`World.touched`), and decides what is asked:

    ""              everything
    auth            the set-up, users, groups, policies
    lake            all of the repository `lake`
    lake/b/main     its branch `main`, its list of branches, its pull requests
    lake/s/         what depends on its rows of this kind (the kinds of graveler/refs/keys.py)
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from graveler.engine.jobs.record import MARK_KEY
from graveler.refs import keys
from tests import draws
from tests.asgi import Ask, Door

NO_BODIES: Mapping[str, bytes] = MappingProxyType({})
BRANCHES = keys.BRANCHES.decode()


def picture(
    door: Door,
    also: tuple[str, ...] = (),
    before: Mapping[str, Any] | None = None,
    touched: Collection[str] = ("",),
    bodies: Mapping[str, bytes] = NO_BODIES,
) -> dict[str, Any]:
    """All that GETs show, without ids and times; `also`: the status of these targets.

    Only what is `touched` is asked about; the rest is taken from the picture `before` (unless all
    that can be drawn is wanted).  `bodies` are known: those at these addresses."""
    known = {} if before is None or "" in touched or draws.ALL else before
    is_known = "access" in known and "auth" not in touched
    shown: dict[str, Any] = {target: door.send(Ask("GET", target)).status for target in also}
    shown["set up"] = known["set up"] if is_known else door.get("/setup_lakefs")["state"]
    if shown["set up"] != "initialized":
        return shown
    shown["user"] = known["user"] if is_known else door.get("/user")["user"]["id"]
    shown["access"] = known["access"] if is_known else _access(door)
    for repo in _results(door, "/repositories"):
        name = repo["id"]
        old = known[name][2] if name in known and name not in touched else {}
        parts = {part.removeprefix(f"{name}/") for part in touched if part.startswith(f"{name}/")}
        within = _repository(door, repo, bodies, old, parts)
        shown[name] = repo["storage_namespace"], repo["read_only"], within
    return shown


def _access(door: Door) -> dict[str, Any]:
    """Who is in which group, and has which policy and external principal; and how many keys."""
    shown: dict[str, Any] = {
        policy["id"]: len(policy["statement"]) for policy in _results(door, "/auth/policies")
    }
    for group in _results(door, "/auth/groups"):
        at = f"/auth/groups/{group['id']}"
        shown[at] = _ids(door, at + "/members"), _ids(door, at + "/policies")
    for user in _results(door, "/auth/users"):
        at = f"/auth/users/{user['id']}"
        keys = len(_results(door, at + "/credentials"))
        outside = _ids(door, at + "/external/principals/ls")
        shown[at] = _ids(door, at + "/groups"), _ids(door, at + "/policies"), keys, outside
    return shown


def _ids(door: Door, target: str) -> list[str]:
    return [line["id"] for line in _results(door, target)]


def _repository(
    door: Door,
    repo: dict[str, Any],
    bodies: Mapping[str, bytes],
    old: Mapping[str, Any],
    touched: Collection[str],
) -> dict[str, Any]:
    """What one repository shows; what does not depend on `touched`, as it is in `old`."""
    at = f"/repositories/{repo['id']}"
    kinds = {part[: len(BRANCHES)] for part in touched}
    shown: dict[str, Any] = {"default": repo["default_branch"]}
    is_known = bool(old) and BRANCHES not in kinds
    shown["branches"] = old["branches"] if is_known else _branches(door, at, bodies, old, touched)
    is_known = bool(old) and not kinds & {BRANCHES, "p/", "o/"}
    shown["pulls"] = old["pulls"] if is_known else _pulls(door, at, shown["branches"])
    for name, (kind, show) in _PARTS.items():
        is_known = bool(old) and kind not in kinds
        shown[name] = old[name] if is_known else show(door, at)
    return shown


def _pairs(door: Door, at: str) -> dict[str, str]:
    pairs = door.get(at + "/metadata")
    return {name: value for name, value in pairs.items() if "import" not in name}


def _tags(door: Door, at: str) -> dict[str, str]:
    return {tag["id"]: tag["commit_id"] for tag in _results(door, at + "/tags")}


def _buckets(door: Door, at: str) -> list[str]:
    return [rule["bucket"] for rule in door.get(at + "/events/rules")["results"]]


def _said(door: Door, at: str) -> list[tuple[str, bool]]:
    """The comments on pull requests."""
    requests = [f"{at}/pulls/{pull['id']}/comments" for pull in _results(door, at + "/pulls")]
    return sorted(
        {(said["text"], said["resolved"]) for on in requests for said in _results(door, on)}
    )


# What one request shows, and the kind of its rows; "": they lie elsewhere.
_PARTS: dict[str, tuple[str, Callable[[Door, str], Any]]] = {
    "pairs": ("m/", _pairs),
    "tags": ("t/", _tags),
    "said": ("i/", _said),
    "rules": ("", _buckets),
    "breaks": ("", lambda door, at: door.get(at + "/settings/breaks")["raggedness"]),
    "protected": ("s/", lambda door, at: door.get(at + "/settings/branch_protection")),
    "kept": ("s/", lambda door, at: door.send(Ask("GET", at + "/settings/gc_rules")).json),
}


def _pulls(door: Door, at: str, branches: Mapping[str, Any]) -> list[tuple[str, str]]:
    return sorted({_pull(pull, branches) for pull in _results(door, at + "/pulls")})


def _pull(pull: dict[str, Any], branches: Mapping[str, Any]) -> tuple[str, str]:
    """A pull request.  One of a deleted branch is closed soon, but not in the same step."""
    is_kept = pull["source_branch"] in branches and pull["destination_branch"] in branches
    return pull["title"], pull["status"] if is_kept else "closed"


def _branches(
    door: Door,
    at: str,
    bodies: Mapping[str, bytes],
    old: Mapping[str, Any],
    touched: Collection[str],
) -> dict[str, Any]:
    """Each branch; one that is not `touched`, as it is in `old`."""
    listed = [branch["id"] for branch in _results(door, at + "/branches?show_hidden=true&")]
    before = old.get("branches", {})
    found = dict(bodies)
    return {
        branch: before[branch]
        if branch in before and BRANCHES + branch not in touched
        else _branch(door, at, branch, found)
        for branch in listed
    }


def _branch(door: Door, at: str, branch: str, bodies: dict[str, bytes]) -> dict[str, Any]:
    lines = _results(door, f"{at}/refs/{branch}/objects/ls")
    history = _results(door, f"{at}/refs/{branch}/commits")
    staged = _results(door, f"{at}/branches/{branch}/diff")
    # Where nothing is staged, a branch shows what its head has.
    committed = _results(door, f"{at}/refs/{branch}@/objects/ls") if staged else lines
    return {
        "history": [(made["message"], _said(made), len(made["parents"])) for made in history],
        "staged": [(line["type"], line["path"]) for line in staged],
        "committed": [(line["path"], line["checksum"]) for line in committed],
        "objects": [
            (line["path"], line["size_bytes"], line["content_type"], line.get("metadata", {}))
            for line in lines
        ],
        "bytes": [_content(door, at, branch, line, bodies) for line in lines if branch != "dev"],
    }


def _said(commit: dict[str, Any]) -> dict[str, str]:
    """The metadata, without the id of the job that made the commit."""
    return {name: text for name, text in commit["metadata"].items() if name != MARK_KEY}


def _content(
    door: Door, at: str, branch: str, line: dict[str, Any], bodies: dict[str, bytes]
) -> bytes:
    """Its bytes; what several branches have at one physical address is read once."""
    where = line["physical_address"]
    if where not in bodies:
        bodies[where] = _body(door, at, branch, line)
    return bodies[where]


def _body(door: Door, at: str, branch: str, line: dict[str, Any]) -> bytes:
    target = f"{at}/refs/{branch}/objects?path={quote(line['path'], safe='')}"
    heard = door.send(Ask("GET", target))
    assert heard.status == 200, f"{target}: {heard}"
    return heard.body


def _results(door: Door, target: str) -> Any:
    found = door.get(target)
    assert not found["pagination"]["has_more"], target
    return found["results"]
