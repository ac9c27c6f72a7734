"""The commands of docs/how-to/leaving-lakefs.md, on a lake that lakeFS has written."""

import json
from pathlib import Path

import pytest

from tests.api.serving import Served, served
from tests.cli.commands import Client, Result
from tests.docs import examples

LAKEFS = Path(__file__).parents[1] / "data" / "lakefs-written"
EXPECTED = json.loads((LAKEFS / "expected.json").read_text())
TAKEN, LOOKED, RETURNED = 1, 2, 3


def commands(block: int) -> list[str]:
    """The lines of a block, for a store in a folder."""
    text = examples.blocks("docs/how-to/leaving-lakefs.md", "sh")[block]
    return text.replace("s3://lake/sales", "local://sales").splitlines()


def ran(user: Client, line: str) -> str:
    """Run a line as a shell would, with `<` and `>`; the commands of lakectl are graveler's too."""
    command, _, source = line.partition(" <")
    input = Path(source).read_bytes() if source else b""
    further = ("--yes",) if "refs-restore" in command else ()  # lakectl does not ask
    result: Result = user.run(*command.split()[1:], *further, input=input)
    assert result.code == 0, result
    return result.out


def heads(text: str) -> dict[str, str]:
    """The names and commits that a list prints."""
    return {name: commit for name, commit, *_ in (line.split("\t") for line in text.splitlines())}


def lakes_own(live: Served) -> None:
    """The namespace as lakeFS left it."""
    blocks = live.embedded.ports.blocks
    blocks.put("local://sales/_lakefs/dummy", [b"created by lakeFS to check accessibility"])
    for path in (LAKEFS / "_lakefs").iterdir():
        blocks.put(f"local://sales/_lakefs/{path.name}", [path.read_bytes()])


def test_a_lake_is_taken_over_and_handed_back(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("refs.json").write_text(json.dumps(EXPECTED["refs_dump"]))  # as `lakectl refs-dump` does
    with served(tmp_path / "ours") as live:
        user.know(live.client.url)
        lakes_own(live)
        for line in commands(TAKEN):
            ran(user, line)
        branches, tags, log, listed = (ran(user, line) for line in commands(LOOKED))
        assert (heads(branches), heads(tags)) == (EXPECTED["branches"], EXPECTED["tags"])
        assert EXPECTED["commits"][0]["id"] in log
        paths = {line.rpartition("\t")[2].rstrip("/") for line in listed.splitlines()}
        assert paths == {each["path"].partition("/")[0] for each in EXPECTED["listings"]["main"]}

        Path("new.csv").write_text("id\n1\n")
        ran(user, "graveler upload new.csv sales/main/new.csv")
        made = ran(user, "graveler commit sales/main -m more")
        dump, *others = commands(RETURNED)
        ran(user, dump)
        after = ran(user, "graveler branch list sales")
        blocks = live.embedded.ports.blocks
        files = {
            line.address: b"".join(blocks.get(line.address).chunks)
            for line in blocks.list("local://sales/", "", 1_000).lines
            if not line.address.endswith("/dummy")  # lakeFS does not look whose it is
        }
    with served(tmp_path / "theirs") as live:
        user.know(live.client.url)
        for address, content in files.items():
            live.embedded.ports.blocks.put(address, [content])
        for line in others:
            ran(user, line)
        assert ran(user, "graveler branch list sales") == after
        assert heads(after)["main"] in made and heads(after)["dev"] == EXPECTED["branches"]["dev"]
        assert ran(user, "graveler cat sales/main/new.csv") == "id\n1\n"
