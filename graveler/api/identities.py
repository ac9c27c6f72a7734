"""Identities beside access keys: AWS, OIDC.  Only a deployment that has one loads this module."""

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from graveler.auth.authenticator import Identities
from graveler.auth.jwks import FetchedKeys, GivenKeys
from graveler.auth.oidc import CodeLogin, Keys, OidcClient, OidcIssuer
from graveler.auth.sts import HOSTS, AwsLogin
from graveler.core.clock import Clock
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, Absent
from graveler.core.settings import IdentitySettings, OidcSettings
from graveler.hooks.egress import EgressRules, WebSender


def open_identities(settings: IdentitySettings, clock: Clock) -> Identities:
    """The identities of a deployment.  Nothing is requested yet.  Raises `Invalid` for keys that
    are no key set."""
    aws = _aws(settings, clock) if settings.aws_accounts else ABSENT
    if settings.oidc is ABSENT:
        return Identities(aws)
    oidc = _oidc(settings.oidc, clock)
    return Identities(aws, oidc, _codes(settings.oidc, oidc, clock))


def _aws(settings: IdentitySettings, clock: Clock) -> AwsLogin:
    sender = WebSender(EgressRules(tuple(HOSTS)), clock)
    return AwsLogin(sender, frozenset(settings.hosts), frozenset(settings.aws_accounts))


def _oidc(settings: OidcSettings, clock: Clock) -> OidcIssuer:
    keys = _keys(settings.keys, clock)
    return OidcIssuer(
        settings.issuer,
        settings.audience,
        keys,
        settings.user_claim,
        settings.groups_claim,
        settings.group_names,
    )


def _codes(
    settings: OidcSettings, oidc: OidcIssuer, clock: Clock
) -> CodeLogin | Literal[Absent.ABSENT]:
    chosen = settings.client
    if chosen is ABSENT:
        return ABSENT
    known = [settings.issuer, *([settings.keys] if settings.keys.startswith("https://") else [])]
    rules = EgressRules((*map(_host, known), *chosen.hosts))
    client = OidcClient(chosen.id, chosen.secret, frozenset(chosen.redirects))
    return CodeLogin(oidc, client, WebSender(rules, clock), clock)


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 443}"


def _keys(text: str, clock: Clock) -> Keys:
    if text.startswith("https://"):
        return FetchedKeys(text, WebSender(EgressRules((_host(text),)), clock), clock)
    if text.lstrip().startswith("{"):
        return GivenKeys(text.encode())
    try:
        return GivenKeys(Path(text).read_bytes())
    except OSError as error:
        raise Invalid(f"keys of OIDC are no https URL and no file: {text!r:.200}") from error
