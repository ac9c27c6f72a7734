"""Wraps the keys of keyrings by a key of KMS, for deployments that have one.

    the key of a keyring ──Encrypt──► wrapped     context: graveler, ring, key
    wrapped ──Decrypt──► the key                  the same context, else KMS refuses

KMS keeps its key, so whoever reads the table and the deployment's secret still cannot unwrap.  Each
process unwraps each key once.  `graveler` in the context is the name of the secret; the role of
the API may use the key only with that context.
"""

from typing import Final

from graveler.aws import FAILURES, AwsSession, Client, failure_of, unavailable
from graveler.errors import Corrupt

_WRONG: Final = ("InvalidCiphertextException", "IncorrectKeyException")


class KmsWrapper:
    """Wraps by the key `key` (an ARN) of KMS.  `deployment` is part of the context."""

    id: Final = "kms"

    def __init__(self, session: AwsSession, key: str, deployment: str) -> None:
        self._session = session
        self._key = key
        self._deployment = deployment
        self._client: Client = None  # made at the first call

    def wrap(self, key: bytes, ring: str, id: str) -> bytes:
        """One request.  Raises `Unavailable`."""
        try:
            answer = self._opened().encrypt(
                KeyId=self._key, Plaintext=key, EncryptionContext=self._context(ring, id)
            )
        except FAILURES as error:
            raise unavailable(failure_of(error), f"wrap key {ring=} {id=}", write=False) from error
        return bytes(answer["CiphertextBlob"])

    def unwrap(self, wrapped: bytes, ring: str, id: str) -> bytes:
        """One request.  Raises `Corrupt` for another key or context, `Unavailable`."""
        try:
            answer = self._opened().decrypt(
                KeyId=self._key, CiphertextBlob=wrapped, EncryptionContext=self._context(ring, id)
            )
        except FAILURES as error:
            failure = failure_of(error)
            if failure.code in _WRONG:
                raise Corrupt(f"unwrap key {ring=} {id=}: code={failure.code}") from error
            raise unavailable(failure, f"unwrap key {ring=} {id=}", write=False) from error
        return bytes(answer["Plaintext"])

    def _context(self, ring: str, id: str) -> dict[str, str]:
        return {"graveler": self._deployment, "ring": ring, "key": id}

    def _opened(self) -> Client:
        if self._client is None:
            self._client = self._session.client("kms")
        return self._client
