"""Keys that are derived from the store's secret, check values, and authenticated encryption.

    purpose    credentials, key wrapping, upload addresses, presigned requests
    cipher     AES-GCM: nonce (12 bytes) ‖ ciphertext ‖ tag (16 bytes); the context is authenticated

The store's secret itself signs and hashes nothing, and a derived key reveals nothing about another.
A secret access key is stored as a keyed hash, and encrypted.  A slow hash is not needed, because
the secrets are long and random.  The library of ciphers takes 15 ms: it is imported when used.
"""

import hashlib
import hmac
import json

from graveler.core.clock import Ids
from graveler.core.errors import Corrupt

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


# ---- ciphers -------------------------------------------------------------------------------------

KEY_LENGTH = 32
_NONCE_LENGTH = 12


def encrypt(key: bytes, plain: bytes, context: tuple[str, ...], ids: Ids) -> bytes:
    """`plain`, which only a holder of `key` can read, and only with the same `context`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = ids.stamp()[:_NONCE_LENGTH]
    return nonce + AESGCM(key).encrypt(nonce, plain, _bytes(context))


def decrypt(key: bytes, text: bytes, context: tuple[str, ...]) -> bytes:
    """The plain bytes.  Raises `Corrupt` for another key, another context or changed bytes."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce, rest = text[:_NONCE_LENGTH], text[_NONCE_LENGTH:]
    try:
        return AESGCM(key).decrypt(nonce, rest, _bytes(context))
    except (InvalidTag, ValueError) as error:
        raise Corrupt("encrypted text does not decrypt: key, context or bytes differ") from error


def _bytes(context: tuple[str, ...]) -> bytes:
    """The context as bytes.  Different contexts have different bytes."""
    return json.dumps(context, separators=(",", ":")).encode()
