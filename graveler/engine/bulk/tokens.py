"""Tokens of bulk jobs: what a driver gives to others instead of its credentials.

A token is good for the heartbeat, the finish and the cancellation of one job, until the job
expires.  It acts for the user that began the job: what this user may no longer do, the token may
not either.  Only its hash is stored, in the records of the job.
"""

import json
from hashlib import sha256
from hmac import compare_digest
from typing import Final, Literal, NamedTuple

from graveler.core import limits
from graveler.core.clock import Ids
from graveler.core.errors import Conflict
from graveler.core.records import ABSENT, Absent, without
from graveler.engine.jobs.record import JobOrder

PREFIX: Final = "gbj_"  # tells a token of a job from one of a session
_LENGTH: Final = 40  # characters of five random bits
_PART: Final = "token-"


class Holder(NamedTuple):
    """The user for whom a token acts, and the epoch of the credential that it began the job
    with."""

    user: str
    uid: str
    epoch: str


class NewToken(NamedTuple):
    """A token, and what is stored of it: the name and the value of a part of the job's order."""

    text: str
    name: str
    value: str

    def __repr__(self) -> str:
        return without(self, "text")


def issue(ids: Ids, holder: Holder, order: JobOrder) -> NewToken:
    """A fresh token for a job with this order.  Raises `Conflict` if the job has too many.  No
    request."""
    if sum(name.startswith(_PART) for name in order.parts) >= limits.bulk_tokens_count_max:
        raise Conflict(
            f"bulk job has {limits.bulk_tokens_count_max} tokens, and no more are issued: begin a "
            "job with another id"
        )
    text = PREFIX + ids.unique(_LENGTH)
    return NewToken(text, _PART + _hash(text), json.dumps(holder))


def holder_of(order: JobOrder, token: str) -> Holder | Literal[Absent.ABSENT]:
    """For whom a token acts; ABSENT if it is none of this job.  Compares in constant time."""
    found: Holder | Literal[Absent.ABSENT] = ABSENT
    name = _PART + _hash(token)
    for known, value in order.parts.items():
        if compare_digest(known.encode(), name.encode()):
            found = Holder(*json.loads(value))
    return found


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
