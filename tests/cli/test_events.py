"""`graveler events rules` through a served store."""

import json

from tests.cli.commands import Client
from tests.cli.conftest import Lake


def test_rules_are_added_shown_and_removed(lake: Lake) -> None:
    rules = ("events", "rules")
    assert lake.user.run(*rules, "list", lake.name) == (0, "", "no rules\n")
    new = (*rules, "add", lake.name, "--branch", "main", "--bucket", "landing")
    more = ("--prefix", "in/", "--path", "raw/{rest}", "--objects", "100", "--marker", "_OK")
    created = lake.user.run(*new, *more)
    assert created.code == 0 and "s3://landing/in/" in created.out
    again = lake.user.run(*new, *more)
    assert again.code == 5 and "already exists" in again.err
    (rule,) = json.loads(lake.user.run(*rules, "list", lake.name, "--json").out)
    assert (rule["objects"], rule["seconds"], rule["marker"]) == (100, 300, "_OK")
    line = lake.user.run(*rules, "list", lake.name).out.split("\t")
    assert line[:5] == [rule["id"], "s3://landing/in/", "", "main", "raw/{rest}"]
    assert lake.user.run(*rules, "remove", lake.name, rule["id"], "--yes").code == 0
    gone = lake.user.run(*rules, "remove", lake.name, rule["id"], "--yes")
    assert gone.code == 3 and f"try: graveler events rules list {lake.name}" in gone.err


def test_a_server_and_credentials_are_needed(user: Client) -> None:
    listing = ("events", "rules", "list", "lake")
    nothing = user.run(*listing)
    assert nothing.code == 2 and "give --server" in nothing.err
    url = ("--server", "http://127.0.0.1:1")
    assert user.run(*listing, *url).code == 4
    key = ("--access-key-id", "key", "--secret-stdin")
    silent = user.run(*listing, *url, *key, input=b"secret\n")
    assert silent.code == 6 and "does not answer" in silent.err
