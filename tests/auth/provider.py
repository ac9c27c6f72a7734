"""An identity provider in memory: keys, tokens, and its key set."""

import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

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
