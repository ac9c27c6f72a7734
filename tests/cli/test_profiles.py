"""Which server and which credentials a command uses, and how `login` keeps them."""

import io
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from graveler.core.errors import Invalid, NotFound, Unauthenticated, Unavailable, UsageMistake
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE
from graveler.lake import profiles
from graveler.lake.admin import Admin
from graveler.lake.profiles import Profile, Profiles, resolve
from tests.api.serving import ADMINISTRATOR, Served, served
from tests.cli.commands import Client, terminal

KEY, SECRET = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
LAKECTL = """
credentials:
    access_key_id: FILEKEY
    secret_access_key: filesecret
server:
    endpoint_url: http://file.example/api/v1
local:
    skip_non_regular_files: true
"""
ENV = {
    URL_VARIABLE: "http://env.example",
    KEY_VARIABLE: "ENVKEY",
    SECRET_VARIABLE: "envsecret",
}


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}


def known(variables: dict[str, str]) -> None:
    a = Profile("a", "http://a.example", "AKEY", "asecret", "lake")
    b = Profile("b", "https://b.example", "BKEY", "bsecret")
    profiles.write(Profiles("a", {"a": a, "b": b}), variables)


def which(variables: dict[str, str], secret: str = "", **flags: object) -> tuple[str, str, str]:
    profile = resolve(flags, variables, io.StringIO(secret))
    return profile.server, profile.access_key_id, profile.secret_access_key


def test_nothing_is_configured(variables: dict[str, str]) -> None:
    profile = resolve({}, variables, io.StringIO())
    assert profile == Profile()
    with pytest.raises(UsageMistake, match="no server") as failed:
        profile.check_whole()
    assert failed.value.fields["remedy"].startswith("graveler login URL")


def test_the_first_source_decides(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".lakectl.yaml").write_text(LAKECTL)
    assert which(variables) == ("http://file.example/api/v1", "FILEKEY", "filesecret")
    known(variables)
    assert which(variables) == ("http://a.example", "AKEY", "asecret")
    assert which(variables | ENV) == ("http://env.example", "ENVKEY", "envsecret")
    named = variables | ENV | {profiles.PROFILE_VARIABLE: "b"}
    assert which(named) == ("https://b.example", "BKEY", "bsecret")
    assert which(named, profile="a")[1] == "AKEY"


def test_variables_replace_single_fields_of_the_file(
    variables: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / ".lakectl.yaml").write_text(LAKECTL)
    known(variables)
    url = {URL_VARIABLE: "http://env.example"}
    assert which(variables | url) == ("http://env.example", "FILEKEY", "filesecret")


def test_another_file_of_lakectl(variables: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(LAKECTL.replace("FILEKEY", "OTHER"))
    known(variables)
    assert which(variables, config=str(other))[1] == "OTHER"
    (tmp_path / "config/graveler/config.toml").unlink()
    assert which(variables | {profiles.FILE_VARIABLE: str(other)})[1] == "OTHER"
    with pytest.raises(NotFound, match="configuration file not found"):
        which(variables, config=str(tmp_path / "missing.yaml"))


@pytest.mark.parametrize("text", ["", "[]", "credentials: 1\nserver: [a]", "server: {}"])
def test_a_file_without_the_fields_has_no_server(
    variables: dict[str, str], tmp_path: Path, text: str
) -> None:
    (tmp_path / ".lakectl.yaml").write_text(text)
    assert which(variables) == ("", "", "")


def test_a_file_that_is_no_yaml_is_named(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".lakectl.yaml").write_text("a: [")
    with pytest.raises(Invalid, match=r"\.lakectl\.yaml"):
        which(variables)


@pytest.mark.parametrize(
    ("server", "key"),
    [
        ("http://a.example/api/v1", "AKEY"),
        ("http://a.example:80", "AKEY"),
        ("https://a.example", ""),
        ("http://a.example:81", ""),
        ("http://evil.example", ""),
        ("http://[", ""),
    ],
)
def test_no_secret_goes_to_another_server(variables: dict[str, str], server: str, key: str) -> None:
    known(variables)
    profile = resolve({"server": server}, variables, io.StringIO())
    assert (profile.server, profile.access_key_id) == (server, key)
    assert bool(profile.secret_access_key) == bool(key)
    if not key:
        with pytest.raises((Unauthenticated, UsageMistake), match=r"no credentials|URL invalid"):
            profile.check_whole()


def test_credentials_on_the_command_line(variables: dict[str, str]) -> None:
    known(variables)
    new = {"access_key_id": "NEW", "secret_stdin": True}
    assert which(variables, "s3cret\n", **new) == ("http://a.example", "NEW", "s3cret")
    with pytest.raises(UsageMistake, match="needs --access-key-id"):
        which(variables, "s3cret\n", secret_stdin=True)
    with pytest.raises(UsageMistake, match="give --secret-stdin"):
        which(variables, access_key_id="NEW")


def test_the_files(variables: dict[str, str], tmp_path: Path) -> None:
    assert profiles.read(variables) == Profiles()
    known(variables)
    folder = tmp_path / "config" / "graveler"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "credentials.toml").stat().st_mode & 0o777 == 0o600
    assert "secret" not in (folder / "config.toml").read_text()
    (folder / "credentials.toml").chmod(0o644)
    known(variables)  # narrowed by each write
    assert (folder / "credentials.toml").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["config.toml", "credentials.toml"]
    odd = Profile("a", 'http://x/"\\\n', "é\x7f", "\u2028'\"", 'r"]', "profile a")
    profiles.write(Profiles("a", {"a": odd}), variables)
    assert profiles.read(variables) == Profiles("a", {"a": odd})
    assert "asecret" not in repr(profiles.read(variables))


def test_the_files_are_for_their_owner_alone(variables: dict[str, str], tmp_path: Path) -> None:
    """With the widest umask, and a link where a file is prepared."""
    folder, victim = tmp_path / "config/graveler", tmp_path / "victim"
    before = os.umask(0)
    try:
        known(variables)
        victim.write_text("whole")
        (folder / f"credentials.toml.{os.getpid()}.new").symlink_to(victim)
        known(variables)
    finally:
        os.umask(before)
    assert victim.read_text() == "whole" and not (folder / "credentials.toml").is_symlink()
    places = (folder.parent, folder, folder / "credentials.toml", folder / "config.toml")
    assert [place.stat().st_mode & 0o777 for place in places] == [0o700, 0o700, 0o600, 0o600]
    (folder / "config.toml").write_text("[")
    with pytest.raises(Invalid, match=r"not TOML: .*config\.toml"):
        profiles.read(variables)
    (folder / "config.toml").write_bytes(bytes(2 << 20))
    with pytest.raises(Invalid, match="too large"):
        profiles.read(variables)


def test_names_and_values_that_toml_writes_otherwise(variables: dict[str, str]) -> None:
    odd = {name: Profile(name, "http://x", source=f"profile {name}") for name in ("my prod", 'a"b')}
    smile = Profile("a", "http://x", "K", "s", "\U0001f600\x7f", "profile a")
    profiles.write(Profiles("my prod", {**odd, "a": smile}), variables)
    assert profiles.read(variables) == Profiles("my prod", {**odd, "a": smile})


def test_a_value_that_no_file_can_keep_changes_nothing(variables: dict[str, str]) -> None:
    known(variables)
    before = profiles.read(variables)
    with pytest.raises(Invalid, match="cannot be kept"):
        profiles.write(Profiles("a", {"a": Profile("a", repository="\udc80")}), variables)
    assert profiles.read(variables) == before


def test_a_folder_that_cannot_be_made(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file")
    with pytest.raises(Unavailable, match="cannot be written"):
        known(variables)


# ---- login, logout, config -----------------------------------------------------------------------


def test_login_tries_and_keeps(user: Client, live: Served) -> None:
    url = live.client.url
    arguments = ("login", url, "--access-key-id", KEY, "--secret-stdin")
    wrong = user.run(*arguments, input=b"not-the-secret-but-long-enough\n")
    assert wrong.code == 4 and not (user.home / "config").exists()
    assert user.run(*arguments, input=SECRET.encode()).code == 0
    assert user.run(*arguments, "--profile", "two", input=SECRET.encode()).code == 0
    me = user.run("whoami", "--json")
    assert '"source": "profile two"' in me.out and SECRET not in me.out
    assert user.run("config", "use", "default").code == 0
    assert (
        user.run("config", "list").out == f"default\t{url}\t\t{KEY}\tyes\ntwo\t{url}\t\t{KEY}\tno\n"
    )
    assert user.run("logout", "--yes").code == 0
    assert user.run("whoami").code == 2
    assert user.run("whoami", "--profile", "two").code == 0
    assert user.run("logout", "--profile", "default").code == 3
    assert user.run("config", "use", "default").code == 3
    assert user.run("login", url, "--profile", "a b").code == 2
    assert user.run("login", url).code == 2  # nobody can be asked


def test_login_asks_and_hides_the_secret(user: Client, live: Served) -> None:
    shown = terminal(user, "login")
    for question, answer in (
        ("Server URL: ", live.client.url),
        ("Access key id: ", KEY),
        ("Secret access key: ", SECRET),
    ):
        shown.until(question)
        shown.type(answer + "\n")
    assert shown.end() == 0
    assert "signed in to" in shown.text and SECRET not in shown.text


def test_login_with_the_credentials_of_a_store(user: Client, live: Served, tmp_path: Path) -> None:
    values = (live.client.url, KEY, SECRET)
    names = (
        URL_VARIABLE,
        KEY_VARIABLE,
        SECRET_VARIABLE,
    )
    lines = [f"export {name}={value}\n" for name, value in zip(names, values, strict=True)]
    (tmp_path / "credentials").write_text("".join(lines))
    assert user.run("login", "--store", str(tmp_path)).code == 0
    assert user.run("whoami").code == 0
    assert user.run("login", "--store", str(tmp_path / "missing")).code == 3


def test_the_variable_names_the_profile_that_is_changed(user: Client, live: Served) -> None:
    url = live.client.url
    user.know(url)
    login = ("login", url, "--access-key-id", KEY, "--secret-stdin")
    assert user.run(*login, input=SECRET.encode(), GRAVELER_PROFILE="two").code == 0
    assert user.run("config", "use", "test").code == 0
    assert user.run("config", "set", "repository", "lake", GRAVELER_PROFILE="two").code == 0
    known = profiles.read(user.variables)
    assert known.by_name.keys() == {"test", "two"} and known.default == "test"
    assert [known.by_name[name].repository for name in ("test", "two")] == ["", "lake"]
    given = user.run(
        "config", "set", "repository", "sea", "--profile", "test", GRAVELER_PROFILE="two"
    )
    assert given.code == 0 and profiles.read(user.variables).by_name["test"].repository == "sea"
    assert user.run("logout", "--yes", GRAVELER_PROFILE="two").code == 0
    assert profiles.read(user.variables).by_name.keys() == {"test"}
    assert user.run("login", url, GRAVELER_PROFILE="a b").code == 2


def key_of(text: str) -> tuple[str, str]:
    """The key and the secret that a command printed."""
    fields = dict(line.split(": ", 1) for line in text.splitlines())
    return fields["access_key_id"], fields["secret_access_key"]


def test_a_set_up_loses_no_key(user: Client, tmp_path: Path) -> None:
    """The configuration cannot be read, then not be written."""
    config = user.home / "config/graveler"
    with served(tmp_path / "store", administrator=False) as live:
        token = live.service.auth.setup_token.encode()
        config.mkdir(parents=True)
        (config / "config.toml").write_text("[")
        arguments = ("login", live.client.url, "--setup")
        assert user.run(*arguments, input=token).code == 1  # before the request
        (config / "config.toml").unlink()
        config.rmdir()
        config.write_text("a file")
        failed = user.run(*arguments, input=token)
        assert failed.code == 6 and "configuration cannot be written" in failed.err
        key, secret = key_of(failed.out)
        config.unlink()
        login = ("login", live.client.url, "--access-key-id", key, "--secret-stdin")
        assert user.run(*login, input=secret.encode()).code == 0


def test_an_interrupted_set_up_shows_the_key(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(admin: object) -> None:
        raise KeyboardInterrupt

    with served(tmp_path / "store", administrator=False) as live:
        token = live.service.auth.setup_token.encode()
        with monkeypatch.context() as patch:
            patch.setattr(Admin, "me", interrupt)
            ended = user.run("login", live.client.url, "--setup", input=token)
        assert ended.code == 130
        key, secret = key_of(ended.out)
        login = ("login", live.client.url, "--access-key-id", key, "--secret-stdin")
        assert user.run(*login, input=secret.encode()).code == 0


def test_the_current_repository(user: Client, live: Served) -> None:
    user.know(live.client.url)
    name = live.fresh_repository()
    assert user.run("branch", "show", ":main").code == 2
    assert user.run("config", "set", "repository", name).code == 0
    assert user.run("branch", "show", ":main").code == 0
    assert f"repository:     {name}" in user.run("config", "show").out
    assert user.run("config", "set", "server", "http://other.example", "--yes").code == 0
    assert "has secret:     no" in user.run("config", "show").out
    assert user.run("config", "set", "color", "red").code == 2


def test_a_setting_is_printed(user: Client, live: Served) -> None:
    user.know(live.client.url)
    assert user.line("config get server").out == f"{live.client.url}\n"
    assert user.line("config get repository").out == "\n"
    user.line("config set repository lake")
    assert user.line("config get repository --json").out.split() == [
        *("{", '"graveler":', "{", '"repository":', '"lake"', "}", "}"),
    ]


# ---- what fails, and what to do then -------------------------------------------------------------


def test_credentials_that_login_cannot_use_name_a_way_out(user: Client, live: Served) -> None:
    url = live.client.url
    arguments = ("login", url, "--access-key-id", KEY, "--secret-stdin")
    wrong = user.run(*arguments, input=b"not-the-secret-but-long-enough\n")
    assert wrong.code == 4
    said, hint = wrong.err.splitlines()
    assert said == f"graveler: {url} does not accept this access key id with this secret"
    assert "graveler credentials reset --store DIR" in hint and "whoami" not in hint
    token = user.run("login", url, "--token-stdin", input=b"x.y.z\n")
    assert token.code == 4 and "does not accept this token" in token.err
    known = {URL_VARIABLE: url, KEY_VARIABLE: KEY, SECRET_VARIABLE: "not-the-secret-of-anybody"}
    assert "try: unset the variables LAKECTL_" in user.run("whoami", **known).err
    profiles.write(Profiles("a", {"a": Profile("a", url, KEY, "wrong")}), user.variables)
    assert f"try: graveler login {url}\n" in user.run("whoami").err


def test_a_set_up_is_refused_in_words_of_the_command(user: Client, tmp_path: Path) -> None:
    with served(tmp_path / "store", administrator=False) as live:
        url = live.client.url
        wrong = user.run("login", url, "--setup", input=b"another\n")
        assert wrong.code == 4
        assert wrong.err == (
            "graveler: setup token missing or wrong\n"
            f"try: graveler login {url} --setup, with the token that `graveler serve` printed at "
            "its last start\n"
        )


def test_a_server_that_is_set_up_asks_for_no_token(user: Client, live: Served) -> None:
    url = live.client.url
    shown = terminal(user, "login", url, "--setup")
    assert shown.end() == 5
    assert f"{url} has an administrator already" in shown.text
    assert f"try: graveler login {url}; " in shown.text and "Setup token" not in shown.text


def test_a_server_that_does_not_answer_is_named_before_a_key_is_typed(user: Client) -> None:
    shown = terminal(user, "login", "http://127.0.0.1:1")
    assert shown.end() == 6
    assert "does not answer" in shown.text and "Access key id" not in shown.text
    shown = terminal(user, "login", "127.0.0.1:1")
    assert shown.end() == 2
    assert "must look like https://host" in shown.text and "Access key id" not in shown.text


def test_variables_without_a_server_say_that_they_hide_the_profile(
    user: Client, live: Served
) -> None:
    user.know(live.client.url)
    keys = {KEY_VARIABLE: "ENVKEY", SECRET_VARIABLE: "envsecret"}
    said = user.run("repo", "list", **keys)
    assert said.code == 2
    assert "variables LAKECTL_CREDENTIALS_… are set, so no profile is used" in said.err
    assert f"try: set {URL_VARIABLE} too, or unset the variables" in said.err
    found = user.run("doctor", "--json", **keys)
    assert found.code == 1 and "so no profile is used" in found.out
    assert f"set {URL_VARIABLE} too" in found.out


# ---- sessions, and the keyring of the system -----------------------------------------------------


def _token(live: Served) -> str:
    keys = ADMINISTRATOR
    body = {"access_key_id": keys.access_key_id, "secret_access_key": keys.secret_access_key}
    return str(live.client.send("POST", "/auth/login", body=body).json["token"])


def test_a_session_token_signs_in(user: Client, live: Served) -> None:
    token, url = _token(live), live.client.url
    variables = {URL_VARIABLE: url, TOKEN_VARIABLE: token}
    assert user.run("whoami", "--json", **variables).out.count('"administrator"') == 1
    wrong = user.run("whoami", **(variables | {TOKEN_VARIABLE: "x.y.z"}))
    assert wrong.code == 4 and token not in wrong.err
    assert user.run("login", url, "--token-stdin", input=f"{token}\n".encode()).code == 0
    assert user.run("whoami").code == 0
    assert user.run("config", "show", "--json").out.count(token) == 0
    assert (user.home / "config/graveler/credentials.toml").read_text().count(token) == 1
    assert user.run("login", url, "--token-stdin").code == 2


def test_a_token_of_lakectls_file_counts_if_no_key_is_nearer(
    variables: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("server: {endpoint_url: 'http://a'}\ncredentials: {session_token: t}\n")
    flags = {"config": str(file)}
    assert profiles.resolve(flags, variables, io.StringIO()).session_token == "t"
    keys = {KEY_VARIABLE: "k", SECRET_VARIABLE: "s"}
    chosen = profiles.resolve(flags, variables | keys, io.StringIO())
    assert (chosen.access_key_id, chosen.session_token) == ("k", "")


class Keyring(ModuleType):
    """The package `keyring`, with a keyring in memory."""

    def __init__(self, priority: float = 1) -> None:
        super().__init__("keyring")
        self.priority = priority
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_keyring(self) -> "Keyring":
        return self

    def set_password(self, service: str, name: str, secret: str) -> None:
        self._check()
        self.kept[service, name] = secret

    def get_password(self, service: str, name: str) -> str | None:
        self._check()
        return self.kept.get((service, name))

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]

    def _check(self) -> None:
        if self.is_locked:
            raise RuntimeError("locked")


def _login(user: Client, live: Served) -> None:
    keys = ADMINISTRATOR
    words = ("login", live.client.url, "--access-key-id", keys.access_key_id, "--secret-stdin")
    result = user.run(*words, input=f"{keys.secret_access_key}\n".encode())
    assert result.code == 0, result


def test_secrets_are_in_the_keyring_if_there_is_one(
    user: Client, live: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = Keyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    _login(user, live)
    text = (user.home / "config/graveler/credentials.toml").read_text()
    secret = ADMINISTRATOR.secret_access_key
    assert "keyring = true" in text and secret not in text
    assert secret in keyring.kept["graveler", "default"]
    assert user.run("whoami").code == 0
    assert user.run("config", "set", "repository", "lake").code == 0  # writes the file again
    assert user.run("whoami").code == 0
    keyring.is_locked = True
    locked = user.run("whoami")
    assert locked.code == 6 and "keyring cannot be read" in locked.err
    keyring.is_locked = False
    assert user.run("logout", "--yes").code == 0 and not keyring.kept


def test_secrets_stay_in_the_file_without_a_keyring(
    user: Client, live: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for keyring, variables in ((Keyring(0), {}), (Keyring(), {"GRAVELER_KEYRING": "off"})):
        monkeypatch.setitem(sys.modules, "keyring", keyring)
        user.variables |= variables
        _login(user, live)
        text = (user.home / "config/graveler/credentials.toml").read_text()
        assert ADMINISTRATOR.secret_access_key in text and not keyring.kept


def test_a_profile_that_moves_loses_its_secret_in_the_keyring(
    user: Client, live: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = Keyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    _login(user, live)
    assert user.run("config", "set", "server", "http://127.0.0.1:1", "--yes").code == 0
    assert not keyring.kept and user.run("whoami").code == 4
