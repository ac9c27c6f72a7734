"""`graveler pr`: from a request to a merge, and what a conflict leaves."""

import json

from graveler.api.pulls import PullMergeResult, PullRequestCreationResponse, PullRequestShape
from tests.cli.commands import Client
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


def opened(lake: Lake, *more: str) -> str:
    """A request to merge `dev`, which has a commit, into `main`; its id."""
    assert lake.user.run("branch", "create", f"{lake.name}/dev").code == 0
    lake.put("a", b"dev", "dev")
    lake.commit("Add a\n\nas asked", "dev")
    words = ("pr", "create", f"{lake.name}/dev", "main")
    return str(lake.user.read(PullRequestCreationResponse, *words, *more).id)


def test_a_request_is_merged_once(lake: Lake) -> None:
    user, name = lake.user, lake.name
    id = opened(lake)
    (listed,) = user.read(list[PullRequestShape], "pr", "list", name)
    assert (listed.id, listed.title, listed.status) == (id, "Add a", "open")
    merged = user.read(PullMergeResult, "pr", "merge", name, id)
    pull = user.read(PullRequestShape, "pr", "show", name, id)
    assert (pull.status, pull.merged_commit_id) == ("merged", merged.reference)
    assert user.run("cat", f"{name}/main/a").out == "dev"
    assert user.run("pr", "list", name) == (0, "", "none is open\n")
    assert user.run("pr", "list", name, "--status", "all").out.startswith(f"{id}\tmerged\t")
    again = user.run("pr", "merge", name, id)
    assert again.code != 0 and again.out == ""


def test_a_request_whose_merge_is_undone_can_be_opened_and_merged_again(lake: Lake) -> None:
    user, name = lake.user, lake.name
    id = opened(lake)
    assert user.run("pr", "merge", name, id).code == 0
    again = f"graveler pr reopen {name} {id}"
    result = user.run("undo", "--yes")
    stays = f"the pull request {id} stays merged on the server; to open it again: {again}\n"
    assert (result.code, result.err) == (0, stays)
    assert user.read(PullRequestShape, "pr", "show", name, id).status == "merged"
    assert user.line(again.removeprefix("graveler ")).code == 0
    assert user.run("pr", "merge", name, id).code == 0
    assert user.run("cat", f"{name}/main/a").out == "dev"
    undone = json.loads(user.run("undo", "--yes", "--json").out)["graveler"]
    remedy = {"id": id, "status": "merged", "remedy": again}
    assert (undone["action"], undone["pull_request"]) == ("merge", remedy)


def test_requests_are_listed_by_the_beginning_of_their_ids(lake: Lake) -> None:
    user, name = lake.user, lake.name
    first = opened(lake)
    words = ("pr", "create", f"{name}/dev", "main", "--title", "again")
    second = str(user.read(PullRequestCreationResponse, *words).id)
    length = next(place for place in range(20) if first[place] != second[place]) + 1
    listed = user.read(list[PullRequestShape], "pr", "list", name, "--prefix", first[:length])
    assert [pull.id for pull in listed] == [first]


def test_a_merge_is_undone(lake: Lake) -> None:
    user, name = lake.user, lake.name
    before = user.run("show", f"{name}/main", "--json").out
    id = opened(lake)
    assert user.run("pr", "merge", name, id).code == 0
    assert user.run("undo", "--list").out.count("merge") == 1
    assert user.run("undo", "--yes").code == 0
    assert user.run("show", f"{name}/main", "--json").out == before


def test_a_merge_that_undo_will_not_know_is_no_failure(user: Client) -> None:
    with scripted([Said(200, b'{"reference": "c1"}'), Said(403)]) as server:
        user.know(server.url)
        merged = user.run("pr", "merge", "lake", "7f3c9a")
    assert merged.code == 0 and "`graveler undo` will not know of this" in merged.err


def test_a_conflict_names_the_paths_and_stays_open(lake: Lake) -> None:
    user, name = lake.user, lake.name
    id = opened(lake, "--title", "mine", "--description", "both change a")
    lake.put("a", b"main")
    lake.commit()
    result = user.run("pr", "merge", name, id)
    assert (result.code, result.out) == (5, "")
    assert result.err == (
        f"graveler: {name}/dev and {name}/main changed the same paths; nothing was merged:\n  a\n"
        f"try: graveler merge {name}/main dev --strategy dest-wins, upload combined files to "
        f"{name}/dev, commit, and merge again\n"
    )
    pull = user.read(PullRequestShape, "pr", "show", name, id)
    assert (pull.status, pull.title, pull.description) == ("open", "mine", "both change a")
    assert user.run("pr", "close", name, id).err == f"closed pull request {id}\n"
    assert user.run("pr", "reopen", name, id).err == f"opened pull request {id} again\n"
    assert user.read(PullRequestShape, "pr", "show", name, id).status == "open"
    assert user.run("pr", "close", name, id).code == 0
    shown = user.run("pr", "show", name, id).out
    assert "status:       closed\n" in shown and "\nclosed: " in shown


def test_requests_that_are_impossible(lake: Lake) -> None:
    user, name = lake.user, lake.name
    assert user.run("pr", "create", f"{name}/main", "main", "--title", "x").code == 1
    assert user.run("pr", "create", f"{name}/main", "other/main").code == 2
    assert user.run("pr", "create", f"{name}/nope", "main", "--title", "x").code == 3
    unknown = user.run("pr", "show", name, "00000000")
    assert unknown.code in (1, 3) and unknown.err.startswith("graveler: ")
