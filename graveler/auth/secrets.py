"""Keys for one purpose each, derived from the store's one secret, and the check values of secrets.

Knowing a derived key tells nothing about the store's secret or about the key of another purpose.
A secret access key is never stored: only its keyed hash is, which needs no slow hashing because
the secrets are long and random and the key is not in the same place.  Pure; for auth and assembly.
"""

import hashlib
import hmac


def derive(secret: bytes, purpose: str) -> bytes:
    """32 bytes for `purpose` (HKDF of RFC 5869 with one block of output)."""
    assert len(secret) >= 32, "the store's secret has at least 32 bytes"
    extracted = hmac.digest(b"graveler", secret, hashlib.sha256)
    return hmac.digest(extracted, purpose.encode() + b"\x01", hashlib.sha256)


def check_value(key: bytes, secret: str) -> str:
    """What is stored of a secret: enough to recognise it, useless without `key`."""
    return hmac.new(key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def same(left: str, right: str) -> bool:
    """Equality in a time that does not depend on where they differ."""
    return hmac.compare_digest(
        left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass")
    )
