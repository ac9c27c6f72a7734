"""`graveler import`: what becomes a commit, what asks first, and what an interrupt does."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.api.imports import ImportStatus
from graveler.cli.support.interrupts import interrupt_later
from graveler.core.errors import GravelerError, OutcomeUnknown, Unavailable
from tests.api.serving import Served, served
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    for name in ("a", "b"):
        (folder / name).write_bytes(name.encode())
    return folder


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / "store", import_roots=[source]) as running:
        yield running


def test_a_prefix_becomes_a_commit(lake: Lake, source: Path) -> None:
    words = ("import", f"local://{source}/", f"{lake.name}/main/in/")
    status = lake.user.read(ImportStatus, *words, "-m", "two", "--meta", "k=v")
    assert status.completed and status.ingested_objects == 2
    assert lake.user.run("cat", f"{lake.name}/main/in/a", f"{lake.name}/main/in/b").out == "ab"
    commit = json.loads(lake.user.run("show", lake.name, "--json").out)
    assert (commit["message"], commit["metadata"]["k"]) == ("two", "v")
    again = lake.user.run(*words)
    assert again.code == 2 and "give --yes" in again.err
    assert lake.user.run(*words, "--yes").code == 0


def test_one_object_and_a_question(lake: Lake, source: Path) -> None:
    words = ("import", f"local://{source}/a", f"{lake.name}/main/one", "--object")
    assert lake.user.run(*words).out.startswith("imported 1 object: ")
    lake.put("old/x")
    lake.commit()
    shown = terminal(lake.user, "import", f"local://{source}/", f"{lake.name}/main/old/")
    shown.until(f"Replace all that is below {lake.name}/main/old/? [y/N]: ")
    shown.type("y\n")
    assert shown.end() == 0 and "imported 2 objects" in shown.text
    assert lake.user.run("stat", f"{lake.name}/main/old/x").code == 3


def test_an_import_of_no_object_says_what_it_removed(lake: Lake, source: Path) -> None:
    """The commit is made, as lakeFS makes it, so the exit code is 0."""
    user, name = lake.user, lake.name
    empty = source / "empty"
    empty.mkdir(exist_ok=True)
    words = ("import", f"local://{empty}/", f"{name}/main/in/")
    first = user.run(*words)
    assert first.code == 0 and first.out.startswith("imported 0 objects: ")
    warning = f"warning: no object is at local://{empty}/: the commit adds nothing, and removes all"
    assert first.err.startswith(warning)
    lake.commit_of("in/a")
    status = user.read(ImportStatus, *words, "--yes")
    assert status.ingested_objects == 0
    lake.commit_of("in/a")
    second = user.run(*words, "--yes")
    line, back = second.err.splitlines()
    assert line == f"{warning} that was below {name}/main/in/"
    assert user.run("ls", f"{name}/main/in/").out == ""
    assert user.line(f"{back.partition(': graveler ')[2]} --yes").code == 0
    assert user.run("cat", f"{name}/main/in/a").out == "in/a"


def test_a_mistyped_folder_changes_nothing(lake: Lake, source: Path) -> None:
    lake.commit_of("in/a")
    for kind in ((), ("--object",)):
        words = ("import", f"local://{source}/typo", f"{lake.name}/main/in/", "--yes", *kind)
        result = lake.user.run(*words)
        assert result.code == 1 and f"{source}/typo" in result.err
    assert lake.user.run("cat", f"{lake.name}/main/in/a").out == "in/a"


def test_names_that_no_path_can_have_are_counted_and_named(lake: Lake, source: Path) -> None:
    """All kinds together: the rest is imported."""
    odd = source / "odd"
    odd.mkdir()
    (odd / "good").write_bytes(b"good")
    (odd / "back\\slash").write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(odd) + b"/latin-\xe9")).write_bytes(b"x")
    os.mkfifo(odd / "pipe")
    (odd / "dangling").symlink_to("nowhere")
    deep = odd / ("d" * 200) / ("e" * 200) / ("f" * 200) / ("g" * 200) / ("h" * 200)
    deep.mkdir(parents=True)
    (deep / ("i" * 100)).write_bytes(b"x")
    words = ("import", f"local://{odd}/", f"{lake.name}/main/in/")
    result = lake.user.run(*words)
    assert (result.code, result.out.partition(":")[0]) == (0, "imported 1 object")
    head, *names = result.err.splitlines()
    assert head == "warning: skipped 5 names that cannot be imported:"
    assert [name.partition(": ")[0][:9] for name in names] == [
        *("'back\\\\sl", "'dangling", "'dddddddd", "'latin-\\u", "'pipe'")
    ]
    assert "it is a link that leads nowhere" in names[1] and "too long" in names[2]
    status = lake.user.read(ImportStatus, *words, "--yes")
    shutil.rmtree(odd)
    assert status.commit.metadata["graveler.import.skipped"] == "5"  # type: ignore[union-attr]


def test_a_folder_whose_links_all_lead_nowhere_changes_nothing(lake: Lake, source: Path) -> None:
    """As a folder of links to a disk that is not mounted: it is not an empty folder."""
    lake.commit_of("in/a")
    links = source / "links"
    links.mkdir()
    for name in ("one", "two"):
        (links / name).symlink_to(f"/nowhere/{name}")
    result = lake.user.run("import", f"local://{links}/", f"{lake.name}/main/in/", "--yes")
    shutil.rmtree(links)
    assert result.code == 1
    assert "names=2" in result.err and "'one': it is a link that leads nowhere" in result.err
    assert lake.user.run("cat", f"{lake.name}/main/in/a").out == "in/a"


def test_an_import_as_lakectl_writes_it(lake: Lake, source: Path) -> None:
    line = f"import --from local://{source}/ --to lakefs://{lake.name}/main/in/ -m two"
    result = lake.user.line(f"{line} --progress json")
    assert result.code == 0, result
    assert json.loads(result.err.splitlines()[-1])["progress"]["objects"] == 2
    assert lake.user.line(f"{line} --no-progress --yes").err == ""
    assert lake.user.line(f"import local://{source}/").code == 2


def test_a_source_that_may_not_be_read(lake: Lake) -> None:
    result = lake.user.run("import", "local:///etc/", f"{lake.name}/main/etc/")
    assert result.code == 1 and result.err.startswith("graveler: ")


def test_nobody_waits(lake: Lake, source: Path) -> None:
    words = ("import", f"local://{source}/", f"{lake.name}/main/later/", "--no-wait")
    assert set(json.loads(lake.user.run(*words, "--json").out)) == {"id"}
    begun = lake.user.run(*words, "--yes")
    show, cancel = begun.err.splitlines()
    assert show == f"the import goes on: graveler jobs show {lake.name} {begun.out.strip()}"
    assert cancel == f"to cancel it: graveler jobs cancel {lake.name} {begun.out.strip()}"
    assert lake.user.line(show.partition(": graveler ")[2]).code == 0


@pytest.mark.parametrize("answer", ["y\n", "n\n", "\x03"])
def test_an_interrupt_asks_whether_to_cancel(user: Client, answer: str) -> None:
    """The import of this server never completes."""
    empty = {"has_more": False, "next_offset": "", "results": 0, "max_per_page": 1000}
    listing = Said(200, json.dumps({"pagination": empty, "results": []}).encode())
    begun = Said(202, b'{"id": "i1"}')
    running = Said(200, b'{"completed": false, "ingested_objects": 7}')
    with scripted([listing, begun, *[running] * 1_000]) as server:
        user.know(server.url)
        shown = terminal(user, "import", "s3://b/p/", "lake/main/p/")
        shown.until("7 objects")
        shown.type("\x03")
        shown.until("The server goes on with the import.  Cancel it? [y/N]: ")
        if answer != "\x03":
            shown.type(answer)
        assert (shown.interrupt() if answer == "\x03" else shown.end()) == 130
        last = server.asked[-1]
        cancelled = (last.method, last.path.partition("?")[2]) == ("DELETE", "id=i1")
    assert cancelled == (answer == "y\n")
    goes_on = "the import goes on: graveler jobs show lake i1\nto cancel it: graveler jobs"
    assert ("the import is cancelled" if cancelled else goes_on) in shown.text


def test_an_interrupt_while_it_is_begun_cancels_it(user: Client) -> None:
    """Its id is not known before the server answers."""

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    begun = Said(202, b'{"id": "i1"}', before=press)
    with scripted([begun, Said(204, b"")]) as server:
        user.know(server.url)
        result = user.run("import", "s3://b/p/", "lake/main/p/", "--yes")
        assert [each.method for each in server.asked] == ["POST", "DELETE"]
    assert (result.code, result.out) == (130, "")
    assert result.err == (
        "graveler: interrupted: the import is cancelled; the branch did not change\n"
    )


def test_an_import_that_could_not_be_cancelled_is_named(user: Client) -> None:
    begun = Said(202, b'{"id": "i1"}', before=lambda: os.kill(os.getpid(), signal.SIGINT))
    with scripted([begun, *[Said(0)] * 5]) as server:
        user.know(server.url)
        result = user.run("import", "s3://b/p/", "lake/main/p/", "--yes")
    job = "the import may go on: graveler jobs show lake i1"
    said = f"graveler: interrupted: {job}\nto cancel it: graveler jobs cancel lake i1\n"
    assert (result.code, result.err) == (130, said)


def test_an_interrupt_that_waits_says_that(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), interrupt_later():
        signal.raise_signal(signal.SIGINT)
        said = capfd.readouterr().err
    assert said == "graveler: interrupting; press again to end at once\n"


@pytest.mark.parametrize(
    ("error", "becomes"),
    [(Unavailable("no server"), KeyboardInterrupt), (OutcomeUnknown("lost"), OutcomeUnknown)],
)
def test_an_interrupt_goes_before_an_error_that_did_nothing(
    error: GravelerError, becomes: type[BaseException]
) -> None:
    with pytest.raises(becomes, match=str(error)), interrupt_later():
        signal.raise_signal(signal.SIGINT)
        raise error
    with pytest.raises(type(error)), interrupt_later():
        raise error


def test_a_second_interrupt_ends_at_once() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupt_later():
        signal.raise_signal(signal.SIGINT)
        reached.append(1)
        signal.raise_signal(signal.SIGINT)
        reached.append(2)
    assert reached == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("no_pauses")
def test_an_import_that_was_begun_has_an_unknown_outcome(user: Client) -> None:
    """If the server stays away for two minutes."""
    with scripted([Said(202, b'{"id": "i1"}'), *[Said(0)] * 100]) as server:
        user.know(server.url)
        result = user.run("import", "s3://b/p/", "lake/main/p/", "--yes")
        assert len(server.asked) > 50
    assert result.code == 7 and "import=i1 was begun: " in result.err
