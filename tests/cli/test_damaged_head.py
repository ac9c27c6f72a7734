"""The recovery of a branch whose head is damaged, as docs/how-to/back-up.md has it."""

import re
from pathlib import Path

import pytest

from tests.api.serving import served
from tests.cli.commands import Client

PAGE = Path(__file__).parents[2] / "docs/how-to/back-up.md"


def steps() -> list[str]:
    """The commands of the page."""
    text = PAGE.read_text().partition("## A damaged head")[2].partition("\n## ")[0]
    return [
        line.strip().partition("   #")[0].rstrip()
        for line in re.findall(r"^    graveler (.*)$", text, re.MULTILINE)
    ]


@pytest.mark.parametrize("kind", ["flipped", "lost"])
@pytest.mark.parametrize("is_dirty", [False, True])
def test_a_branch_goes_back_to_its_last_sound_commit(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_dirty: bool
) -> None:
    store = tmp_path / "store"
    with served(store) as live:
        client = live.client
        made = {"name": "sales", "storage_namespace": "local://sales"}
        assert client.send("POST", "/repositories", body=made).status == 201
        where = "/repositories/sales/branches/main"
        for path in ("old.csv", "broken.csv"):
            client.upload("sales", path, path.encode())
            commit = client.send("POST", f"{where}/commits", body={"message": path}).json
        if is_dirty:
            client.upload("sales", "new.csv", b"new")
    file = store / "objects/sales/_lakefs" / commit["meta_range_id"]
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0x10
    file.unlink()
    if kind == "flipped":
        file.write_bytes(content)
    monkeypatch.chdir(tmp_path)
    verify, *rest = steps()
    found = user.line(verify.replace("DIR", str(store)))
    assert found.code == 1 and f"commit {commit['id']}" in found.out
    with served(store) as live:
        user.know(live.client.url)
        for step in rest:
            if "new.csv" in step and not is_dirty:
                continue
            confirm = {"--hard": " --confirm main", "reset": " --yes"}
            more = next((text for word, text in confirm.items() if word in step.split()), "")
            result = user.line(step + more)
            assert result.code == 0, (step, result)
        assert user.run("ls", "sales/main").out.split()[2::3] == (
            ["new.csv", "old.csv"] if is_dirty else ["old.csv"]
        )
        assert user.run("commit", "sales/main", "-m", "on").code == (0 if is_dirty else 1)
