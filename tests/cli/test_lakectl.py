"""lakectl's commands: each command line of its manual is accepted, and its stories come out alike.

lakectl itself cannot be installed here.  The command lines are those of its reference; the stories
are what its own system tests do, told again with our checks.
"""

import json
import shlex
from pathlib import Path

import click
import pytest

from graveler.cli.main import root
from graveler.cli.support.command import ClientCommand
from tests.api.serving import ADMINISTRATOR
from tests.cli.commands import Client
from tests.cli.conftest import Lake

# Every command of lakectl's reference with every flag, but for what docs/reference/cli.md names as
# left out.
LINES = """
actions runs describe lakefs://r 7 --after x --amount 5
actions runs list lakefs://r --branch b --commit c --amount 5 --after x
actions validate file
annotate lakefs://r/main/a --first-parent --recursive
auth groups create --id g
auth groups delete --id g
auth groups list --amount 5 --after a --prefix p
auth groups members add --id g --user u
auth groups members add --id g
auth groups members list --id g --amount 5 --after a --prefix p
auth groups members remove --id g --user u
auth groups policies attach --id g --policy p
auth groups policies detach --id g --policy p
auth groups policies list --id g --amount 5 --after a --prefix p
auth policies create --id p --statement-document -
auth policies delete --id p
auth policies list --amount 5 --after a --prefix p
auth policies show --id p
auth users create --id u
auth users credentials create --id u
auth users credentials delete --access-key-id k --id u
auth users credentials list --id u --amount 5 --after a --prefix p
auth users delete --id u
auth users groups list --id u --amount 5 --after a --prefix p
auth users list --amount 5 --after a --prefix p
auth users policies attach --id u --policy p
auth users policies detach --id u --policy p
auth users policies list --effective --id u --amount 5 --after a --prefix p
bisect bad
bisect good
bisect log
bisect reset
bisect run true
bisect start lakefs://r/main lakefs://r/main~5
bisect view
branch create lakefs://r/b -s lakefs://r/main
branch create lakefs://r/b --source lakefs://r/main
branch delete lakefs://r/b --yes
branch list lakefs://r --amount 5 --after a --prefix p
branch reset lakefs://r/b --object o -y
branch reset lakefs://r/b --prefix p --yes
branch revert lakefs://r/b main~1 main~2 --allow-empty-commit --parent-number 1 -y
branch revert lakefs://r/b main~1 -m 1
branch show lakefs://r/b
branch-protect add lakefs://r stable_*
branch-protect delete lakefs://r stable_*
branch-protect list lakefs://r
cat-hook-output lakefs://r 7 hook
cherry-pick lakefs://r/c lakefs://r/b -m 1
cherry-pick lakefs://r/c lakefs://r/b --parent-number 1
commit lakefs://r/b --allow-empty-commit --allow-empty-message -m x --meta a=b
commit lakefs://r/b -m x --epoch-time-seconds 0
completion bash
diff lakefs://r/a lakefs://r/b --two-way --prefix p
doctor
find-merge-base lakefs://r/a lakefs://r/b
fs cat lakefs://r/b/p --pre-sign
fs download lakefs://r/b/p dest --no-progress -p 5 --part-size 8388608 --pre-sign -r
fs download --parallelism 1 lakefs://r/b/p --pre-sign=false
fs ls lakefs://r/b/ -r
fs presign lakefs://r/b/p
fs rm lakefs://r/b/p -C 5 -r
fs rm lakefs://r/b/p --concurrency 5
fs stage lakefs://r/b/p --checksum c --content-type t --location l --meta a=b --mtime 5 --size 5
fs stat lakefs://r/b/p --pre-sign
fs stat --pre-sign=false lakefs://r/b/p
fs update-metadata lakefs://r/b/p --metadata a=1,b=2
fs upload lakefs://r/b/p --content-type t --no-progress -p 5 --pre-sign -r -s /tmp
fs upload -s file lakefs://r/b/p --pre-sign=false
gc delete-config lakefs://r
gc get-config lakefs://r --json
gc get-config -p lakefs://r
gc set-config lakefs://r -f rules.json
help commit
identity
import --from s3://b/p/ --to lakefs://r/b/p/ --allow-empty-message -m x --meta a=b --no-progress
local checkout dir --all --no-progress -p 5 --pre-sign=false -r ref -y
local clone lakefs://r/b/p dir --gitignore=false --no-progress --parallelism 5 --pre-sign
local commit dir --allow-empty-message --force -m x --meta a=b --no-progress -p 5 --pre-sign
local init lakefs://r/b/p dir --force --gitignore=true
local list dir
local pull dir --force --no-progress -p 5 --pre-sign=true
local status dir -l
log lakefs://r/b --after c --amount 5 --dot --first-parent --limit --no-merges
log lakefs://r/b --objects a,b --prefixes c,d --show-meta-range-id --since 2026-01-01T00:00:00Z
log lakefs://r/b --stop-at lakefs://r/main
login http://127.0.0.1
merge lakefs://r/a lakefs://r/b --allow-empty --allow-empty-message --force -m x --meta a=b
merge lakefs://r/a lakefs://r/b --squash --strategy dest-wins
plugin list
refs-dump lakefs://r -o file --poll-interval 3s --timeout 1h
refs-restore lakefs://r --manifest - --poll-interval 3s --timeout 1h
repo create lakefs://r s3://b/p -d trunk --sample-data
repo create-bare lakefs://r s3://b/p -d trunk
repo delete lakefs://r -y
repo list --amount 5 --after a --prefix p
show commit lakefs://r/c --show-meta-range-id
tag create lakefs://r/t lakefs://r/c -f
tag delete lakefs://r/t
tag list lakefs://r --amount 5 --after a --prefix p
tag show lakefs://r/t
usage summary
""".strip().splitlines()


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_of_lakectl_is_accepted(line: str) -> None:
    """It is parsed to a command with an action; nothing is run."""
    words = shlex.split(line)
    if words[0] == "help":
        words = [*words[1:], "--help"]
        with pytest.raises(click.exceptions.Exit):
            _parsed(words)
        return
    assert isinstance(_parsed(words), ClientCommand)


def _parsed(words: list[str]) -> click.Command:
    command: click.Command = root()
    with command.make_context("graveler", words) as context:
        rest, parent = words, context
        while isinstance(command, click.Group):
            name, child, rest = command.resolve_command(parent, rest)
            assert child is not None
            command = child
            if isinstance(command, click.Group):
                parent = click.Context(command, parent=parent)
        command.make_context(name, rest, parent=parent)
    return command


def test_options_of_lakectl_before_the_command(lake: Lake, tmp_path: Path) -> None:
    lake.put("a")
    file = tmp_path / "lakectl.yaml"
    url, keys = lake.live.client.url, ADMINISTRATOR
    file.write_text(
        f"server: {{endpoint_url: '{url}'}}\ncredentials: {{access_key_id: {keys.access_key_id}, "
        f"secret_access_key: {keys.secret_access_key}}}\n"
    )
    lake.user.variables["XDG_CONFIG_HOME"] = str(tmp_path / "empty")
    shared = f"-c {file} --no-color --verbose --log-level info --log-format text --log-output -"
    listed = lake.user.line(f"--base-uri lakefs://{lake.name} {shared} fs ls /main/")
    assert listed.code == 0 and listed.out.endswith("\ta\n"), listed
    assert "> GET" in listed.err


def test_a_flag_with_a_value_means_what_it_says(lake: Lake, tmp_path: Path) -> None:
    """`--squash=false` is the flag left out, and a value elsewhere is no flag."""
    name, user = lake.name, lake.user
    lake.put("a")
    user.line(f"commit lakefs://{name}/main -m --squash=false")
    assert user.line(f"log {name}/main -n 1 --oneline").out.split()[1:] == ["--squash=false"]
    user.line(f"branch create {name}/dev")
    lake.put("b", branch="dev")
    lake.commit(branch="dev")
    assert user.line(f"merge {name}/dev main --squash=false").code == 0
    head = json.loads(user.line(f"show {name}/main --json").out)
    assert len(head["parents"]) == 2


# ---- the stories of its system tests -------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ro_1k"
    path.write_bytes(bytes(1024))
    return path


def told(user: Client, *lines: str) -> list[int]:
    """The exit codes of several command lines."""
    return [user.line(line).code for line in lines]


def test_commits(lake: Lake, file: Path) -> None:
    name, user = lake.name, lake.user
    at = f"lakefs://{name}/main"
    codes = told(
        user,
        f"log lakefs://{name}-none/main",
        f"log {at}",
        f"fs upload -s {file} {at}/ro_1k.1",
        f"commit {at}",
        f"commit {at} -m ' '",
        f"commit {at} --allow-empty-message -m ' '",
        f"commit {at} -m 'should fail'",
        f"fs upload -s {file} {at}/ro_1k.3",
        f"commit {at} -m 'a very old date' --epoch-time-seconds 0",
    )
    assert codes == [3, 0, 0, 2, 2, 0, 1, 0, 0]
    newest = json.loads(user.line(f"log {at} --amount 1 --json").out)[0]
    assert (newest["message"], newest["creation_date"]) == ("a very old date", 0)
    shown = user.line(f"show commit lakefs://{name}/{newest['id']} --show-meta-range-id")
    assert "a very old date" in shown.out


@pytest.mark.parametrize(
    "line",
    [
        "commit {} -m x --epoch-time-seconds",
        "fs stage {}/a --location l --size 1 --checksum c --mtime",
    ],
)
def test_seconds_that_no_calendar_has_are_wrong_usage(lake: Lake, line: str) -> None:
    refused = lake.user.line(f"{line.format(f'lakefs://{lake.name}/main')} {10**20}")
    assert refused.code == 2 and "no calendar has" in refused.err


def test_branch_and_tag_names(lake: Lake, file: Path) -> None:
    name, user = lake.name, lake.user
    at = f"lakefs://{name}"
    codes = told(
        user,
        f"fs upload -s {file} {at}/main/a/b/c",
        f"commit {at}/main -m one",
        f"branch create {at}/my.invalid.branch --source {at}/main",
        f"tag create {at}/my.valid.tag {at}/main",
        f"tag create {at}/tag2 {at}/main~1",
        f"tag create {at}/tag3 {at}/main^1",
        f"tag create {at}/tag4 {at}/main~",
        f"tag show {at}/tag4",
    )
    assert codes == [0, 0, 2, 0, 0, 0, 0, 0]
    tags = {
        row["id"]: row["commit_id"] for row in json.loads(user.line(f"tag list {at} --json").out)
    }
    assert tags["tag2"] == tags["tag3"] == tags["tag4"] != tags["my.valid.tag"]


def test_downloads_and_uploads(lake: Lake, file: Path, tmp_path: Path) -> None:
    name, user = lake.name, lake.user
    at = f"lakefs://{name}/main"
    for number in range(3):
        assert user.line(f"fs upload -s {file} {at}/data/ro/ro_1k.{number}").code == 0
    single, folder = tmp_path / "single", tmp_path / "folder"
    single.mkdir()
    assert user.line(f"fs download {at}/data/ro/ro_1k.0 {single}").code == 0
    assert [each.name for each in single.iterdir()] == ["ro_1k.0"]
    assert user.line(f"fs download --parallelism 1 {at}/data {folder}").code == 0
    assert sorted(each.name for each in (folder / "ro").iterdir()) == [
        "ro_1k.0",
        "ro_1k.1",
        "ro_1k.2",
    ]
    assert user.line(f"fs download {at}/nothing {folder}").code == 3
    again = json.loads(user.line(f"fs upload -s {folder}/ {at}/data/ --json").out)["graveler"]
    assert (again["objects"], again["same"]) == (0, 3)
    presigned = json.loads(user.line(f"fs stat --pre-sign {at}/data/ro/ro_1k.1 --json").out)
    assert presigned["physical_address"].startswith("http")


def test_a_download_to_a_name_that_is_free(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake.put("a.csv", b"1")
    source = f"lakefs://{lake.name}/main/a.csv"
    assert lake.user.line(f"fs download {source}") == lake.user.line(f"download {source} b.csv")
    assert lake.user.line(f"fs download {source} out.csv").code == 0
    assert lake.user.line(f"fs download {source} new/").code == 0
    for name in ("a.csv", "b.csv", "out.csv", "new/a.csv"):
        assert Path(name).read_bytes() == b"1"


def test_objects_outside_and_metadata(lake: Lake) -> None:
    name, user = lake.name, lake.user
    lake.put("a.csv")
    done = user.line(f"fs update-metadata lakefs://{name}/main/a.csv --metadata a=1,b=2 --json")
    assert json.loads(done.out)["graveler"] == {"done": f"metadata of {name}/main/a.csv replaced"}
    stats = json.loads(user.line(f"fs stat lakefs://{name}/main/a.csv --json").out)
    assert stats["metadata"] == {"a": "1", "b": "2"}
    staged = user.line(
        f"fs stage lakefs://{name}/main/b --location s3://no/b --size 9 --checksum {'0' * 32}"
    )
    assert staged.code == 1 and "s3://no/b" in staged.err


def test_users(lake: Lake) -> None:
    user = lake.user
    assert told(
        user,
        "auth users delete --id test_user -y",
        "auth users create --id test_user",
        "auth users create --id test_user",
        "auth users delete --id test_user -y",
        "identity",
    ) == [3, 0, 5, 0, 0]


def test_retention_rules(lake: Lake, tmp_path: Path) -> None:
    name, user = lake.name, lake.user
    rules = {
        "default_retention_days": 21,
        "branches": [{"branch_id": "main", "retention_days": 28}],
    }
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(rules))
    done = user.line(f"gc set-config lakefs://{name} -f {file} --json")
    assert json.loads(done.out)["graveler"] == {"done": f"set the retention rules of {name}"}
    assert json.loads(user.line(f"gc get-config lakefs://{name} -p").out) == rules
    assert "21 days" in user.line(f"gc get-config lakefs://{name}").out
    assert user.line(f"gc delete-config lakefs://{name}").code == 0
    assert "forever" in user.line(f"gc get-config lakefs://{name}").out
    file.write_text(json.dumps({**rules, "branches": rules["branches"] * 2}))  # type: ignore[operator]
    assert "only one rule" in user.line(f"gc set-config lakefs://{name} -f {file}").err
    file.write_text("[]")
    assert user.line(f"gc set-config lakefs://{name} -f {file}").code == 1
