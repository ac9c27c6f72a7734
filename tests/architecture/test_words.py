"""No tracked file speaks of a machine, a registry or unfinished work."""

import re

import pytest

from tests.architecture.source import ROOT
from tests.architecture.words import BANNED, RECORDED, findings, tracked_files


def test_no_tracked_file_says_what_is_banned() -> None:
    found = []
    for path in tracked_files():
        if path.startswith(RECORDED) or not (ROOT / path).is_file():
            continue
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += findings(path, text)
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("machine path", "cd " + "/".join(("", "work", "main"))),
        ("machine path", "see " + "/".join(("..", "shared", "x.md"))),
        ("registry", "https://" + ".".join(("pypi", "org")) + "/simple"),
        ("registry", "pip install --" + "-".join(("extra", "index", "url")) + " x"),
        ("unfinished work", "# " + "TO" + "DO: later"),
        ("way of making", "as " + "issue" + " 12 says"),
    ],
)
def test_each_banned_thing_is_noticed(name: str, says: str) -> None:
    found = list(findings("a.md", f"first line\n{says}\n"))
    assert [line.startswith(f"a.md:2: {name} ") for line in found] == [True]


@pytest.mark.parametrize(
    "says",
    [
        "graveler" + "/work" + "/main.py, homework/x, a" + "/root" + "/b",
        "pytest.fixture(scope='session'), the AWS session",
        "pip-compile --no-emit-index-url --no-emit-find-links",
        "/tmp on Lambda",
    ],
)
def test_plain_text_is_let_through(says: str) -> None:
    assert list(findings("a.md", says)) == []


def test_every_pattern_is_live() -> None:
    assert all(isinstance(each.pattern, re.Pattern) and each.remedy for each in BANNED)


def test_lock_files_pin_every_package_by_hash_and_name_no_address() -> None:
    locks = sorted((ROOT / "requirements").glob("*.txt"))
    known = {"aws", "clients", "dev", "docs", "gateway", "layer", "pip", "s3a", "server"}
    known |= {"spark3", "spark4", "tools"}
    assert known == {lock.stem for lock in locks}
    # A package without wheels for some platform says for which ones it is meant.
    meant = r"(?: ; [a-z_]+ [!=]= \"\w+\"(?: or [a-z_]+ == \"\w+\")?)?"
    hashes = r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+"
    pinned = re.compile(rf"[a-z0-9-]+==[^ ]+{meant} \\\n{hashes}")
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        rest = re.sub(r"^#.*\n", "", pinned.sub("", text), flags=re.MULTILINE)
        assert rest.strip() == "", f"{lock.name} holds more than pins and hashes: {rest[:200]!r}"
        assert "://" not in text and " @ " not in text
