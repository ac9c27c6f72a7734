"""Authenticated encryption: AES-GCM with a key of 256 bits and a fresh nonce of 96 bits.

    nonce (12 bytes) ‖ ciphertext ‖ tag (16 bytes)

The context is authenticated, not stored: a text decrypts only in the context that it was made in.
The library is imported at the first use, because the import takes 15 ms and most requests do not
need it.  For keyrings.py and credentials.py.
"""

import json

from graveler.clock import Ids
from graveler.errors import Corrupt

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
