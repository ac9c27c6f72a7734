"""An identity provider in memory: keys, tokens, its key set, and its endpoint for codes."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from graveler.auth.oidc import DISCOVERY_PATH
from graveler.core.web import Outgoing, Reply

ISSUER, AUDIENCE = "https://login.example.com/realm", "graveler"
START = 1_700_000_000


@cache
def rsa_key(bits: int = 2_048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def entry(kid: str, key: Any = None, **more: Any) -> dict[str, Any]:
    """The public key, as an entry of a key set."""
    key = key or rsa_key()
    kind: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    public: dict[str, Any] = kind.to_jwk(key.public_key(), as_dict=True)
    public.pop("key_ops", None)
    return {**public, "kid": kid, **more}


def key_set(*entries: dict[str, Any]) -> bytes:
    known = entries or (entry("r"), entry("e", ec_key(), alg="ES256", use="sig"))
    return json.dumps({"keys": list(known)}).encode()


def token(
    kid: str = "r", *, algorithm: str = "", key: Any = None, head: Any = None, **said: Any
) -> str:
    """A token of `carl`, but as `said`; a claim that is None is left out."""
    claims = {
        **{"iss": ISSUER, "aud": AUDIENCE, "sub": "s-1", "iat": START, "exp": START + 3_600},
        **{"preferred_username": "carl", **said},
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    key = key or (ec_key() if kid == "e" else rsa_key())
    algorithm = algorithm or ("ES256" if kid == "e" else "RS256")
    return jwt.encode(claims, key, algorithm, headers={"kid": kid, **(head or {})})


CLIENT, CLIENT_SECRET, REDIRECT = (
    "lake client",
    "a secret: of 100 % & more",
    "https://lake.example/back",
)


@dataclass
class FakeProvider:
    """The pages of a provider: its description, and the endpoint that exchanges codes.

    `said`: the ID token for a code; empty if there is no such code.  `described`: what its
    description says otherwise.  As a `Sender` it is asked without a network.
    """

    said: Callable[[str], str]
    issuer: str = ISSUER
    described: dict[str, Any] = field(default_factory=dict)
    requests: list[Outgoing] = field(default_factory=list)

    def send(self, request: Outgoing, seconds: float) -> Reply:
        self.requests.append(request)
        if request == Outgoing("GET", self.issuer + DISCOVERY_PATH, request.headers, b""):
            known = {"issuer": self.issuer, "token_endpoint": self.issuer + "/token"}
            return _json(200, {**known, **self.described})
        assert (request.method, request.url) == ("POST", self.issuer + "/token")
        assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
        form = dict(parse_qsl(request.body.decode(), strict_parsing=True))
        if _client_of(request, form) != (CLIENT, CLIENT_SECRET):
            return _json(401, {"error": "invalid_client"})
        assert form["grant_type"] == "authorization_code"
        said = self.said(form["code"]) if form["redirect_uri"] == REDIRECT else ""
        if not said:
            return _json(400, {"error": "invalid_grant", "error_description": "canary"})
        return _json(200, {"access_token": "x", "token_type": "Bearer", "id_token": said})


def _client_of(request: Outgoing, form: dict[str, str]) -> tuple[str, str]:
    """Who asks, by the header or by the body; never by both."""
    given = request.headers.get("Authorization", "")
    if not given:
        return form.get("client_id", ""), form.get("client_secret", "")
    assert "client_secret" not in form and given.startswith("Basic ")
    id, _, secret = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")
    return unquote_plus(id), unquote_plus(secret)


def _json(status: int, document: object) -> Reply:
    return Reply(status, json.dumps(document).encode())
