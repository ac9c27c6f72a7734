"""`graveler credentials reset`, and the file that keeps credentials."""

import subprocess
import sys
from pathlib import Path

import pytest

from graveler.assembly import open_embedded
from graveler.assembly.embedded import rotate_key
from graveler.auth import credentials
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.cli.main import main
from graveler.cli.support import administrator
from graveler.cli.support.administrator import SavedCredential
from graveler.core import wire
from graveler.core.errors import Conflict, Invalid
from graveler.core.records import ABSENT
from tests.auth.test_accounts import basic
from tests.cli.service import WAIT_SECONDS, environment

OLD = NewCredential("OLDKEY", "old-secret-of-at-least-32-characters")
RESET = ("credentials", "reset", "--yes")
URL = "http://127.0.0.1:8000"


def _with_administrator(folder: Path) -> None:
    store = open_embedded(folder)
    assert administrator.ensure(store, OLD) is False
    store.close()


def _accepted(folder: Path, credential: NewCredential) -> bool:
    store = open_embedded(folder)
    try:
        return administrator.matches(store, credential)
    finally:
        store.close()


def _printed(text: str) -> NewCredential:
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return NewCredential(lines["access_key_id"], lines["secret_access_key"])


def test_the_new_ones_are_printed_and_the_old_ones_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _with_administrator(tmp_path)
    assert _accepted(tmp_path, OLD)
    assert main((*RESET, "--store", str(tmp_path))) == 0
    assert _accepted(tmp_path, _printed(capsys.readouterr().out))
    assert not _accepted(tmp_path, OLD)
    assert administrator.read(tmp_path) is ABSENT


def test_a_file_that_keeps_the_old_ones_is_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _with_administrator(tmp_path)
    path = administrator.write(tmp_path, SavedCredential(URL, OLD))
    assert administrator.read(tmp_path) == SavedCredential(URL, OLD)
    assert main((*RESET, "--store", str(tmp_path))) == 0
    assert administrator.read(tmp_path) == SavedCredential(URL, _printed(capsys.readouterr().out))
    assert path.stat().st_mode & 0o777 == 0o600


def test_save_makes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _with_administrator(tmp_path)
    assert main((*RESET, "--store", str(tmp_path), "--save")) == 0
    assert administrator.read(tmp_path) == SavedCredential("", _printed(capsys.readouterr().out))


def test_before_the_set_up_there_is_nothing_to_reset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_embedded(tmp_path).close()
    assert main((*RESET, "--store", str(tmp_path))) == 3
    assert "set the service up first" in capsys.readouterr().err


def test_kept_credentials_are_those_of_the_administrator(tmp_path: Path) -> None:
    store = open_embedded(tmp_path)
    first = administrator.kept(store, tmp_path, URL, ABSENT)
    assert administrator.kept(store, tmp_path, URL, ABSENT) == first
    assert administrator.read(tmp_path) == SavedCredential(URL, first)
    assert administrator.kept(store, tmp_path, URL, OLD) == OLD  # given ones win
    (tmp_path / administrator.FILE).unlink()
    with pytest.raises(Conflict, match="credentials reset"):
        administrator.kept(store, tmp_path, URL, ABSENT)
    administrator.write(tmp_path, SavedCredential(URL, first))  # those of another day
    with pytest.raises(Conflict, match="credentials reset"):
        administrator.kept(store, tmp_path, URL, ABSENT)
    store.close()


def test_a_crash_between_file_and_account_loses_nothing(tmp_path: Path) -> None:
    store = open_embedded(tmp_path)
    administrator.write(tmp_path, SavedCredential(URL, OLD))
    assert administrator.kept(store, tmp_path, URL, ABSENT) == OLD
    store.close()


@pytest.mark.parametrize("content", [b"hello\n", b"export A='open\n", b"export A=\xff\n"])
def test_a_file_of_something_else_is_refused(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    _with_administrator(tmp_path)
    (tmp_path / administrator.FILE).write_bytes(content)
    with pytest.raises(Invalid, match="delete it"):
        administrator.read(tmp_path)
    assert main((*RESET, "--store", str(tmp_path))) == 1
    assert "delete it and reset them" in capsys.readouterr().err
    assert _accepted(tmp_path, OLD)


def test_new_keys_end_no_credentials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _with_administrator(tmp_path)
    for _ in range(2):
        assert main(("credentials", "rotate", "--store", str(tmp_path))) == 0
        assert capsys.readouterr().out == "access keys encrypted anew: 1\n"
    assert _accepted(tmp_path, OLD)
    store = open_embedded(tmp_path)
    first = administrator.keeper(store).sessions.current()
    store.close()
    assert main(("credentials", "rotate", "--store", str(tmp_path), "--end-sessions", "--yes")) == 0
    store = open_embedded(tmp_path)
    assert administrator.keeper(store).sessions.find(first.id) is ABSENT
    store.close()


def _rotate_all(folder: Path) -> None:
    assert main(("credentials", "rotate", "--store", str(folder), "--store-key")) == 0


def _key(folder: Path) -> bytes:
    return (folder / "key").read_bytes()


def test_a_new_key_of_the_store_ends_no_credentials_and_no_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _with_administrator(tmp_path)
    store = open_embedded(tmp_path)
    auth = Authenticator(administrator.keeper(store))
    token = auth.login(OLD.access_key_id, OLD.secret_access_key).token.encode()
    store.close()
    keys = [_key(tmp_path)]
    for _ in range(3):
        _rotate_all(tmp_path)
        assert capsys.readouterr().out == "access keys encrypted anew: 1\n"
        keys.append(_key(tmp_path))
        assert keys[-1][32:] == keys[-2][:32] and len(set(keys)) == len(keys)
    store = open_embedded(tmp_path)
    assert administrator.matches(store, OLD)
    auth = Authenticator(administrator.keeper(store))
    assert auth.identify(b"Bearer " + token, "").user == "admin"
    store.close()
    (tmp_path / "key").write_bytes(_key(tmp_path)[:32])  # nothing needs the key before any more
    assert _accepted(tmp_path, OLD)


def test_a_rotation_that_was_killed_after_its_key_was_replaced_may_be_repeated(
    tmp_path: Path,
) -> None:
    _with_administrator(tmp_path)
    for _ in range(2):
        rotate_key(tmp_path)  # and no more
        assert _accepted(tmp_path, OLD)
        _rotate_all(tmp_path)
        assert _accepted(tmp_path, OLD)


def test_a_key_whose_secret_is_only_a_hash_is_accepted_after_one_rotation(tmp_path: Path) -> None:
    _with_administrator(tmp_path)
    store = open_embedded(tmp_path)
    place = credentials.PARTITION, OLD.access_key_id.encode()
    row = store.ports.kv.get(*place)
    assert row is not ABSENT
    pairs = {name: text for name, text in wire.decode_pairs(row.value).items() if name != "sealed"}
    store.ports.kv.set(*place, wire.encode_pairs(pairs), store.ports.ids.stamp())
    store.close()
    _rotate_all(tmp_path)
    store = open_embedded(tmp_path)
    assert administrator.ensure(store, OLD) is False  # it is no other one
    keeper = administrator.keeper(store)
    auth = Authenticator(keeper)
    assert auth.identify(basic(OLD), "").user == "admin"  # which stores it anew
    store.close()
    (tmp_path / "key").write_bytes(_key(tmp_path)[:32])
    assert _accepted(tmp_path, OLD)


def test_the_key_of_a_stack_is_not_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("credentials", "rotate", "--stack", "lake", "--store-key")) == 1
    assert "Secrets Manager" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "extra", "command"),
    [
        ("cryptography", "cli,server", ["credentials", "rotate", "--stack", "lake"]),
        ("botocore", "aws,cli", ["credentials", "reset", "--stack", "lake", "--yes"]),
    ],
)
def test_a_missing_package_is_named_with_the_extras_that_the_command_needs(
    package: str, extra: str, command: list[str]
) -> None:
    """A process in which the package cannot be imported.  Nothing is asked of AWS."""
    code = (
        f"import sys; sys.modules[{package!r}] = None; "
        f"from graveler.cli.main import main; sys.exit(main({command!r}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(None) | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"graveler credentials: package {package} is not installed: "
        f"pip install 'graveler[{extra}]'\n"
    )
