"""Files of the machine are read in place below import roots, and nowhere else."""

import os
import stat
from pathlib import Path

import pytest

from graveler.block.local import ImportRules, LocalBlocks
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Invalid, NotFound, Unsupported
from tests.support.block_suite import content
from tests.support.hostile_names import escaping_addresses


class Ground:
    """An import root with some files, a sibling with a secret, and a store."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "imports"
        self.sibling = folder / "imports-secret"
        self.store = folder / "store"
        for path, text in (
            (self.root / "a.csv", "csv"),
            (self.root / "a" / "x", "x"),
            (self.root / "a" / "100%.txt", "percent"),
            (self.root / "a!", "bang"),
            (self.root / "empty", ""),
            (self.sibling / "key", "secret"),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.blocks = self.opened(self.root)

    def opened(self, *roots: Path) -> LocalBlocks:
        rules = ImportRules(roots, (self.store,))
        folder = self.store / "blocks"
        return LocalBlocks(folder, clock=SystemClock(), ids=SystemIds(), imports=rules)

    def listed(self, prefix: str, after: str = "", limit: int = 100) -> list[str]:
        lines = self.blocks.list(prefix, after, limit).lines
        return [line.address.removeprefix(f"local://{self.root}/") for line in lines]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path.resolve())


def test_files_are_read_in_place(ground: Ground) -> None:
    address = f"local://{ground.root}/a/100%.txt"
    assert content(ground.blocks, address) == b"percent"
    assert ground.blocks.read(address, -3, 3) == b"ent"
    assert ground.blocks.head(address).size == 7
    assert content(ground.blocks, f"local://{ground.root}/empty") == b""
    ground.blocks.copy(address, "local://lake/copied")
    assert content(ground.blocks, "local://lake/copied") == b"percent"


def test_a_folder_is_no_object(ground: Ground) -> None:
    for path in ("a/", ""):
        with pytest.raises(Invalid, match="names a folder"):
            ground.blocks.head(f"local://{ground.root}{path and '/'}{path}")


def test_b4_lists_are_in_order_of_keys(ground: Ground) -> None:
    prefix = f"local://{ground.root}/"
    names = ["a!", "a.csv", "a/100%.txt", "a/x", "empty"]
    assert ground.listed(prefix) == names
    assert ground.listed(prefix + "a") == names[:4]
    assert ground.listed(prefix + "a/") == names[2:4]
    assert ground.listed(prefix, prefix + "a.csv", 2) == names[2:4]
    with pytest.raises(NotFound, match="folder not found"):
        ground.listed(prefix + "nothing/")
    page = ground.blocks.list(prefix, "", 2)
    assert page.more
    assert page.lines[0].head == ground.blocks.head(page.lines[0].address)


def test_nothing_is_written_outside_of_the_store(ground: Ground) -> None:
    address = f"local://{ground.root}/a.csv"
    for call in (
        lambda: ground.blocks.put(address, [b"x"]),
        lambda: ground.blocks.copy(address, address),
        lambda: ground.blocks.delete(address),
        lambda: ground.blocks.presign(address, "PUT", 60, ""),
        lambda: ground.blocks.create_upload(address),
    ):
        with pytest.raises(Unsupported):
            call()
    assert (ground.root / "a.csv").read_text() == "csv"


def refused(ground: Ground, path: str) -> None:
    address = f"local://{path}"
    for call in (
        lambda: ground.blocks.get(address),
        lambda: ground.blocks.read(address, 0, 1),
        lambda: ground.blocks.head(address),
        lambda: ground.blocks.copy(address, "local://lake/stolen"),
        lambda: ground.blocks.presign(address, "GET", 60, ""),
        lambda: ground.blocks.list(address + "/", "", 10),
    ):
        with pytest.raises(Invalid):
            call()


def test_b6_paths_outside_of_the_roots_are_refused(ground: Ground) -> None:
    for path in (
        "/etc/passwd",
        "/etc",
        str(ground.sibling / "key"),
        str(ground.sibling),
        str(ground.root.parent),
        f"{ground.root}/../{ground.sibling.name}/key",
        f"{ground.root}/./a.csv",
        f"{ground.root}//a.csv",
        f"/{ground.root}/a.csv",
    ):
        refused(ground, path)


def test_b6_escaping_addresses_below_a_root(ground: Ground) -> None:
    tried = 0
    for address in escaping_addresses(f"local://{ground.root}"):
        if address.rstrip("/") != f"local://{ground.root}":
            for call in (ground.blocks.get, ground.blocks.head):
                with pytest.raises(Invalid):
                    call(address)
            tried += 1
    assert tried > 1_000


def test_without_roots_nothing_is_served(ground: Ground) -> None:
    ground.blocks = ground.opened()
    refused(ground, str(ground.root / "a.csv"))


def test_links_inside_the_root_are_followed(ground: Ground) -> None:
    (ground.root / "b-link").symlink_to(ground.root / "a")
    (ground.root / "c-link").symlink_to("a.csv")
    (ground.root / "d-broken").symlink_to("nowhere")
    os.mkfifo(ground.root / "e-pipe")
    assert content(ground.blocks, f"local://{ground.root}/b-link/x") == b"x"
    assert content(ground.blocks, f"local://{ground.root}/c-link") == b"csv"
    found = ground.listed(f"local://{ground.root}/")
    objects = ["b-link/100%.txt", "b-link/x", "c-link", "empty"]
    assert found[4:] == [*objects[:3], "d-broken", "e-pipe", objects[3]]
    for name in ("d-broken", "e-pipe", "a"):
        with pytest.raises(NotFound):
            ground.blocks.get(f"local://{ground.root}/{name}")


def test_links_that_leave_the_root_are_refused(ground: Ground) -> None:
    (ground.root / "out").symlink_to(ground.sibling)
    (ground.root / "out-file").symlink_to(ground.sibling / "key")
    for name in ("out", "out/key", "out-file"):
        refused(ground, f"{ground.root}/{name}")
    with pytest.raises(Invalid, match="out of its import root"):
        ground.blocks.list(f"local://{ground.root}/", "", 10)


def test_every_read_checks_anew(ground: Ground) -> None:
    address = f"local://{ground.root}/a/x"
    assert content(ground.blocks, address) == b"x"
    (ground.root / "a").rename(ground.root / "moved")
    (ground.root / "a").symlink_to(ground.sibling)
    (ground.sibling / "x").write_text("secret")
    with pytest.raises(Invalid):
        ground.blocks.get(address)


def test_a_link_to_a_folder_around_it_is_refused(ground: Ground) -> None:
    (ground.root / "a" / "up").symlink_to(ground.root)
    with pytest.raises(Invalid, match="a folder that contains it"):
        ground.blocks.list(f"local://{ground.root}/", "", 100)


def test_the_store_itself_is_never_imported(ground: Ground, tmp_path: Path) -> None:
    (ground.store / "signing-key").write_text("secret")
    ground.blocks.put("local://lake/a", [b"x"])
    ground.blocks = ground.opened(tmp_path.resolve())
    refused(ground, str(ground.store / "signing-key"))
    refused(ground, str(ground.store / "blocks" / "lake" / "a%"))
    (ground.root / "in").symlink_to(ground.store)
    refused(ground, str(ground.root / "in" / "signing-key"))
    with pytest.raises(Invalid, match="inside the store"):
        ground.blocks.list(f"local://{tmp_path.resolve()}/", "", 100)


def test_a_root_that_is_a_link_serves_what_it_leads_to(ground: Ground, tmp_path: Path) -> None:
    alias = tmp_path.resolve() / "alias"
    alias.symlink_to(ground.root)
    ground.blocks = ground.opened(alias)
    assert content(ground.blocks, f"local://{alias}/a/x") == b"x"
    with pytest.raises(Invalid):
        ground.blocks.get(f"local://{ground.root}/a/x")


def test_what_is_no_file_is_listed_with_its_problem(ground: Ground) -> None:
    """Each name once, however short the pages are."""
    folder = ground.root / "odd"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    (folder / "to-pipe").symlink_to("pipe")
    (folder / "to-nothing-outside").symlink_to("/nonexistent/x")
    (folder / "back\\slash").write_text("x")
    (folder / "file").write_text("x")
    os.mknod(folder / "socket", stat.S_IFSOCK | 0o600)  # a path of any length
    Path(os.fsdecode(os.fsencode(folder) + b"/latin-\xe9")).write_text("x")
    after, problems = "", dict[str, str]()
    while (page := ground.blocks.list(f"local://{folder}/", after, 1)).lines:
        (line,) = page.lines
        after = line.address
        assert after not in problems
        problems[after.rpartition("/")[2]] = line.problem
    nothing = "it is a link that leads nowhere"
    assert problems == {
        "back\\slash": "",
        "file": "",
        "latin-\udce9": "",
        **dict.fromkeys(("dangling", "loop", "to-nothing-outside"), nothing),
        **dict.fromkeys(("pipe", "socket", "to-pipe"), "it is neither a file nor a folder"),
    }


def test_a_folder_that_vanishes_or_cannot_be_read_ends_the_list(ground: Ground) -> None:
    """Pages of one walk: a thousand names keep it."""
    (ground.root / "z").mkdir()
    for number in range(1_001):
        (ground.root / f"file-{number:04}").touch()
    prefix = f"local://{ground.root}/"
    first = ground.blocks.list(prefix, "", 10)
    (ground.root / "z").rmdir()
    with pytest.raises(NotFound, match=rf"address={prefix}z/"):
        ground.blocks.list(prefix, first.lines[-1].address, 10_000)
    ground.root.rename(ground.root.parent / "moved")
    with pytest.raises(NotFound, match="folder not found"):
        ground.blocks.list(prefix, "", 10)
