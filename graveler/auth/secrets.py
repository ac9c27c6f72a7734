"""Derives one key per purpose from the store's secret, and computes check values of credentials.

    credentials         hashes the secrets of accounts (accounts.py)
    key wrapping        wraps the keys of keyrings (keyrings.py)
    sessions            verifies the tokens of logins of earlier releases (authenticator.py)
    upload addresses    signs addresses that clients upload to (engine/objects/addresses.py)
    presigned requests  signs URLs that the service itself serves (block/signature.py)

The store's secret itself signs and hashes nothing.  A derived key reveals nothing about the store's
secret or about the key of another purpose.

A secret access key is recognised by its keyed hash.  Beside the hash it is stored only encrypted,
under a key of the keyring `secrets`, because signatures of requests are verified with the secret
itself (credentials.py).  A slow hash is not needed, because the secrets are long and random and the
key is stored elsewhere.  Pure; for auth and assembly.
"""

import hashlib
import hmac

KEY_LENGTH = 32
_HASH_LENGTH = hashlib.sha256().digest_size


def derive(secret: bytes, purpose: str) -> bytes:
    """The key of 32 bytes for `purpose`."""
    assert len(secret) >= KEY_LENGTH, "the store's secret has at least 32 bytes"
    return hkdf(secret, b"graveler", purpose.encode(), KEY_LENGTH)


def hkdf(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """`length` bytes of key material: HKDF with SHA-256, RFC 5869."""
    assert 0 < length <= 255 * _HASH_LENGTH, "HKDF gives at most 255 blocks"
    extracted = hmac.digest(salt or bytes(_HASH_LENGTH), secret, hashlib.sha256)
    block, output = b"", b""
    for number in range(1, -(-length // _HASH_LENGTH) + 1):
        block = hmac.digest(extracted, block + info + bytes([number]), hashlib.sha256)
        output += block
    return output[:length]


def check_value(key: bytes, secret: str) -> str:
    """The keyed hash of a secret, as it is stored.  It recognises the secret and is useless without
    `key`."""
    return hmac.new(key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def fingerprint(text: str) -> str:
    """32 hexadecimal digits of the hash of a text that is not secret."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def same(left: str, right: str) -> bool:
    """Whether two texts are equal, compared in constant time."""
    return hmac.compare_digest(
        left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass")
    )
