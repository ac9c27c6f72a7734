"""What the operator commands tend: a store, or the server of the profile, by the same rules."""

import json
from pathlib import Path

import pytest

from graveler.assembly import open_embedded
from graveler.block import address
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE, URL_VARIABLE
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from tests.api.serving import ADMINISTRATOR
from tests.cli.commands import Client
from tests.cli.conftest import Lake
from tests.cli.service import serving


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that no process has open, with a repository."""
    opened = open_embedded(tmp_path / "store")
    repository.create(opened.ports, NewRepository("kept", "local://kept"))
    opened.close()
    return tmp_path / "store"


# ---- on a server ---------------------------------------------------------------------------------


def test_a_server_collects(lake: Lake) -> None:
    gc = ("gc", "--repository", lake.name)
    out, err = lake.user.run(*gc)[1:]
    counts, lists = out.splitlines()
    assert "1 of 1 commits kept; would be deleted: 0 files, 0 bytes" in counts
    assert "/_graveler/gc/dry-" in lists
    assert err == "nothing was changed; use --delete to condemn and delete\n"
    done = lake.user.run(*gc, "--delete", "--yes")
    assert done.out.endswith("kept; deleted: 0 files, 0 bytes; condemned: 0 files, 0 bytes\n")
    (collected,) = json.loads(lake.user.run(*gc, "--json").out)
    assert (collected["repository"], collected["commits"]) == (lake.name, 1)
    missing = lake.user.run("gc", "--repository", "nowhere")
    assert missing.code == 3 and "try: graveler repo list" in missing.err
    undone = lake.user.run(*gc, "--undo", "RUN")
    assert undone.code == 3 and "run of garbage collection not found" in undone.err
    assert lake.user.run("gc").code == 2


def test_a_collection_that_fails_on_a_server_says_why(lake: Lake) -> None:
    namespace = lake.user.read(dict, "repo", "show", lake.name)["storage_namespace"]
    lake.live.embedded.ports.blocks.delete(address.marker(namespace))
    failed = lake.user.run("gc", "--repository", lake.name)
    assert failed.code == 1 and "namespace is not its own" in failed.err


def test_the_rule_of_a_server(lake: Lake) -> None:
    rule = ("retention", "--repository", lake.name)
    assert lake.user.run(*rule).out == "default: kept forever\n"
    changed = lake.user.run(*rule, "--days", "30", "--branch", "main=90", "--branch", "dev=1", "-y")
    assert changed.out.splitlines() == [
        "default: kept for 30 days after the next commit",
        "branch dev: kept for 1 day after the next commit",
        "branch main: kept for 90 days after the next commit",
    ]
    lake.user.run(*rule, "--branch", "dev=")
    assert json.loads(lake.user.run(*rule, "--json").out) == {
        "branches": [{"branch_id": "main", "retention_days": 90}],
        "default_retention_days": 30,
    }
    assert lake.user.run("retention", "--repository", "nowhere").code == 3
    refused = lake.user.run(*rule, "--unreachable-days", "3")
    assert refused.code == 2 and "--store" in refused.err


def test_the_server_comes_from_the_sources_of_every_command(lake: Lake, store: Path) -> None:
    rule = ("retention", "--repository", lake.name)
    lake.user.variables["GRAVELER_STORE"] = str(store)
    assert lake.user.run(*rule).code == 3  # the variable beats the default profile
    for flags in (("--profile", "test"), ("--server",), ("--server", lake.live.client.url)):
        assert lake.user.run(*rule, *flags).code == 0
    del lake.user.variables["GRAVELER_STORE"]
    lake.user.variables |= {
        URL_VARIABLE: lake.live.client.url,
        KEY_VARIABLE: ADMINISTRATOR.access_key_id,
        SECRET_VARIABLE: "wrong",
    }
    assert lake.user.run(*rule).code == 4
    lake.user.variables[SECRET_VARIABLE] = ADMINISTRATOR.secret_access_key
    assert lake.user.run(*rule).code == 0


# ---- in a store ----------------------------------------------------------------------------------


def test_the_store_comes_from_the_option_or_the_variable(user: Client, store: Path) -> None:
    rule = ("retention", "--repository", "kept")
    shown = user.run(*rule, "--store", str(store))
    assert shown.out.splitlines() == [
        "default: kept forever",
        "commits that no branch or tag reaches: kept for 7 days",
    ]
    assert user.run(*rule, GRAVELER_STORE=str(store)) == shown
    record = json.loads(user.run(*rule, "--json", GRAVELER_STORE=str(store)).out)
    assert record["graveler"] == {"unreachable_days": 7}
    nothing = user.run(*rule)
    assert nothing.code == 2 and "give --store DIR or --server URL" in nothing.err
    both = user.run(*rule, "--store", str(store), "--server", "http://127.0.0.1:1")
    assert both.code == 2 and "exclude each other" in both.err


def test_what_is_done_to_a_store_can_be_read_by_programs(user: Client, store: Path) -> None:
    user.variables["GRAVELER_STORE"] = str(store)
    (collected,) = json.loads(user.run("gc", "--json").out)
    assert (collected["repository"], collected["dry_run"], collected["files"]) == ("kept", True, [])
    verified = json.loads(user.run("verify", "--json").out)
    assert verified["damaged"] == [] and verified["commits"] > 0


def test_a_store_that_is_served_is_refused_with_the_remedy(user: Client, store: Path) -> None:
    kept = ("--repository", "kept")
    remedies = {
        ("gc", *kept): "graveler gc --server URL --repository kept",
        ("retention", *kept): "graveler retention --server URL --repository kept",
        ("verify",): "stop the service first",
        ("credentials", "reset", "--yes"): "graveler user key create USER",
        ("credentials", "rotate"): "stop that process first",
    }
    with serving(store):
        answers = {words: user.run(*words, "--store", str(store)) for words in remedies}
    for words, refused in answers.items():
        assert (refused.code, refused.out) == (6, ""), words
        assert "another process has this store open" in refused.err, words
        assert f"try: {remedies[words]}" in refused.err, words


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("verify",), "graveler verify --store DIR"),
        (("credentials", "reset"), "graveler user key create"),
        (("credentials", "rotate"), "graveler credentials rotate --store DIR"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_no_server_does_is_said_with_the_remedy(
    lake: Lake, words: tuple[str, ...], remedy: str
) -> None:
    refused = lake.user.run(*words, "--server")
    assert refused.code == 2 and "no operation of the API" in refused.err
    assert remedy in refused.err.partition("try: ")[2]
