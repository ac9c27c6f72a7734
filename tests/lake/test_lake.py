"""Lakes, repositories, what happens in them, and how they look."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pandas
import pytest

import graveler
from graveler import Branch, Lake, Repository
from graveler.core.errors import Corrupt, Unavailable
from graveler.lake import objects
from graveler.lake.errors import AlreadyExists, Invalid, NotFound, TimedOut, Unauthenticated
from graveler.lake.job import ImportProgress
from tests.cli.service import KEY, SECRET


def test_importing_the_package_imports_little() -> None:
    code = "import sys, graveler; print([n for n in sys.modules if n.startswith('graveler.')])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert printed.stdout.strip() == "[]"
    assert {"connect", "fs", "Lake", "Error"} <= set(dir(graveler))
    with pytest.raises(AttributeError, match="nothing"):
        graveler.nothing  # noqa: B018


def test_repositories_are_made_listed_and_deleted(lake: Lake) -> None:
    assert not lake["none"].exists()
    made = lake.create_repository("made", default_branch="trunk")
    assert made.exists() and made.default_branch.name == "trunk"
    assert made.namespace == "local://made"
    with pytest.raises(FileExistsError, match="repository exists already: made"):
        lake.create_repository("made")
    with pytest.raises(FileExistsError, match="branch exists already: made/trunk"):
        made.create_branch("trunk")
    assert lake.create_repository("made", exist_ok=True) == made
    assert made.name in [each.name for each in lake.repositories("ma")]
    made.set_metadata({"team": "data", "x": "y"})
    made.delete_metadata("x")
    assert made.metadata == {"team": "data"}
    made.set_retention(30, {"trunk": 7})
    assert made.retention()["branches"][0]["retention_days"] == 7
    totals = made.collect().wait()
    assert totals.done and totals.dry_run and not totals.error
    made.delete()
    with pytest.raises(NotFound):
        made.namespace  # noqa: B018
    with pytest.raises(ValueError, match="invalid"):
        lake.repository("a/b")


MISSING: Final[dict[str, Callable[[Repository], object]]] = {
    "wanted": lambda lake: lake.branch("none").commit("m"),
    "head": lambda lake: lake.branch("none").head,
    "log": lambda lake: lake.branch("none").log().all(),
    "list": lambda lake: lake.branch("none").list("a/").all(),
    "status": lambda lake: lake.branch("none").status().all(),
    "dataset": lambda lake: lake.branch("none").dataset("a/"),
    "tag": lambda lake: lake.tag("none").pin(),
    "copy": lambda lake: lake.branch("main").copy("none", "b"),
    "pull request": lambda lake: lake.pull_requests.create("none", "main", "t"),
}


@pytest.mark.parametrize("call", MISSING.values(), ids=MISSING)
def test_an_error_names_what_is_missing(main: Branch, call: Callable[[Repository], object]) -> None:
    with pytest.raises(NotFound, match=r": .*none"):
        call(main.repository)


def test_a_taken_name_says_how_to_get_the_repository(shop: Repository) -> None:
    with pytest.raises(AlreadyExists, match="exists already") as caught:
        shop.lake.create_repository(shop.name)
    assert caught.value.remedy == f"lake.repository('{shop.name}'), or exist_ok=True"
    assert caught.value.__notes__ == [f"try: {caught.value.remedy}"]


def test_addresses_lead_to_refs(lake: Lake) -> None:
    ref, path = lake.at("graveler://shop/main/a/b")
    assert (ref.address, path) == ("shop/main", "a/b")
    assert lake.at("lakefs://shop/v1")[1] == ""
    with pytest.raises(Invalid):
        lake.at("shop")


def test_the_server_says_who_one_is(served_lake: Lake) -> None:
    lake = served_lake
    assert lake.whoami() and lake.version()
    with pytest.raises(PermissionError) as caught:
        graveler.connect(lake.url, KEY, "wrong").whoami()
    assert isinstance(caught.value, Unauthenticated)


def test_connect_takes_the_profile_of_the_command_line(
    served_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = served_lake
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GRAVELER_PROFILE", "XDG_CONFIG_HOME", "LAKECTL_SERVER_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="no server"):
        graveler.connect()
    with pytest.raises(ValueError, match="give url"):
        graveler.connect(access_key_id="x")
    home = tmp_path / ".config" / "graveler"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(f'default = "d"\n[profile.d]\nserver = "{lake.url}"\n')
    (home / "credentials.toml").write_text(
        f'[profile.d]\naccess_key_id = "{KEY}"\nsecret_access_key = "{SECRET}"\n'
    )
    assert graveler.connect().whoami() == lake.whoami()
    assert graveler.connect(profile="d").url == lake.url
    with pytest.raises(FileNotFoundError):
        graveler.connect(profile="none")
    (home / "config.toml").unlink()
    monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", f"{lake.url}/api/v1")
    monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", SECRET)
    assert graveler.connect().whoami() == lake.whoami()


def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    with pytest.raises(ConnectionError, match="does not answer"):
        graveler.connect("http://127.0.0.1:9", KEY, SECRET).whoami()


# ---- what happens --------------------------------------------------------------------------------


def test_jobs_are_seen(main: Branch) -> None:
    main.write_text("a", "1")
    commit = main.commit("one")
    shop = main.repository
    found = shop.jobs(kind="commit").first()
    assert found is not None and found.state == "done" and found.commit == commit.id
    assert shop.job(found.id) == found
    assert not shop.runs()


def test_an_import_that_may_not_be_read_is_refused(main: Branch) -> None:
    with pytest.raises(ValueError, match="slash"):
        main.import_objects("local:///data/", "x")
    with pytest.raises(graveler.Error):
        main.import_objects("local:///nowhere/", "x/")


def test_waiting_ends_in_time(main: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    from graveler.lake.job import Import

    never = Import(main, "none")
    monkeypatch.setattr(Import, "progress", lambda self: ImportProgress(done=False, objects=1))
    seen: list[ImportProgress] = []
    with pytest.raises(TimeoutError, match="goes on") as caught:
        never.wait(0.1, seen.append)
    assert isinstance(caught.value, TimedOut) and seen


# ---- people --------------------------------------------------------------------------------------


def test_users_groups_keys_and_rights(served_lake: Lake) -> None:
    lake = served_lake
    people = lake.admin
    ann = people.create_user("ann", name="Ann")
    assert people.user("ann") == ann and ann.name == "Ann" and ann.created is not None
    assert "ann" in [each.id for each in people.users()]
    key = people.create_key("ann", "laptop")
    assert key.secret and key.secret not in repr(key)
    hers = graveler.connect(lake.url, key.id, key.secret)
    assert hers.whoami() == "ann"
    with pytest.raises(PermissionError):
        hers.create_repository("hers")
    people.create_group("team", "the team")
    people.add_member("team", "ann")
    statement = {"action": ["fs:List*"], "resource": "*", "effect": "allow"}
    assert people.create_policy("listing", [statement]).statements
    people.attach("listing", group="team")
    assert [each.id for each in people.policies_of("ann", effective=True)] == ["listing"]
    assert people.members("team").all() == ["ann"]
    people.attach("FSReadAll", user="ann")
    people.detach("FSReadAll", user="ann")
    assert hers.admin.may_i("fs:ListRepositories", "*") and not hers.admin.may_i(
        "fs:DeleteRepository", "arn:lakefs:fs:::repository/x"
    )
    people.disable_user("ann")
    with pytest.raises(PermissionError):
        hers.whoami()
    people.enable_user("ann")
    people.delete_key("ann", key.id)
    assert people.keys("ann").all() == []
    people.remove_member("team", "ann")
    people.detach("listing", group="team")
    people.delete_policy("listing")
    people.delete_group("team")
    people.delete_user("ann")
    with pytest.raises(NotFound):
        people.user("ann")
    assert people.usage()["reports"] is not None


# ---- looks ---------------------------------------------------------------------------------------


def test_few_rights_are_enough_for_their_objects(served_lake: Lake, tmp_path: Path) -> None:
    shop = served_lake.create_repository("narrow").branch("main")
    shop.write_text("a", "1")
    admin = served_lake.admin
    names = ("ReadObject", "ListObjects", "WriteObject", "CreateCommit")
    statement = {"effect": "allow", "action": [f"fs:{name}" for name in names]}
    statement["resource"] = "arn:lakefs:fs:::repository/narrow*"
    admin.create_policy("narrow", [statement])
    admin.create_user("narrow")
    admin.attach("narrow", user="narrow")
    key = admin.create_key("narrow")
    lake = graveler.connect(served_lake.url, key.id, key.secret)
    main = lake.repository("narrow").branch("main")
    assert main.read_text("a") == "1" and graveler.fs(lake).exists(f"{main.address}/a")
    main.download("a", tmp_path / "b")
    assert main.upload(tmp_path / "b").files == 1 and main.commit("b").message == "b"
    assert [entry.path for entry in main.list()] == ["a", "b"]


def test_representations_say_what_is_there(lake: Lake, shop: Repository, main: Branch) -> None:
    main.write_text("<b>.csv", "1")
    assert "1 uncommitted" in repr(main) and main.address in repr(main)
    assert "&lt;b&gt;.csv" in main.list()._repr_html_()
    assert "<b>.csv" in repr(main.status()) and "+" in repr(main.status())
    commit = main.commit("A message\nand more")
    assert "A message" in repr(commit) and "and more" not in repr(commit)
    assert commit.id[:12] in repr(main.log()) and "<table>" in main.log()._repr_html_()
    assert lake.url in repr(lake) and shop.namespace in repr(shop)
    assert "none" in repr(main.status())
    assert "main" in shop._repr_html_() and lake.url in lake._repr_html_()
    assert repr(shop.branch("none")) == f"branch {shop.name}/none: there is none"
    for listed in (shop.pull_requests, shop.events, lake.admin):
        assert "<" in listed._repr_html_()
    assert "pull requests of" in repr(shop.pull_requests)
    assert "event rules of" in repr(shop.events) and "users" in repr(lake.admin)


def test_sizes_ages_and_cuts_are_as_people_read_them(shop: Repository, main: Branch) -> None:
    main.write_bytes("big", bytes(3 << 20))
    main.commit("old\x1b[31m", date=datetime(2020, 1, 1, tzinfo=UTC))
    assert "3.0 MiB" in repr(main.list()) and "years ago" in repr(main.log())
    assert "\x1b" not in repr(main.log()) and "\x1b" not in repr(main.pin())
    for days, words in ((2, "2 days ago"), (1 / 12, "2 hours ago")):
        main.write_text("a", words)
        main.commit(words, date=datetime.now(UTC) - timedelta(days=days))
        assert words in repr(main.log()[0])
    assert [each.message for each in main.log()[:2]] == ["2 hours ago", "2 days ago"]
    assert main.log()[1].message == "2 days ago"
    with pytest.raises(IndexError):
        main.log()[10]
    with pytest.raises(ValueError, match="all"):
        main.log()[-1]
    assert repr(main.dataset("big")) == f"dataset {main.dataset('big').commit.address}/big"


def test_representations_never_raise(lake: Lake) -> None:
    gone = lake.repository("gone-for-good").branch("main")
    assert "gone-for-good/main" in repr(gone)
    assert "not found" in repr(gone.list()) and "not found" in gone.log()._repr_html_()


def test_no_character_of_a_name_steers_the_terminal(main: Branch) -> None:
    main.write_text("a\x1b[31m", "1")
    assert "\x1b" not in repr(main.list()) and "\x1b" not in main.list()._repr_html_()


def test_values_compare_by_what_they_name(lake: Lake, main: Branch) -> None:
    other = lake.repository(main.repository.name).branch("main")
    assert main == other and hash(main) == hash(other) and str(main) == main.address
    assert main != main.repository.tag("main")


# ---- in this process -----------------------------------------------------------------------------


def test_a_store_has_one_process_and_keeps_what_it_got(tmp_path: Path) -> None:
    script = f"import graveler; graveler.open({str(tmp_path / 'store')!r})"
    with graveler.open(tmp_path / "store") as lake:
        main = lake.create_repository("shop").branch("main")
        main.write_text("a", "1")
        main.commit("one")
        command = [sys.executable, "-c", script]
        other = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert "Conflict: " in other.stderr and "another process uses the folder" in other.stderr
    with pytest.raises(ConnectionError, match="closed"):
        main.read_text("a")
    with graveler.open(tmp_path / "store") as again:
        assert again["shop"].branch("main").read_text("a") == "1"
        assert [each.message for each in again["shop"].branch("main").log(limit=1)] == ["one"]


def test_a_cell_of_a_notebook_that_opens_a_store_can_run_again(tmp_path: Path) -> None:
    first = graveler.open(tmp_path / "store")
    first.create_repository("shop")
    with graveler.open(tmp_path / ".." / tmp_path.name / "store") as again:
        assert [each.name for each in again.repositories()] == ["shop"]
        with pytest.raises(graveler.Error, match="import_roots"):
            graveler.open(tmp_path / "store", import_roots=[tmp_path])
        with pytest.raises(TypeError, match="graveler serve"):
            pickle.dumps(again["shop"].branch("main"))
    assert first.repository("shop").exists()
    first.close()
    with pytest.raises(ConnectionError, match="closed"):
        first.repository("shop").exists()
    with graveler.open(tmp_path / "store") as anew:
        first.close()  # once more: it is not that of the other one
        with graveler.open(tmp_path / "store") as same:
            assert same is anew and anew.repository("shop").exists()


def test_help_teaches_the_library_also_without_the_packages_of_the_extras() -> None:
    absent = dict.fromkeys(("fastapi", "fsspec", "click", "pyarrow"))
    script = f"""
import sys
sys.modules.update({absent})
import graveler
help(graveler)
for call in (lambda: graveler.open("x"), graveler.fs, lambda: graveler.create_app):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for words in (
        "lake = graveler.connect(url, key, secret)",
        "class Branch(",
        "merge(self, source:",
        "open = open_lake(folder:",
        "fs(lake:",
        "package fastapi is not installed: it comes with pip install 'graveler[server]'",
        "package fsspec is not installed: it comes with pip install 'graveler[fsspec]'",
    ):
        assert words in done.stdout, words


def test_help_begins_with_lines_that_run(tmp_path: Path) -> None:
    """A folder, a commit, a branch, a comparison, a merge, pandas: as the text has them."""
    code = "\n".join(
        line for line in (graveler.__doc__ or "").splitlines() if line.startswith("    ")
    )
    code = textwrap.dedent(code).replace('"lake")', f"{str(tmp_path / 'lake')!r})")
    code = code.replace("lake = graveler.connect(url, key, secret)", "")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders.csv").write_text("id,amount\n1,10\n")
    code = code.replace('"data/"', repr(str(tmp_path / "data")))
    shown = code.replace("main.dataset(", "rows = main.dataset(").replace(
        "main.diff(dev) ", "changes = main.diff(dev).all() "
    )
    table = pandas.DataFrame({"id": [1]})
    names: dict[str, Any] = {"graveler": graveler, "pandas": pandas, "table": table}
    try:
        exec(compile(shown, "help", "exec"), names)
        assert [each.path for each in names["changes"]] == ["raw/orders.csv"]
        assert names["rows"].to_dict("records") == [{"id": 1, "amount": 12}]
        assert names["main"].read_text("raw/orders.csv") == "id,amount\n1,10\n"  # undone
        old = pandas.read_csv(
            "graveler://shop/dev~1/raw/orders.csv", storage_options={"lake": names["lake"]}
        )
        assert old.to_dict("records") == [{"id": 1, "amount": 10}]
    finally:
        names["lake"].close()


def test_a_file_that_nobody_closed_is_told_of_also_at_the_end_of_a_program(tmp_path: Path) -> None:
    script = f"""
import graveler
lake = graveler.open({str(tmp_path / "lake")!r})
main = lake.create_repository("shop").branch("main")
file = main.open("a.csv", "w")
file.write("id")
other = main.open("b", "wb")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning: shop/main/a.csv was not closed" in done.stderr
    assert "shop/main/b" not in done.stderr  # nothing was written to it
    assert "ignored" not in done.stderr and "Traceback" not in done.stderr


def test_what_cannot_be_opened_leaves_no_half_made_reader() -> None:
    script = """
import graveler
lake = graveler.connect("http://127.0.0.1:1", "k", "s")
try:
    lake.repository("shop").branch("main").open("none", "rb")
except ConnectionError:
    pass
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", script], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_folder_with_other_files_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ValueError, match="files"):
        graveler.open(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_the_text_of_the_sample_data_says_what_to_try(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    main = lake.create_repository("sampled", sample_data=True).branch("main")
    lines = [line[4:] for line in main.read_text("README.md").splitlines() if line[:4] == "    "]
    code = "\n".join(lines).replace(
        'graveler.connect().repository("REPOSITORY")', "main.repository"
    )
    exec(compile(code, "README.md", "exec"), {"main": main})
    assert capsys.readouterr().out.count("+  notes.txt") == 2


def test_a_repository_of_lakefs_is_taken_over_and_dumped(tmp_path: Path) -> None:
    written = Path(__file__).parents[1] / "data" / "lakefs-written"
    expected = json.loads((written / "expected.json").read_text())
    graveler.open(tmp_path / "store").close()
    shutil.copytree(written / "_lakefs", tmp_path / "store" / "objects" / "sales" / "_lakefs")
    with graveler.open(tmp_path / "store") as lake:
        sales = lake.create_repository("sales", "local://sales", bare=True)
        sales.restore(expected["refs_dump"])
        assert {each.name: each.pin().id for each in sales.branches()} == expected["branches"]
        listed = [each.path for each in sales.tag("v0").list()]
        assert listed == [each["path"] for each in expected["listings"]["v0"]]
        assert set(sales.dump()) == set(expected["refs_dump"])


def test_a_folder_is_imported_into_a_store_in_this_process(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.csv").write_text("id\n")
    with graveler.open(tmp_path / "store", import_roots=[source]) as lake:
        main = lake.create_repository("shop").branch("main")
        order = main.import_objects(f"local://{source}/", "raw/", metadata={"run": "7"})
        seen: list[ImportProgress] = []
        commit = order.wait(60, seen.append)
        assert seen[-1].done and seen[-1].objects == 3 and commit.metadata["run"] == "7"
        assert [entry.path for entry in main.list("raw/")] == [f"raw/{n}.csv" for n in range(3)]
        with pytest.raises(graveler.Error):
            order.cancel()


def test_an_answer_that_ends_early_is_an_error(tmp_path: Path) -> None:
    with graveler.open(tmp_path / "store") as lake:
        lake.create_repository("shop").branch("main").write_bytes("big", b"x" * (16 << 20))
        stored = max((tmp_path / "store").rglob("*"), key=lambda file: file.stat().st_size)
        with objects.open_object(lake.session, "shop", "main", "big") as answer:
            assert answer.read(1)
            os.truncate(stored, 1)
            with pytest.raises(Corrupt, match="early"):
                answer.read_all(16 << 20)


def test_a_store_that_is_closed_ends_what_is_read(tmp_path: Path) -> None:
    with graveler.open(tmp_path / "store") as lake:
        lake.create_repository("shop").branch("main").write_bytes("big", b"x" * (16 << 20))
        answer = objects.open_object(lake.session, "shop", "main", "big")
    with answer, pytest.raises(Unavailable, match="early"):
        answer.read_all(16 << 20)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_learns_that_the_store_is_not_its_own(tmp_path: Path) -> None:
    script = """
import os, sys, graveler
with graveler.open(sys.argv[1]) as lake:
    lake.create_repository("shop")
    child = os.fork()
    if not child:
        try:
            lake.repositories().all()
        except ConnectionError as error:
            os.write(1, str(error).encode())
            lake.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert lake.repositories().first()
"""
    command = [sys.executable, "-W", "ignore", "-c", script, tmp_path / "store"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert "graveler serve" in said.stdout and not said.stderr
