"""`graveler refs`: a repository is dumped, and restored into a bare one."""

import json
import re
import shutil
from pathlib import Path

import pytest

from graveler.api.repositories import RefsDump
from graveler.lake.job import Manifest
from tests.api.serving import served
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


def dumped(lake: Lake, file: Path) -> None:
    lake.put("a", b"content")
    lake.commit("Add a")
    assert lake.user.run("tag", "create", f"{lake.name}/v1").code == 0
    assert lake.user.run("refs", "dump", lake.name, str(file)) == (0, "", "")


def copied(lake: Lake) -> str:
    """A bare repository on a copy of the namespace."""
    name = f"{lake.name}-copy"
    blocks = lake.live.embedded.ports.blocks
    for line in blocks.list(f"local://{lake.name}/x/", "", 1_000).lines:
        if not line.address.endswith("/dummy"):
            blocks.copy(line.address, line.address.replace(lake.name, name))
    created = lake.user.run("repo", "create", name, f"local://{name}/x", "--bare")
    assert created.code == 0, created
    return name


def test_a_repository_comes_back(lake: Lake, tmp_path: Path) -> None:
    user, name, file = lake.user, lake.name, tmp_path / "refs.json"
    dumped(lake, file)
    head = user.run("branch", "show", f"{name}/main").out
    copy = copied(lake)
    assert user.run("refs", "restore", copy, str(file)).code == 2
    assert user.run("refs", "restore", copy, str(file), "--yes").out == f"restored {copy}\n"
    assert user.run("branch", "show", f"{copy}/main").out == head
    assert user.run("stat", f"{copy}/v1/a").code == 0
    again = user.run("refs", "restore", copy, "--yes", input=file.read_bytes())
    assert again.code == 1 and "bare" in again.err


def test_stdout_gets_the_manifest_alone(lake: Lake) -> None:
    manifest = lake.user.read(RefsDump, "refs", "dump", lake.name)
    result = lake.user.run("refs-dump", f"lakefs://{lake.name}")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out).keys() == set(manifest.__struct_fields__)


def test_a_restore_is_asked_for(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "refs.json"
    dumped(lake, file)
    copy = copied(lake)
    shown = terminal(lake.user, "refs", "restore", copy, str(file))
    shown.until(f"Restore the branches and tags of {copy} from ")
    shown.until("? [y/N]: ")
    shown.type("n\n")
    assert shown.end() == 1
    assert lake.user.run("branch", "list", copy).out == ""
    restored = lake.user.run(
        *("refs-restore", f"lakefs://{copy}", "--manifest", "-", "--yes", "--json"),
        input=file.read_bytes(),
    )
    assert restored.code == 0 and json.loads(restored.out), restored


def test_what_is_no_manifest(lake: Lake, tmp_path: Path) -> None:
    for text in ("", "[]", "{}", "not JSON", "[" * 100_000):
        (tmp_path / "wrong").write_text(text)
        result = lake.user.run("refs", "restore", lake.name, str(tmp_path / "wrong"), "--yes")
        assert result.code == 1 and "manifest invalid" in result.err
    assert lake.user.run("refs", "dump", "nowhere").code == 3


def test_a_restore_is_waited_for_past_an_answer_that_is_lost(user: Client, tmp_path: Path) -> None:
    file = tmp_path / "refs.json"
    file.write_text(json.dumps(dict.fromkeys(Manifest.__annotations__, "a")))
    begun, lost = Said(202, b'{"id": "7f3c9a"}'), Said(502)
    done = Said(200, b'{"id": "7f3c9a", "done": true, "update_time": "2026-01-01T00:00:00Z"}')
    with scripted([begun, lost, lost, done, begun, Said(404)]) as server:
        user.know(server.url)
        restore = ("refs", "restore", "lake", str(file), "--yes")
        assert user.run(*restore) == (0, "restored lake\n", "")
        failed = user.run(*restore)
    assert failed.code == 3
    assert failed.err.endswith("\ntry: graveler jobs show lake 7f3c9a\n")


def test_a_name_that_is_taken_is_that_of_its_kind(lake: Lake) -> None:
    run, name = lake.user.run, lake.name
    assert run("tag", "create", f"{name}/v1", "main").code == 0
    taken = run("branch", "create", f"{name}/v1", "main")
    assert taken.code == 5 and "tag" in taken.err and "exists already" not in taken.err
    taken = run("tag", "create", f"{name}/main", "main")
    assert taken.code == 5 and "branch" in taken.err and "-f moves it" not in taken.err
    again = run("tag", "create", f"{name}/v1", "main")
    assert again.code == 5 and f"tag exists already: {name}/v1" in again.err


def test_a_store_whose_database_is_lost_is_built_again_in_place(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps of docs/how-to/back-up.md: a new store takes over the folder of objects."""
    store, lost = tmp_path / "store", tmp_path / "lost"
    with served(store) as live:
        user.know(live.client.url)
        assert user.run("repo", "create", "sales", "local://sales").code == 0
        live.client.upload("sales", "kept", b"content")
        assert user.run("commit", "sales/main", "-m", "Add kept").code == 0
        assert user.run("tag", "create", "sales/v1").code == 0
        assert user.run("refs", "dump", "sales", str(tmp_path / "refs.json")).code == 0
        head = user.run("branch", "show", "sales/main").out
    store.rename(lost)
    with served(store):
        pass
    shutil.rmtree(store / "objects")
    (lost / "objects").rename(store / "objects")
    page = (Path(__file__).parents[2] / "docs/how-to/back-up.md").read_text()
    text = page.partition("### Restore in place")[2].partition("\n## ")[0]
    remove, create, restore = re.findall(r"^    (.*)$", text, re.MULTILINE)
    (manifest,) = (store / "objects/sales/_graveler/dumps").iterdir()
    monkeypatch.chdir(tmp_path)
    with served(store) as live:
        user.know(live.client.url)
        refused = user.line(create.removeprefix("graveler "))
        assert refused.code == 1 and "delete the object local://sales/_lakefs/dummy" in refused.err
        Path(remove.removeprefix("rm ").replace("DIR", str(store))).unlink()
        for step in (create, restore.replace("DIR", str(store)).replace("ID", manifest.stem)):
            result = user.line(step.removeprefix("graveler "))
            assert result.code == 0, (step, result)
        assert user.run("branch", "show", "sales/main").out == head
        assert user.run("download", "sales/v1/kept", str(tmp_path / "kept")).code == 0
        assert (tmp_path / "kept").read_bytes() == b"content"
        live.client.upload("sales", "new", b"new")
        assert user.run("commit", "sales/main", "-m", "Go on").code == 0
