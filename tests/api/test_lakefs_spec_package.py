"""Every public method of the package `lakefs-spec`, unmodified, is called against `graveler serve`,
and the file system does what fsspec promises of one."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import fsspec
import lakefs
import lakefs_spec
import pytest
from lakefs.client import Client
from lakefs_spec import LakeFSFileSystem
from lakefs_spec.util import depaginate

from tests.api.public_methods import profiled, public
from tests.cli.service import KEY, SECRET, serving

ELSEWHERE: frozenset[str] = frozenset()
ROOT = "lakefs://lake/main"


@pytest.fixture
def fs(tmp_path: Path) -> Iterator[LakeFSFileSystem]:
    with serving(tmp_path / "store") as service:
        client = Client(host=service.url, username=KEY, password=SECRET)
        lakefs.Repository("lake", client).create("local://lake/x")
        made = LakeFSFileSystem(
            host=service.url, username=KEY, password=SECRET, skip_instance_cache=True
        )
        yield made


@pytest.mark.slow
def test_every_public_method_is_answered(fs: LakeFSFileSystem, tmp_path: Path) -> None:
    methods = public(lakefs_spec)
    with profiled() as seen, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        _files(fs)
        _copies(fs, tmp_path)
        _listings(fs)
        _transactions(fs)
        _refusals(fs)
    called = {name for name, code in methods.items() if code in seen}
    assert sorted(set(methods) - called) == sorted(ELSEWHERE)


def _files(fs: LakeFSFileSystem) -> None:
    with fs.open(f"{ROOT}/a.txt", "wb", metadata={"k": "v"}) as file:
        assert file.write(b"one\ntwo\n") == 8
    with fs.open(f"{ROOT}/a.txt", "rb") as file:
        assert file.readline() == b"one\n"
        assert list(file) == [b"two\n"]
        file.seek(1)
        assert file.read(2) == b"ne"
    with fs.open(f"{ROOT}/a.txt", "r") as file:
        assert file.read() == "one\ntwo\n"
    assert fs.cat_file(f"{ROOT}/a.txt", 4, 7) == b"two"
    assert fs.tail(f"{ROOT}/a.txt", 4) == b"two\n"
    assert fs.head(f"{ROOT}/a.txt", 3) == b"one"
    fs.touch(f"{ROOT}/empty")
    assert fs.size(f"{ROOT}/empty") == 0
    fs.pipe({f"{ROOT}/p/1": b"1", f"{ROOT}/p/2": b"22"})
    assert fs.cat(f"{ROOT}/p/*") == {"lake/main/p/1": b"1", "lake/main/p/2": b"22"}
    with pytest.raises(FileExistsError), fs.open(f"{ROOT}/a.txt", "xb") as file:
        file.write(b"again")
    assert fs.created(f"{ROOT}/a.txt") == fs.modified(f"{ROOT}/a.txt")
    with fsspec.open(f"{ROOT}/a.txt", "rb", **fs.storage_options) as file:
        assert file.read(3) == b"one"


def _copies(fs: LakeFSFileSystem, folder: Path) -> None:
    (folder / "up").mkdir()
    (folder / "up" / "x").write_bytes(b"x" * 10_000)
    (folder / "up" / "y").write_bytes(b"y")
    fs.put_file(str(folder / "up" / "y"), f"{ROOT}/y")
    fs.put(str(folder / "up") + "/", f"{ROOT}/up/", recursive=True)
    fs.put_file(str(folder / "up" / "y"), f"{ROOT}/y", precheck=True)  # by its checksum
    assert fs.checksum(f"{ROOT}/y") == "415290769594460e2e485922904f345d"
    fs.get_file(f"{ROOT}/up/x", str(folder / "x"))
    fs.get_file(f"{ROOT}/up/x", str(folder / "x"), precheck=True)
    assert (folder / "x").read_bytes() == b"x" * 10_000
    fs.get(f"{ROOT}/up/", str(folder / "down") + "/", recursive=True)
    assert sorted(each.name for each in (folder / "down").iterdir()) == ["x", "y"]
    fs.cp_file(f"{ROOT}/y", f"{ROOT}/z")
    fs.mv(f"{ROOT}/z", f"{ROOT}/moved")
    assert not fs.exists(f"{ROOT}/z") and fs.cat(f"{ROOT}/moved") == b"y"


def _listings(fs: LakeFSFileSystem) -> None:
    assert fs.exists(f"{ROOT}/up") and not fs.exists(f"{ROOT}/none")
    assert fs.isdir(f"{ROOT}/up") and fs.isfile(f"{ROOT}/up/x")
    assert fs.info(f"{ROOT}/up/x")["size"] == 10_000
    assert fs.ls(f"{ROOT}/up/", detail=False) == ["lake/main/up/x", "lake/main/up/y"]
    assert fs.ls(f"{ROOT}/up/", detail=False) == ["lake/main/up/x", "lake/main/up/y"]  # cached
    assert fs.du(f"{ROOT}/up/") == 10_001
    assert fs.glob(f"{ROOT}/up/*") == ["lake/main/up/x", "lake/main/up/y"]
    walked = {root.rstrip("/"): sorted(files) for root, _, files in fs.walk(f"{ROOT}/up/")}
    assert walked == {"lake/main/up": ["x", "y"]}
    api = fs.client.sdk_client.objects_api.list_objects
    pages = [each.path for each in depaginate(api, "lake", "main", amount=1, prefix="up/")]
    assert pages == ["up/x", "up/y"]
    fs.rm_file(f"{ROOT}/moved")
    fs.rm(f"{ROOT}/up", recursive=True)
    assert not fs.exists(f"{ROOT}/up/x")
    lakefs.Branch("lake", "main", fs.client).commit("all of it")


def _transactions(fs: LakeFSFileSystem) -> None:
    with fs.transaction("lake", "main") as transaction:
        branch = transaction.branch.id
        fs.pipe(f"lakefs://lake/{branch}/t", b"t")
        made = transaction.commit("from a transaction", {"k": "v"})
        assert transaction.rev_parse(made).metadata == {"k": "v"}
        transaction.tag(made, "v1")
    assert fs.cat(f"{ROOT}/t") == b"t" and fs.cat("lakefs://lake/v1/t") == b"t"
    assert not [each.id for each in lakefs.Repository("lake", fs.client).branches()
                if each.id.startswith("transaction-")]  # fmt: skip
    with fs.transaction("lake", "main", automerge=False) as transaction:
        fs.pipe(f"lakefs://lake/{transaction.branch.id}/u", b"u")
        transaction.commit("merged by hand")
        merged = transaction.merge(transaction.branch, "main")
        assert fs.exists(f"{ROOT}/u")
        transaction.revert("main", merged.id)
    assert not fs.exists(f"{ROOT}/u")
    with (
        pytest.raises(RuntimeError, match="on purpose"),
        pytest.warns(match="uncommitted"),
        fs.transaction("lake", "main", delete="always") as transaction,
    ):
        fs.pipe(f"lakefs://lake/{transaction.branch.id}/never", b"x")
        raise RuntimeError("on purpose")
    assert not fs.exists(f"{ROOT}/never")


def _refusals(fs: LakeFSFileSystem) -> None:
    """Errors are those that Python has for files."""
    for call in (fs.cat_file, fs.info):
        with pytest.raises(FileNotFoundError):
            call(f"{ROOT}/none")
    with pytest.raises(FileNotFoundError):
        fs.rm("lakefs://lake/nowhere/a", recursive=True)
    nobody = LakeFSFileSystem(host=fs.client.config.host, username="nobody", password="x" * 40)
    with pytest.raises(PermissionError):
        nobody.cat_file(f"{ROOT}/t")
