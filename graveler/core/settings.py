"""Reads the configuration from environment variables, only when called.

    GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY    the administrator's credentials

    GRAVELER_HOOKS_ALLOW        hosts that hooks may reach: HOST[:PORT] with commas between; empty:
                                hooks are off, and action files have no effect
    GRAVELER_HOOKS_SECRET       the key that signs what hooks send: at least 32 characters
    GRAVELER_HOOKS_VARIABLES    names of variables that action files may use, with commas between;
                                each begins with LAKEFSACTION_
    GRAVELER_HOOKS_SECRET_NAME  on AWS, instead of the last two: a secret in Secrets Manager that
                                has their values
    GRAVELER_HOOKS_FUNCTION     on AWS, the name of the function that sends what hooks send

    GRAVELER_AWS_LOGIN_ACCOUNTS, GRAVELER_LOGIN_HOSTS, GRAVELER_OIDC_…
                                external identities (docs/how-to/external-identities.md)
    GRAVELER_OIDC_SECRET_NAME   on AWS: a secret in Secrets Manager that has the client's secret

On AWS the template sets, for each function:

    GRAVELER_TABLE, GRAVELER_SECRET     names of the table and of the secret
    GRAVELER_BUCKETS                    names with commas between; the first is the deployment's own
    GRAVELER_READ_ONLY_BUCKETS          those of them that are only read, with commas between
    GRAVELER_CACHE_MIB                  size of the cache of range files in the folder for
                                        temporary files (TMPDIR, else /tmp)
    GRAVELER_CACHE_FOLDER               another folder for this cache
    GRAVELER_SHARED_FOLDER              the folder of a cache that several machines share; empty:
                                        none
    GRAVELER_SHARED_MIB                 size of the shared cache
    GRAVELER_JOBS_QUEUE                 the URL of the worker's queue
    GRAVELER_EVENTS_QUEUE               the URL of the queue of notifications
    GRAVELER_KEYS_KMS_KEY               the ARN of the KMS key that wraps the keys of sessions and
                                        secrets; empty: the secret does
    GRAVELER_AUDIT_LOG                  the log group that `GET /audit` reads; empty: it reads none
    GRAVELER_S3_ENDPOINT                the URL of an S3 gateway of this deployment, which S3
                                        clients of the HTTP API are told; empty: none
    GRAVELER_USER_REQUESTS_PER_SECOND   what one user may send to each sandbox of the API, or to
                                        each process of the S3 gateway; 0: no limit
    GRAVELER_COMMIT_ROWS_MAX            a commit of more staged rows is handed over to Spark
    AWS_ENDPOINT_URL                    an endpoint to use instead of AWS (botocore reads it too)

The variables of lakectl are named here too, for the commands, the client and Spark.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, Absent, without

# ---- variables -------------------------------------------------------------------------------

URL_VARIABLE: Final = "LAKECTL_SERVER_ENDPOINT_URL"
KEY_VARIABLE: Final = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET_VARIABLE: Final = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
TOKEN_VARIABLE: Final = "LAKECTL_CREDENTIALS_SESSION_TOKEN"


def environment() -> Mapping[str, str]:
    """The environment variables of the process."""
    return os.environ


# ---- settings --------------------------------------------------------------------------------


ACCESS_KEY_VARIABLE = "GRAVELER_ACCESS_KEY_ID"
SECRET_KEY_VARIABLE = "GRAVELER_SECRET_ACCESS_KEY"
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(?::(?:[0-9]{1,5}|\*))?", re.ASCII)
_ACCOUNT = re.compile(r"[0-9]{12}", re.ASCII)
_REDIRECT = re.compile(
    r"(?:https://|http://(?:localhost|127\.0\.0\.1|\[::1\])(?=[:/]))[!\"$-~]+", re.ASCII
)
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?", re.ASCII)
_ISSUER = re.compile(r"https?://[!-~]{1,190}", re.ASCII)
_HOOKS_SECRET_LENGTH_MIN = 32
_HOOKS_PREFIX = "LAKEFSACTION_"
_DEPLOYMENT = ("GRAVELER_TABLE", "GRAVELER_SECRET", "GRAVELER_BUCKETS")


class AdministratorKeys(NamedTuple):
    """Administrator credentials fixed by the deployment.  Both empty: the set-up call of the API
    makes them."""

    access_key_id: str = ""
    secret_access_key: str = ""

    @property
    def given(self) -> bool:
        return bool(self.access_key_id)

    def __repr__(self) -> str:
        return without(self, "secret_access_key")


def administrator_keys(variables: Mapping[str, str]) -> AdministratorKeys:
    """The administrator credentials in `variables`.  Raises `Invalid` if only one of the two is
    set."""
    key, secret = variables.get(ACCESS_KEY_VARIABLE, ""), variables.get(SECRET_KEY_VARIABLE, "")
    if bool(key) != bool(secret):
        raise Invalid(f"set both {ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}, or neither")
    return AdministratorKeys(key, secret)


class TlsFiles(NamedTuple):
    """PEM files: the server's certificate, before those that lead to its authority, and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class HookSettings:
    """What hooks may reach and use.  No `hosts`: hooks are off.

    `loopback`: a host may have a loopback address, for local tests.  `variables`: the values that
    action files may refer to.
    """

    hosts: tuple[str, ...] = ()
    loopback: bool = False
    signing_key: bytes = field(default=b"", repr=False)
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


NO_HOOK_SETTINGS = HookSettings()


def hook_settings(
    variables: Mapping[str, str], hosts: tuple[str, ...] = (), *, loopback: bool = False
) -> HookSettings:
    """The settings of hooks in `variables`, with more `hosts`.

    Raises `Invalid` if hosts are allowed without a secret, or if a variable is not set or has
    another kind of name."""
    hosts = _hook_hosts((*_names(variables.get("GRAVELER_HOOKS_ALLOW", "")), *hosts))
    if not hosts:
        return HookSettings()
    secret = variables.get("GRAVELER_HOOKS_SECRET", "")
    if len(secret) < _HOOKS_SECRET_LENGTH_MIN:
        raise Invalid(
            f"set GRAVELER_HOOKS_SECRET to at least {_HOOKS_SECRET_LENGTH_MIN} characters: "
            "it signs what hooks send"
        )
    names = _names(variables.get("GRAVELER_HOOKS_VARIABLES", ""))
    for name in names:
        value = variables.get(name, "")
        if not name.startswith(_HOOKS_PREFIX) or not value or not value.isprintable():
            raise Invalid(
                "variable for hooks must begin with LAKEFSACTION_ and have a printable value: "
                f"name={name!r:.100}"
            )
    values = {name: variables[name] for name in names}
    return HookSettings(hosts, loopback, secret.encode(), values)


def hook_hosts(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The hosts alone that hooks may reach, for the function that sends what others have signed.
    Raises `Invalid`."""
    return _hook_hosts(_names(variables.get("GRAVELER_HOOKS_ALLOW", "")))


def _hook_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise Invalid(f"hooks host must be HOST, HOST:PORT or HOST:*: {host!r:.100}")
    return hosts


def hooks_function(variables: Mapping[str, str]) -> str:
    """The name of the function that sends what hooks send.  Raises `Invalid` if there is none."""
    if name := variables.get("GRAVELER_HOOKS_FUNCTION", ""):
        return name
    raise Invalid("set GRAVELER_HOOKS_FUNCTION: on AWS a function of its own sends hooks")


def hooks_secret_name(variables: Mapping[str, str]) -> str:
    """The secret that `with_hooks_secret` needs; empty: none, or hooks are off."""
    allows = variables.get("GRAVELER_HOOKS_ALLOW", "")
    return variables.get("GRAVELER_HOOKS_SECRET_NAME", "") if allows else ""


def with_hooks_secret(variables: Mapping[str, str], text: str) -> Mapping[str, str]:
    """`variables`, with the values of a secret that lie in no environment.

    `text`: a JSON object with `GRAVELER_HOOKS_SECRET` and the variables that action files may use.
    Raises `Invalid`, which says nothing of the values.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not all(isinstance(each, str) for each in values.values()):
        raise Invalid(
            "secret of hooks must be a JSON object of texts: GRAVELER_HOOKS_SECRET, and variables "
            f"that begin with {_HOOKS_PREFIX}"
        )
    names = sorted(set(values) - {"GRAVELER_HOOKS_SECRET"})
    return {**variables, **values, "GRAVELER_HOOKS_VARIABLES": ",".join(names)}


@dataclass(frozen=True, slots=True)
class OidcClientSettings:
    """The service as a client of an identity provider.  `redirects`: URIs to which the provider
    may send codes.  `hosts`: further hosts that may have its token endpoint."""

    id: str
    secret: str = field(repr=False)
    redirects: tuple[str, ...]
    hosts: tuple[str, ...] = ()


class OidcSettings(NamedTuple):
    """An identity provider.

    `keys`: a URL, the path of a file, or JSON.  `group_names`: the groups for each name in the
    claim of groups; `ABSENT`: the deployment maps none.  `client`: for logins with codes.
    """

    issuer: str
    audience: str
    keys: str
    user_claim: str
    groups_claim: str
    group_names: Mapping[str, tuple[str, ...]] | Literal[Absent.ABSENT] = ABSENT
    client: OidcClientSettings | Literal[Absent.ABSENT] = ABSENT


class IdentitySettings(NamedTuple):
    """What proves an identity beside an access key.

    `hosts`: the names of the service, in lower case.  `aws_accounts`: whose IAM identities may log
    in; none: this login is off.
    """

    hosts: tuple[str, ...] = ()
    aws_accounts: tuple[str, ...] = ()
    oidc: OidcSettings | Literal[Absent.ABSENT] = ABSENT

    @property
    def given(self) -> bool:
        """Whether anything is on."""
        return bool(self.aws_accounts) or self.oidc is not ABSENT


NO_IDENTITY_SETTINGS = IdentitySettings()


def identity_settings(variables: Mapping[str, str], public_host: str = "") -> IdentitySettings:
    """The settings of external identities in `variables`.

    Raises `Invalid` for what is no account, and for accounts without a name of the service."""
    accounts, oidc = _names(variables.get("GRAVELER_AWS_LOGIN_ACCOUNTS", "")), _oidc(variables)
    if not accounts:
        return IdentitySettings(oidc=oidc)
    for account in accounts:
        if not _ACCOUNT.fullmatch(account):
            raise Invalid(f"account of AWS must be 12 digits: {account!r:.100}")
    named = (*_names(variables.get("GRAVELER_LOGIN_HOSTS", "")), public_host)
    hosts = tuple(host.lower() for host in named if host)
    if not hosts:
        raise Invalid(
            "GRAVELER_AWS_LOGIN_ACCOUNTS needs a public URL or GRAVELER_LOGIN_HOSTS: callers sign "
            "the name of the service"
        )
    return IdentitySettings(hosts, accounts, oidc)


def _oidc(variables: Mapping[str, str]) -> OidcSettings | Literal[Absent.ABSENT]:
    issuer, audience, keys = (
        variables.get(f"GRAVELER_OIDC_{name}", "") for name in ("ISSUER", "AUDIENCE", "KEYS")
    )
    if not (issuer or audience or keys):
        if variables.get("GRAVELER_OIDC_CLIENT_ID", ""):
            raise Invalid("GRAVELER_OIDC_CLIENT_ID needs GRAVELER_OIDC_ISSUER")
        return ABSENT
    if not (issuer and audience and keys):
        raise Invalid("set GRAVELER_OIDC_ISSUER, GRAVELER_OIDC_AUDIENCE and GRAVELER_OIDC_KEYS")
    if not _ISSUER.fullmatch(issuer):
        raise Invalid(f"issuer of OIDC must be a URL of at most 200 characters: {issuer!r:.300}")
    return OidcSettings(
        issuer,
        audience,
        keys,
        variables.get("GRAVELER_OIDC_USER_CLAIM", "") or "preferred_username",
        variables.get("GRAVELER_OIDC_GROUPS_CLAIM", ""),
        _group_names(variables),
        _oidc_client(variables, issuer),
    )


def _oidc_client(
    variables: Mapping[str, str], issuer: str
) -> OidcClientSettings | Literal[Absent.ABSENT]:
    """Raises `Invalid`, which does not say the secret."""
    id = variables.get("GRAVELER_OIDC_CLIENT_ID", "")
    if not id:
        return ABSENT
    secret = _oidc_client_secret(variables)
    redirects = _names(variables.get("GRAVELER_OIDC_REDIRECTS", ""))
    if not (secret and redirects):
        raise Invalid(
            "GRAVELER_OIDC_CLIENT_ID needs GRAVELER_OIDC_REDIRECTS, and "
            "GRAVELER_OIDC_CLIENT_SECRET or GRAVELER_OIDC_CLIENT_SECRET_FILE"
        )
    if not issuer.startswith("https://"):
        raise Invalid("GRAVELER_OIDC_CLIENT_ID needs an issuer whose URL begins with https://")
    for uri in redirects:
        if len(uri) > limits.redirect_uri_length_max or not _REDIRECT.fullmatch(uri):
            raise Invalid(
                "redirect URI must begin with https://, or http:// for the own machine, and have "
                f"no fragment: {uri!r:.300}"
            )
    hosts = _names(variables.get("GRAVELER_OIDC_HOSTS", ""))
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise Invalid(f"host of OIDC must be HOST or HOST:PORT: {host!r:.100}")
    return OidcClientSettings(id, secret, redirects, hosts)


def _oidc_client_secret(variables: Mapping[str, str]) -> str:
    """Empty if none is set.  Raises `Invalid` for a file that cannot be read."""
    file = variables.get("GRAVELER_OIDC_CLIENT_SECRET_FILE", "")
    if not file:
        return variables.get("GRAVELER_OIDC_CLIENT_SECRET", "")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise Invalid(
            f"file of GRAVELER_OIDC_CLIENT_SECRET_FILE not read: {file!r:.200}"
        ) from error


def oidc_secret_name(variables: Mapping[str, str]) -> str:
    """The secret that `with_oidc_secret` needs; empty: none, or no codes are accepted."""
    id = variables.get("GRAVELER_OIDC_CLIENT_ID", "")
    return variables.get("GRAVELER_OIDC_SECRET_NAME", "") if id else ""


def with_oidc_secret(variables: Mapping[str, str], text: str) -> Mapping[str, str]:
    """`variables`, with the secret of the client, which lies in no environment.

    `text`: a JSON object with `GRAVELER_OIDC_CLIENT_SECRET`.  Raises `Invalid`, which says nothing
    of the value.
    """
    name = "GRAVELER_OIDC_CLIENT_SECRET"
    try:
        secret = json.loads(text)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        secret = ""
    if not isinstance(secret, str) or not secret:
        raise Invalid(f"secret of OIDC must be a JSON object with the text {name}")
    return {**variables, name: secret}


def _group_names(
    variables: Mapping[str, str],
) -> Mapping[str, tuple[str, ...]] | Literal[Absent.ABSENT]:
    text = variables.get("GRAVELER_OIDC_GROUPS", "")
    if not text:
        return ABSENT
    if not variables.get("GRAVELER_OIDC_GROUPS_CLAIM", ""):
        raise Invalid("GRAVELER_OIDC_GROUPS needs GRAVELER_OIDC_GROUPS_CLAIM")
    try:
        mapped = json.loads(text)
        names = {name: _listed(groups) for name, groups in mapped.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Invalid(
            "GRAVELER_OIDC_GROUPS must be a JSON object: for each name of the provider the name of "
            'a group, or a list of names, as in {"lake-admins": "Admins"}'
        ) from error
    return names


def _listed(groups: object) -> tuple[str, ...]:
    """The names of groups in a text or in a list of texts.  Raises `TypeError`."""
    names = groups if isinstance(groups, list) else [groups]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise TypeError("names of groups are texts")
    return tuple(names)


def endpoint_url() -> str:
    """The endpoint to use instead of AWS; empty: AWS."""
    return environment().get("AWS_ENDPOINT_URL", "")


def is_local_engine(variables: Mapping[str, str]) -> bool:
    """Whether an engine on this machine stands in for AWS: its endpoint is a loopback address."""
    host = urlsplit(variables.get("AWS_ENDPOINT_URL", "")).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Deployment(NamedTuple):
    """The resources that a template created, and how much of the machine caches may use."""

    table: str
    secret: str
    buckets: tuple[str, ...]
    jobs_queue: str = ""
    events_queue: str = ""
    cache_folder: str = "/tmp/graveler"
    cache_bytes: int = 400 << 20
    shared_folder: str = ""
    shared_bytes: int = 0
    memory_bytes: int = 1 << 30
    endpoint_url: str = ""
    commit_rows_max: int = limits.commit_rows_max
    read_only_buckets: tuple[str, ...] = ()
    keys_kms_key: str = ""
    audit_log: str = ""
    s3_endpoint: str = ""
    user_requests_per_second: int = 0
    own_hosts: tuple[str, ...] = ()


def deployment(variables: Mapping[str, str]) -> Deployment:
    """The deployment that `variables` describe.  Raises `Invalid` for a missing variable, for a
    number that is none, and for an S3 endpoint that is no URL."""
    missing = [name for name in _DEPLOYMENT if not variables.get(name)]
    if missing:
        raise Invalid(
            "environment is incomplete: set the variables of template.yaml: "
            f"missing={','.join(missing)}"
        )
    table, secret, buckets = (variables[name] for name in _DEPLOYMENT)
    return Deployment(
        table,
        secret,
        _names(buckets),
        jobs_queue=variables.get("GRAVELER_JOBS_QUEUE", ""),
        events_queue=variables.get("GRAVELER_EVENTS_QUEUE", ""),
        cache_folder=variables.get("GRAVELER_CACHE_FOLDER", "")
        or f"{variables.get('TMPDIR', '') or '/tmp'}/graveler",
        cache_bytes=_whole(variables, "GRAVELER_CACHE_MIB", 400) << 20,
        shared_folder=variables.get("GRAVELER_SHARED_FOLDER", ""),
        shared_bytes=_whole(variables, "GRAVELER_SHARED_MIB", 0) << 20,
        memory_bytes=_whole(variables, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", 1024) << 20,
        endpoint_url=variables.get("AWS_ENDPOINT_URL", ""),
        commit_rows_max=_whole(variables, "GRAVELER_COMMIT_ROWS_MAX", limits.commit_rows_max),
        read_only_buckets=_names(variables.get("GRAVELER_READ_ONLY_BUCKETS", "")),
        keys_kms_key=variables.get("GRAVELER_KEYS_KMS_KEY", ""),
        audit_log=variables.get("GRAVELER_AUDIT_LOG", ""),
        s3_endpoint=_origin(variables, "GRAVELER_S3_ENDPOINT"),
        user_requests_per_second=_whole(variables, "GRAVELER_USER_REQUESTS_PER_SECOND", 0),
        own_hosts=_names(variables.get("GRAVELER_LOGIN_HOSTS", "")),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _origin(variables: Mapping[str, str], name: str) -> str:
    text = variables.get(name, "")
    if text and not _ORIGIN.fullmatch(text):
        raise Invalid(f"setting must be a URL of scheme, host and port: {name}={text!r:.200}")
    return text


def _whole(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "") or str(default)
    if not text.isdecimal():
        raise Invalid(f"setting must be a whole number: {name}={text}")
    return int(text)
