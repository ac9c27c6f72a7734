"""Logins with a code that an identity provider gave to a client (OpenID Connect, code flow).

    code, redirect URI ──► token endpoint, which the issuer names ──► ID token ──► who it is

The client began the login at the provider and compared the state; this service has the secret of
the client, and exchanges the code.  The ID token is verified as every other token (oidc.py), for
the client as its audience.  Nobody sent this service a nonce, so it compares none.  The provider
sees to it that a code is used once.

The secret is sent only to a token endpoint on a host that the deployment allows.  What the issuer
says of itself is kept for a while (documents.py).

Thread-safe.  For logins.py and api/.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode

from graveler import limits
from graveler.auth.documents import ProviderDocument
from graveler.auth.oidc import Claims, OidcIssuer
from graveler.clock import Clock
from graveler.errors import Invalid, Refused, Unauthenticated, Unavailable
from graveler.web import Outgoing, Reply, Sender

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
_ANSWER_SECONDS: Final = 5.0
_BASIC: Final = "client_secret_basic"
_IN_BODY: Final = "client_secret_post"
_REFUSALS: Final = (400, 401, 403)
# What a provider says if the mistake is one of this deployment, and not of the caller.
_OWN_MISTAKES: Final = ("invalid_client", "unauthorized_client", "unsupported_grant_type")


@dataclass(frozen=True, slots=True)
class OidcClient:
    """This service, as the provider knows it.  `redirects`: the URIs to which the provider may
    have sent a code."""

    id: str
    secret: str = field(repr=False)
    redirects: frozenset[str]


class _Endpoint(NamedTuple):
    """Where codes are exchanged, and whether the secret goes into the body."""

    url: str
    in_body: bool


class CodeLogin:
    """Exchanges codes of an identity provider."""

    def __init__(
        self, issuer: OidcIssuer, client: OidcClient, sender: Sender, clock: Clock
    ) -> None:
        self._issuer = replace(issuer, audience=client.id)
        self._client = client
        self._sender = sender
        self._endpoint = ProviderDocument("token endpoint", self._discovered, clock)

    def claims(self, code: str, redirect_uri: str, now: int) -> Claims:
        """What the provider says of the caller that brings a code; `now` in seconds since 1970.

        Raises `Invalid` for a redirect URI that the deployment does not name, `Unauthenticated` for
        a code or an ID token that is not valid, `Refused` if the token names no user, `Unavailable`
        if the provider does not answer or does not accept this service.  One request to the
        provider; one more if its endpoint, and one if its keys must be read.
        """
        if redirect_uri not in self._client.redirects:
            raise Invalid(
                "redirect_uri invalid: it must be one of those that the deployment names in "
                "GRAVELER_OIDC_REDIRECTS"
            )
        token = _id_token(self._sent(self._request(self._endpoint.current(), code, redirect_uri)))
        payload = self._issuer.verified(token)
        audience, party = payload["aud"], payload.get("azp")
        is_shared = isinstance(audience, list) and len(audience) > 1
        if party != self._client.id and (party is not None or is_shared):
            raise Unauthenticated("ID token was issued to another client")
        return self._issuer.claims(payload, now)

    def _request(self, endpoint: _Endpoint, code: str, redirect_uri: str) -> Outgoing:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        if endpoint.in_body:
            form |= {"client_id": self._client.id, "client_secret": self._client.secret}
        else:
            pair = f"{quote_plus(self._client.id)}:{quote_plus(self._client.secret)}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        return Outgoing("POST", endpoint.url, headers, urlencode(form).encode())

    def _discovered(self) -> _Endpoint:
        url = self._issuer.issuer.rstrip("/") + DISCOVERY_PATH
        reply = self._sent(Outgoing("GET", url, {"Accept": "application/json"}, b""))
        if reply.status != 200:
            raise Unavailable(f"identity provider did not answer: status={reply.status}")
        description = _object(reply)
        endpoint = description.get("token_endpoint")
        if description.get("issuer") != self._issuer.issuer or not isinstance(endpoint, str):
            raise Unavailable("identity provider describes another issuer, or no token endpoint")
        methods = description.get("token_endpoint_auth_methods_supported")
        offered = methods if isinstance(methods, list) else [_BASIC]
        return _Endpoint(endpoint, _BASIC not in offered and _IN_BODY in offered)

    def _sent(self, request: Outgoing) -> Reply:
        try:
            return self._sender.send(request, _ANSWER_SECONDS)
        except Refused as error:
            raise Unavailable(
                f"identity provider may not be asked: {error}; the host of its token endpoint must "
                "be that of the issuer or of its keys, or stand in GRAVELER_OIDC_HOSTS"
            ) from error


def _id_token(reply: Reply) -> str:
    """The ID token in the answer to a code."""
    if reply.status in _REFUSALS:
        reason = _reason(reply)
        if reason in _OWN_MISTAKES or (reply.status == 401 and not reason):
            raise Unavailable("identity provider does not accept the client id and secret")
        raise Unauthenticated("identity provider does not accept the code")
    if reply.status != 200:
        raise Unavailable(f"identity provider did not answer: status={reply.status}")
    token = _object(reply).get("id_token")
    if not isinstance(token, str) or len(token) > limits.bearer_length_bytes_max:
        raise Unavailable("identity provider gave no ID token; the scope must have openid")
    return token


def _reason(reply: Reply) -> str:
    """Why the provider refuses, by its code."""
    try:
        reason = _object(reply).get("error")
    except Unavailable:
        return ""
    return reason if isinstance(reason, str) else ""


def _object(reply: Reply) -> Mapping[str, Any]:
    try:
        document = json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        raise Unavailable("answer of the identity provider is malformed") from error
    if not isinstance(document, dict):
        raise Unavailable("answer of the identity provider is malformed")
    return document
