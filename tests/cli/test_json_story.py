"""Every client command with `--json` on a served store, in one story.

`Client.run` checks each output against its schema; here no command may be missing.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts.cli_schemas import PRINTED, UNPRINTED
from tests.api.serving import ADMINISTRATOR, Served, served
from tests.cli import json_check
from tests.cli.commands import Client
from tests.cli.hooked import STATEMENT, hooks_to
from tests.cli.hooked import action as action_text
from tests.hooks import web

# The output of each line must be JSON; `cat` and `api` print what they read.  A name in braces is a
# file, or a value that KEPT takes from an earlier output.
STORY = """
login {url} --access-key-id {key} --secret-stdin
whoami
doctor
config list
config show
config get repository
config set repository lake
config use default
completion bash
repo create lake local://lake
repo list
repo show lake
repo meta set lake team=data
repo meta show lake
repo meta delete lake team --yes
upload -r {folder} lake/main/data/
upload {folder}/a.csv lake/main/single.csv
status lake/main
diff lake/main
ls lake/main
ls lake/main --du
commit lake/main -m First
import local://{imported}/ lake/main/imported/
log lake
show lake/main
branch create lake/dev
branch list lake
branch show lake/dev
upload {folder}/b.csv lake/dev/data/a.csv
commit lake/dev -m Second
diff lake/main lake/dev
diff lake/main lake/dev --rows
merge-base lake/main lake/dev
annotate lake/dev
cherry-pick lake/dev main
restore lake/main main~1 --yes
revert lake/main main --yes
merge lake/dev main --strategy source-wins
stat lake/main/data/a.csv
cat lake/main/data/a.csv
presign lake/main/data/a.csv
open lake/main --print
download lake/main/data/a.csv {folder}/got.csv
cp lakefs://lake/main/data/a.csv lakefs://lake/dev/copy.csv
cp lakefs://lake/main/data/a.csv lakefs://lake/dev/copy.csv --dry-run
mv lakefs://lake/dev/copy.csv lakefs://lake/dev/moved.csv
rm lake/dev/moved.csv --dry-run
commit lake/dev -m Copied
reset --hard lake/dev dev~1 --confirm dev
tag create lake/v1 main
tag list lake
tag show lake/v1
tag delete lake/v1 --yes
undo --list
undo --yes
undo lake/dev --yes
watch lake -n 1
bisect start lake/main main~4
bisect view
bisect skip
bisect log
bisect bad
bisect good
bisect reset
bisect start lake/main main~2
bisect run true
bisect reset
pr create lake/dev main --title Ask
pr list lake --status all
pr show lake {pull}
pr comment lake {pull} Please --path a --row first
pr resolve lake {pull} 1
pr comments lake {pull}
pr merge lake {pull}
branch create lake/other main
upload {folder}/b.csv lake/other/more.csv
commit lake/other -m Third
pr create lake/other main --title Again
pr close lake {pull_2}
pr reopen lake {pull_2}
branch-protect add lake release-*
branch-protect list lake
branch-protect delete lake release-*
local clone lake/dev/data/ {home}/linked
local status {home}/linked
local list {home}
local pull {home}/linked
local checkout {home}/linked --yes
local init lake/dev/data/ {folder}
local commit {folder} -m Fourth
upload {action} lake/main/_lakefs_actions/guard.yaml
actions validate {action}
commit lake/main -m Hooked
actions list lake
actions show lake {run}
actions log lake {run}
jobs list lake
jobs show lake {job}
refs dump lake
audit
usage
may-i fs:CreateBranch lake/dev
user create ann
user list
user attach ann FSReadAll
user show ann
user detach ann FSReadAll
user disable ann
user enable ann
user key create ann
user key list ann
user key delete ann {key_of_ann} --yes
group create team
group list
group add team ann
group attach team FSReadAll
group show team
group detach team FSReadAll
group remove team ann
group delete team --yes
policy create mine {policy}
policy update mine {policy} --yes
policy list
policy show mine
policy attach mine --user ann
policy detach mine --user ann
policy delete mine --yes
user delete ann --yes
events rules add lake --branch main --bucket landing
events rules list lake
events rules remove lake {rule} --yes
gc --server --repository lake
retention --server --repository lake
api get /user
branch delete lake/other --yes
repo delete lake --confirm lake
logout --yes
"""
KEPT: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "pr create lake/dev": ("pull", lambda out: out["id"]),
    "pr create lake/other": ("pull_2", lambda out: out["id"]),
    "jobs list": ("job", lambda out: out[0]["id"]),
    "actions list": ("run", lambda out: out[0]["run_id"]),
    "user key create": ("key_of_ann", lambda out: out["access_key_id"]),
    "events rules add": ("rule", lambda out: out["id"]),
}
OF_STORES = ("verify", "credentials reset", "credentials rotate")
# Commands that the story leaves out, and the test that runs them with `--json`, or the reason.
ELSEWHERE = {
    **dict.fromkeys(OF_STORES, "test_a_store_that_nobody_serves"),
    "jobs cancel": "test_jobs.py: it needs a job that runs",
    "refs restore": "test_refs.py: it needs a copy of the storage",
}


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    folder = tmp_path / "imported"
    folder.mkdir()
    (folder / "x").write_text("x")
    return folder


@pytest.fixture
def hook() -> Iterator[web.Web]:
    with web.served(web.answering(200, b"yes")) as running:
        yield running


@pytest.fixture
def live(tmp_path: Path, imported: Path, hook: web.Web) -> Iterator[Served]:
    store, hooks = tmp_path / "store", hooks_to(hook)
    with served(store, hooks=hooks, import_roots=[imported], public=True) as running:
        yield running


def words_of(line: str) -> str:
    """The command of a line."""
    words = line.split()
    found = [" ".join(words[:count]) for count in (3, 2, 1)]
    return next(name for name in found if name in PRINTED or name in UNPRINTED)


def test_the_story_has_every_command() -> None:
    told = {words_of(line) for line in STORY.split("\n") if line}
    assert told | ELSEWHERE.keys() == json_check.visible()
    assert not told & ELSEWHERE.keys()


def test_every_command_prints_json_that_fits_its_schema(
    user: Client, live: Served, hook: web.Web, imported: Path, tmp_path: Path
) -> None:
    known = _files(tmp_path, hook, imported)
    known |= {"url": live.client.url, "key": ADMINISTRATOR.access_key_id}
    for template in filter(None, STORY.split("\n")):
        line = template.format_map(known)
        result = user.run("--json", *line.split(), input=ADMINISTRATOR.secret_access_key.encode())
        name = words_of(template)
        assert result.code == 0, (line, result)
        if name in PRINTED:
            assert result.out and json_check.types_of(line.split()), line
            printed = json.loads(result.out)
            for begin, (word, value) in KEPT.items():
                if template.startswith(begin):
                    known[word] = value(printed)


# Characters that control a terminal, or turn the direction of a text.
EVIL = "x\x1b]0;title\x07\x1b[8m\x9b2J\x7f\x08\u202e\u2066\u200f\u061c\r\u2028y"
SHOWN = r"x\x1b]0;title\x07\x1b[8m\x9b2J\x7f\x08\u202e\u2066\u200f\u061c"
OUR_COLORS = re.compile(r"\x1b\[(0|1|2|3[0-7]|9[0-7])m")
TEXTS = ("First", "Second", "Third", "Fourth", "Copied", "Hooked", "Ask", "Again", "Please", "data")
SHOW_TEXTS = {"ls", "log", "show", "diff", "annotate", "pr list", "pr show", "bisect view"}
SHOW_TEXTS |= {"repo meta show", "actions log", "cat", "stat"}


MOVES = re.compile(r"(upload|download|import|cp|mv|local (clone|pull|checkout|commit)) ")


def _hostile(line: str) -> str:
    """A line whose texts, and one of whose paths, are hostile."""
    line = re.sub(rf"(?<= )(-m |--title )?({'|'.join(TEXTS[:-1])})$", rf"\1'{EVIL}'", line)
    line = line.replace("team=data", f"'team={EVIL}'")
    line += " --progress never" if MOVES.match(line) else ""  # it moves the cursor
    line = line.replace("ls lake/main", "ls lake/main/data/").replace(
        "show lake/main", "show lake/main~"
    )
    return re.sub(r"(?<=^)(stat|cat) lake/main/data/a.csv", rf"\1 'lake/main/data/{EVIL}'", line)


@pytest.mark.parametrize("flags", ["--color always", "--color never", "--json"])
def test_no_command_sends_a_text_of_others_raw_to_a_terminal(
    user: Client, live: Served, hook: web.Web, imported: Path, tmp_path: Path, flags: str
) -> None:
    known = _files(tmp_path, hook, imported)
    known |= {"url": live.client.url, "key": ADMINISTRATOR.access_key_id}
    (tmp_path / "files" / EVIL).write_text(EVIL)
    hook.react = web.answering(200, EVIL.encode())
    shows = set()
    for template in filter(None, STORY.split("\n")):
        line = _hostile(template).format_map(known)
        is_kept = any(template.startswith(begin) for begin in KEPT)
        if template.startswith("login"):
            user.run(*line.split(), input=ADMINISTRATOR.secret_access_key.encode())
            continue
        code, text = user.on_terminal(f"{line} {'--json' if is_kept else flags}")
        assert code == 0, (line, text)
        left = text if "--color always" not in flags else OUR_COLORS.sub("", text)
        raw = {each for each in left if not each.isprintable()} - {"\n", "\t"}
        assert not raw, (line, text)
        if SHOWN in left:
            shows.add(words_of(template))
        for begin, (word, value) in KEPT.items():
            if template.startswith(begin):
                known[word] = value(json.loads(text.partition("\ntry: ")[0]))
    assert flags == "--json" or shows >= SHOW_TEXTS, SHOW_TEXTS - shows


def _files(tmp_path: Path, hook: web.Web, imported: Path) -> dict[str, str]:
    """What the story reads."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.csv").write_text("id\n1\n")
    (folder / "b.csv").write_text("id\n2\n")
    action, policy = tmp_path / "guard.yaml", tmp_path / "policy.json"
    action.write_text(action_text("main", hook))
    policy.write_text(STATEMENT)
    paths = {"folder": folder, "action": action, "policy": policy, "imported": imported}
    return {name: str(path) for name, path in paths.items()} | {"home": str(tmp_path / "home")}


@pytest.mark.parametrize("command", OF_STORES)
def test_a_store_that_nobody_serves(user: Client, tmp_path: Path, command: str) -> None:
    store = tmp_path / "store"
    with served(store):
        pass
    answer = ("--yes",) if command == "credentials reset" else ()
    result = user.run("--json", *command.split(), "--store", str(store), *answer)
    assert result.code == 0 and json.loads(result.out), result
