"""Sessions in answers: what callers get for a proof of who they are.

    access key, IAM identity, code of an identity provider ──► session ──► answer, audit line

`with_session` is the only way in which an answer has a session.  It names the user of the session
for the audit trail, so no login leaves a line without a name; dispatch.py checks this again for
every operation without credentials.  Used by session.py and external.py.
"""

from graveler.api import answers
from graveler.api.answers import Answer, Shape
from graveler.api.field_types import Integer
from graveler.api.service import Call
from graveler.auth.sessions import IssuedToken


class AuthenticationToken(Shape, frozen=True):
    """A session."""

    token: str
    token_expiration: Integer


def with_session(
    call: Call, issued: IssuedToken, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Answer:
    """The answer to a call that began a session; the audit line of the call names its user."""
    call.acting = issued.user
    shape = AuthenticationToken(issued.token, issued.expires)
    return answers.json(shape, 200, (*headers, (b"cache-control", b"no-store")))
