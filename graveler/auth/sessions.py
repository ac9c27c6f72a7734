"""Login sessions: issued as tokens, read from tokens, ended by a logout.

The newest key of the keyring `sessions` signs; every key on the ring verifies.  Tokens of earlier
releases name no key; keys derived from the store's secrets verify them.  For authenticator.py.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from graveler.auth import revocations, secrets, tokens
from graveler.auth.attempts import Attempts
from graveler.auth.keeper import Keeper
from graveler.auth.tokens import IssuedToken, Session
from graveler.errors import Unauthenticated
from graveler.limits import SECOND_NS
from graveler.records import ABSENT

PURPOSE: Final = "sessions"  # of the derived key that signed the tokens of earlier releases
_KEY_SECONDS: Final = 30 * 24 * 3600  # then the next login makes another key


class Sessions:
    """The sessions of a store.  `known`: its secret, and the one before its rotation."""

    def __init__(self, keeper: Keeper, attempts: Attempts, known: Sequence[bytes]) -> None:
        self._keeper = keeper
        self._attempts = attempts
        self._earlier_keys = [secrets.derive(secret, PURPOSE) for secret in known]

    def begin(self, user: str, epoch: str, seconds: int = tokens.LIFE_SECONDS) -> IssuedToken:
        """A token for a new session of `seconds`.  Raises `Unavailable`, `OutcomeUnknown`.  The
        requests of `Keyring.current`."""
        key = self._keeper.sessions.current(_KEY_SECONDS)
        token_id = self._keeper.ids.stamp().hex()
        return tokens.issue(key, user, epoch, self.now(), token_id, seconds)

    def read(self, token: str, address: str) -> Session:
        """The session of a token, which may have been ended.  Raises `Unauthenticated`,
        `Throttled`, `Unavailable`.

        Forged tokens count by address.  Above the limit, a token whose key this process knows is
        still accepted; one with another key is refused before the keyring is read again.  At most
        one request.
        """
        key_id = tokens.key_id(token)
        for key in self._keys(key_id, address) if key_id else self._earlier_keys:
            with suppress(Unauthenticated):
                claims = tokens.verified(key, token)
                break
        else:
            self._attempts.check_token(address)
            self._attempts.forged(address)
            raise Unauthenticated("session token invalid")
        return tokens.session(claims, self.now())

    def has_ended(self, session: Session) -> bool:
        """Whether a logout ended the session.  One request."""
        return revocations.has(self._keeper.kv, session)

    def end(self, session: Session) -> None:
        """End a session for good.  3 requests, 4 if there are expired rows to delete."""
        revocations.put(self._keeper.kv, self._keeper.ids, session, self.now())

    def now(self) -> int:
        """Seconds since 1970."""
        return self._keeper.clock.now_ns() // SECOND_NS

    def _keys(self, key_id: str, address: str) -> list[bytes]:
        ring = self._keeper.sessions
        if not ring.knows(key_id):
            self._attempts.check_token(address)
        key = ring.find(key_id)
        return [] if key is ABSENT else [key]
