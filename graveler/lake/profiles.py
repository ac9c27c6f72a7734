"""Which server a command talks to, and with which credentials.

The first source that applies decides, and URL, key and secret come from it together:

    1. `--profile`, else GRAVELER_PROFILE     a profile by name
    2. variables of lakectl, if one is set    LAKECTL_SERVER_ENDPOINT_URL, LAKECTL_CREDENTIALS_…
                                              over lakectl's file, field by field
       the server of the linked folder        invocation.py: a profile of this server
    3. the default profile                    config.toml
    4. lakectl's file                         `--config`, LAKECTL_CONFIG_FILE, ~/.lakectl.yaml

`--server` and `--access-key-id` with `--secret-stdin` override it.  A `--server` of another origin
than the source's gets none of its secrets.

    $XDG_CONFIG_HOME/graveler/
        config.toml         default = "NAME", [profile.NAME] server, repository
        credentials.toml    [profile.NAME] access_key_id, secret_access_key, session_token;
                            or keyring = true (keyring_store.py)

The second file has mode 0600 in a folder of mode 0700.  lakectl's file is read, never written.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO
from urllib.parse import urlsplit

from graveler.core import private_files
from graveler.core.errors import Invalid, NotFound, Unauthenticated, Unavailable, UsageMistake
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE
from graveler.lake import keyring_store

if TYPE_CHECKING:
    from graveler.lake.connections import Connections
    from graveler.lake.session import Session

PROFILE_VARIABLE: Final = "GRAVELER_PROFILE"
FILE_VARIABLE: Final = "LAKECTL_CONFIG_FILE"
DEFAULT: Final = "default"
OF_VARIABLES: Final = "variables of lakectl"  # a source
_OF_LAKECTL: Final = (URL_VARIABLE, KEY_VARIABLE, SECRET_VARIABLE, TOKEN_VARIABLE)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FILE_BYTES_MAX: Final = 1 << 20
_SECRETS: Final = ("secret_access_key", "session_token")


@dataclass(frozen=True, slots=True)
class Profile:
    """A server and credentials.  `source`: where they come from."""

    name: str = ""
    server: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    repository: str = ""  # the current one
    source: str = "nothing is configured"
    session_token: str = field(default="", repr=False)  # sent instead of the key
    in_keyring: bool = False  # its secrets are there, and not in the fields, until it is used
    other: str = ""  # the server of the source, if `--server` is another one: no secret goes there

    def check_whole(self) -> None:
        """Raises `UsageMistake` without a server, `Unauthenticated` without credentials."""
        self.check_server()
        if not self.session_token and not (self.access_key_id and self.secret_access_key):
            way = f"set {KEY_VARIABLE} and {SECRET_VARIABLE}"
            is_whole = self.source != OF_VARIABLES
            elsewhere = f": no login is kept for this URL; yours is for {self.other}"
            raise Unauthenticated(
                f"no credentials for {self.server}{elsewhere if self.other else ''}",
                remedy=f"graveler login {self.server}, or {way}" if is_whole else f"{way}, too",
            )

    def check_server(self) -> None:
        """Raises `UsageMistake` without a server, or if its URL is none."""
        if self.server:
            check_url(self.server)
            return
        if self.source == OF_VARIABLES:
            raise UsageMistake(
                "no server: variables LAKECTL_CREDENTIALS_… are set, so no profile is used",
                remedy=f"set {URL_VARIABLE} too, or unset the variables, or give --profile NAME",
            )
        raise UsageMistake(
            "no server",
            remedy="graveler login URL, or give --server URL, or set "
            f"{PROFILE_VARIABLE} or {URL_VARIABLE}",
        )

    def not_accepted(self) -> dict[str, str]:
        """The reason and the remedy if the server does not accept the credentials, for the fields
        of the error."""
        if self.session_token:
            rejected, remedy = (
                "this token",
                "another token: it is of another server, or has expired",
            )
        else:
            rejected = "this access key id with this secret"
            remedy = (
                "login again; a lost secret of the administrator: "
                "graveler credentials reset --store DIR, on the server"
            )
        return {"reason": f"{self.server} does not accept {rejected}", "remedy": remedy}

    def without_secrets(self) -> "Profile":
        """The same server and settings."""
        return replace(
            self, access_key_id="", secret_access_key="", session_token="", in_keyring=False
        )

    def whole(self) -> "Profile":
        """With the secrets that the keyring has.  Raises `Unavailable`."""
        if not self.in_keyring:
            return self
        secrets = keyring_store.load(self.name)
        secret, token = (secrets.get(name, "") for name in _SECRETS)
        return replace(self, secret_access_key=secret, session_token=token)


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles, and the name of the default one."""

    default: str = ""
    by_name: Mapping[str, Profile] = field(default_factory=dict)


# ---- which one -----------------------------------------------------------------------------------


def chosen_name(flags: Mapping[str, Any], variables: Mapping[str, str], default: str = "") -> str:
    """The name of the profile: `--profile`, else GRAVELER_PROFILE, else `default`."""
    return str(flags.get("profile", "")) or variables.get(PROFILE_VARIABLE, "") or default


def resolve(flags: Mapping[str, Any], variables: Mapping[str, str], stdin: TextIO) -> Profile:
    """The profile of one call.  Raises `NotFound` for a profile that does not exist, `Invalid` for
    a file that cannot be read as what it is, `UsageMistake`."""
    profile = _source(flags, variables)
    server = str(flags.get("server", ""))
    if server and profile.server and not same_origin(server, profile.server):
        profile = Profile(repository=profile.repository, source="--server", other=profile.server)
    if server:
        profile = replace(profile, server=server)
    key = str(flags.get("access_key_id", ""))
    if flags.get("secret_stdin"):
        if not key:
            raise UsageMistake("--secret-stdin needs --access-key-id")
        secret = stdin.readline().rstrip("\r\n")
        return replace(
            profile, access_key_id=key, secret_access_key=secret, session_token="", in_keyring=False
        )
    if key and key != profile.access_key_id:
        raise UsageMistake("--access-key-id needs the secret of this key: give --secret-stdin")
    return profile


def is_chosen(flags: Mapping[str, Any], variables: Mapping[str, str]) -> bool:
    """Whether options or variables say which server is meant."""
    names = (PROFILE_VARIABLE, *_OF_LAKECTL)
    return any(flags.get(name) for name in ("profile", "server", "config", "access_key_id")) or any(
        variables.get(name) for name in names
    )


def of_server(server: str, profile: Profile, variables: Mapping[str, str]) -> Profile:
    """`profile`, if it is of this server; else the only known one that is.  Raises
    `UsageMistake`."""
    if not server or same_origin(server, profile.server):
        return profile
    known = read(variables).by_name.values()
    matching = [each for each in known if same_origin(each.server, server)]
    if len(matching) != 1:
        raise UsageMistake(
            f"the folder is linked on {server}, not on {profile.server or 'a server'}: give "
            "--profile or --server"
        )
    return matching[0].whole()


def _source(flags: Mapping[str, Any], variables: Mapping[str, str]) -> Profile:
    name = chosen_name(flags, variables)
    if name:
        known = read(variables)
        if name not in known.by_name:
            raise NotFound(f"profile not found: {name}", remedy="graveler config list")
        return known.by_name[name].whole()
    if not flags.get("config") and not any(variables.get(each) for each in _OF_LAKECTL):
        known = read(variables)
        if known.default in known.by_name:
            return known.by_name[known.default].whole()
    return _lakectl(str(flags.get("config", "")), variables)


def _lakectl(file: str, variables: Mapping[str, str]) -> Profile:
    """What lakectl would use: its variables over its file."""
    url, key, secret, token = values = [variables.get(name, "") for name in _OF_LAKECTL]
    source = OF_VARIABLES
    if not (url and (token or (key and secret))) or file:
        path = lakectl_file(file, variables)
        if path is not None:
            known = _lakectl_values(path)
            # A key of the variables counts more than a token of the file.
            token = token or ("" if key else known[3])
            url, key, secret = url or known[0], key or known[1], secret or known[2]
            source = str(path)
        elif not any(values):
            return Profile()
    return Profile("", url, key, secret, source=source, session_token=token)


def lakectl_file(file: str, variables: Mapping[str, str]) -> Path | None:
    """lakectl's file; none if it does not exist.  Raises `NotFound` if it was named."""
    named = file or variables.get(FILE_VARIABLE, "")
    path = Path(named).expanduser() if named else _home(variables) / ".lakectl.yaml"
    if path.is_file():
        return path
    if named:
        raise NotFound(f"configuration file not found: {path}")
    return None


def lakectl_document(path: Path) -> Any:
    """What lakectl's file says.  Raises `Invalid`."""
    from graveler.hooks import yaml_text  # the owner of the YAML library

    try:
        return yaml_text.parse(_bytes(path))
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from error


def _lakectl_values(path: Path) -> list[str]:
    document = lakectl_document(path)
    server, keys = _section(document, "server"), _section(document, "credentials")
    names = ("access_key_id", "secret_access_key", "session_token")
    values = (server.get("endpoint_url"), *(keys.get(name) for name in names))
    return ["" if each is None else str(each) for each in values]


def _section(document: Any, name: str) -> Mapping[str, Any]:
    section = document.get(name) if isinstance(document, dict) else None
    return section if isinstance(section, dict) else {}


def same_origin(url: str, other: str) -> bool:
    """Whether two URLs lead to the same scheme, host and port."""
    return _origin(url) == _origin(other)


def _origin(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        standard = 443 if parts.scheme == "https" else 80
        return parts.scheme, parts.hostname or "", parts.port or standard
    except ValueError:
        return "", url, 0


def of_store(folder: Path) -> Profile | None:
    """What the file `credentials` in the folder of a store says, which a shell can source; None
    without a file.  Raises `Invalid`, `Unavailable`."""
    path = folder / "credentials"
    try:
        words = shlex.split(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"credentials cannot be read: {path=!s} {error.strerror}") from error
    except ValueError as error:  # no text, or an open quote
        reason = f"credentials file has no shell words: {error}: delete it and reset them"
        raise Invalid(f"{reason}: {path=!s}") from error
    pairs = dict(word.partition("=")[::2] for word in words if "=" in word)
    url, key, secret = (pairs.get(name, "") for name in _OF_LAKECTL[:3])
    return Profile("", url, key, secret, source=str(path))


# ---- our own files -------------------------------------------------------------------------------


def folder(variables: Mapping[str, str]) -> Path:
    """Where our files are."""
    known = variables.get("XDG_CONFIG_HOME", "")
    return (Path(known) if known.startswith("/") else _home(variables) / ".config") / "graveler"


def read(variables: Mapping[str, str]) -> Profiles:
    """All profiles; none without a file.  Raises `Invalid`."""
    place = folder(variables)
    config, secrets = _toml(place / "config.toml"), _toml(place / "credentials.toml")
    known, keys = _section(config, "profile"), _section(secrets, "profile")
    profiles = {}
    for name in known:
        fields, pair = _section(known, name), _section(keys, name)
        profiles[name] = Profile(
            name,
            str(fields.get("server", "")),
            str(pair.get("access_key_id", "")),
            str(pair.get("secret_access_key", "")),
            str(fields.get("repository", "")),
            f"profile {name}",
            str(pair.get("session_token", "")),
            pair.get("keyring") is True,
        )
    return Profiles(str(config.get("default", "")), profiles)


def write(profiles: Profiles, variables: Mapping[str, str]) -> Path:
    """Write both files, each atomically, and return the folder.  Raises `Unavailable`, and
    `Invalid` for a text that no file can keep; neither file is changed then."""
    place = folder(variables)
    config = [f"default = {_string(profiles.default)}\n"] if profiles.default else []
    secrets = []
    for name, profile in sorted(profiles.by_name.items()):
        fields = {"server": profile.server, "repository": profile.repository}
        config.append(_table(name, fields))
        if profile.access_key_id or profile.session_token or profile.in_keyring:
            secrets.append(_credentials(name, profile))
    texts = _checked("\n".join(config)), _checked("\n".join(secrets))
    try:
        private_files.make_folder(place)
        place.chmod(0o700)
        private_files.replace(place / "credentials.toml", texts[1].encode())
        private_files.replace(place / "config.toml", texts[0].encode())
    except OSError as error:
        raise Unavailable(f"configuration cannot be written: {place}: {error.strerror}") from error
    return place


def check_url(url: str) -> None:
    """Raises `UsageMistake` if it is no URL of a server."""
    from graveler.lake.session import api_url

    try:
        api_url(url)
    except Invalid as error:
        shown = "" if "@" in url else f": {url!r}"  # it may have a password
        raise UsageMistake(f"{error}{shown}") from error


def check_name(name: str) -> str:
    """A name for a profile.  Raises `UsageMistake`."""
    if not _NAME.fullmatch(name):
        raise UsageMistake(
            f"name of a profile invalid: 1 to 64 letters, digits, '-' and '_': {name!r}"
        )
    return name


def _credentials(name: str, profile: Profile) -> str:
    """The table of a profile, with its secrets, or the mark that the keyring has them."""
    pair = {each: getattr(profile, each) for each in ("access_key_id", *_SECRETS)}
    if profile.in_keyring:
        pair |= dict.fromkeys(_SECRETS, "")
        return _table(name, pair) + "keyring = true\n"
    return _table(name, pair)


def in_keyring(profile: Profile) -> Profile:
    """The profile as it is to be written: its secrets are in the keyring, if there is one."""
    is_saved = keyring_store.save(profile.name, {each: getattr(profile, each) for each in _SECRETS})
    return replace(profile, in_keyring=is_saved)


def session(profile: Profile, connections: "Connections") -> "Session":
    """A session with the server of a profile.  Raises `Invalid`, `Unauthenticated`."""
    from graveler.lake.session import connect

    profile.check_whole()
    keys = (profile.server, profile.access_key_id, profile.secret_access_key)
    return connect(*keys, token=profile.session_token, connections=connections)


def _table(name: str, fields: Mapping[str, str]) -> str:
    lines = [f"{key} = {_string(value)}\n" for key, value in fields.items() if value]
    key = name if _NAME.fullmatch(name) else _string(name)
    return "".join([f"[profile.{key}]\n", *lines])


def _string(text: str) -> str:
    """A string of TOML: one of JSON without escapes of surrogates, and with DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _checked(text: str) -> str:
    """The text, if it can be read again.  Raises `Invalid`."""
    import tomllib

    try:
        tomllib.loads(text.encode("utf-8").decode("utf-8"))
    except ValueError as error:
        raise Invalid(f"configuration cannot be kept as TOML: {error}") from error
    return text


def _toml(path: Path) -> Mapping[str, Any]:
    import tomllib

    if not path.exists():
        return {}
    try:
        return tomllib.loads(_bytes(path).decode("utf-8"))
    except ValueError as error:
        raise Invalid(f"configuration file is not TOML: {path}: {error}") from error


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Unavailable(f"file cannot be read: {path}: {error.strerror}") from error
    if len(content) > _FILE_BYTES_MAX:
        raise Invalid(f"file is too large for a configuration: {path}")
    return content


def _home(variables: Mapping[str, str]) -> Path:
    return Path(variables.get("HOME") or Path.home())
