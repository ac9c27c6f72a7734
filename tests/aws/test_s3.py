"""The S3 driver keeps the contract: on ministack, on moto, and if asked on S3 itself."""

import os
from collections.abc import Callable, Iterator

import pytest

from graveler.block.adapter import Blocks
from graveler.block.retry import retrying_blocks
from graveler.block.s3 import S3Blocks
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemClock
from graveler.core.requests import RetryPolicy
from tests.aws.buckets import create_bucket, delete_bucket, wipe_bucket
from tests.aws.conftest import PATIENT_S3, local
from tests.support.block_clauses import PutClauses, ReadClauses
from tests.support.block_suite import (
    AddressClauses,
    BlockSuite,
    ChangeClauses,
    ListClauses,
    PresignClauses,
    UploadClauses,
)


def opened(session: AwsSession, name: str) -> S3Blocks:
    """The driver over two new buckets, as the suite wants them."""
    for bucket in (name, f"{name}2"):
        create_bucket(session, bucket)
    return S3Blocks(session, SystemClock(), (name, f"{name}2"), PATIENT_S3)


class OnS3:
    """What S3 lacks, and in lists the engine: characters that its XML cannot hold."""

    bucket = "s3://suite"
    presigns = True
    tells_put_time = False
    completes_again = True
    checks_uploads_of_copies = False
    unlistable = frozenset("\x01\x7f\uffff")

    @pytest.fixture(autouse=True)
    def own_bucket(self, fresh_name: Callable[[], str]) -> Iterator[str]:
        """A bucket for one test."""
        name = fresh_name()
        kept, type(self).bucket = type(self).bucket, f"s3://{name}"
        yield name
        type(self).bucket = kept


class TestS3Blocks(OnS3, BlockSuite):
    @pytest.fixture
    def blocks(self, session: AwsSession, own_bucket: str) -> Blocks:
        return opened(session, own_bucket)


class TestRetryingS3Blocks(OnS3, PutClauses, ChangeClauses, UploadClauses):
    """As assembly puts it together."""

    @pytest.fixture
    def blocks(self, session: AwsSession, own_bucket: str) -> Blocks:
        return retrying_blocks(opened(session, own_bucket), SystemClock(), RetryPolicy())


@pytest.fixture(scope="module")
def moto(moto_url: str) -> AwsSession:
    return AwsSession(local(moto_url))


@pytest.mark.xdist_group("moto")
class TestS3BlocksOnMoto(OnS3, PutClauses, ReadClauses):
    """Bodies, conditions and ranges; moto begins pages of versions at the wrong key."""

    @pytest.fixture
    def blocks(self, moto: AwsSession, own_bucket: str) -> Blocks:
        return opened(moto, own_bucket)


def _pair(session: AwsSession, name: str) -> Iterator[tuple[AwsSession, str]]:
    """Two buckets, wiped before each use and removed in the end."""
    for bucket in (name, f"{name}2"):
        create_bucket(session, bucket)
    yield session, name
    for bucket in (name, f"{name}2"):
        delete_bucket(session, bucket)


def _wiped(session: AwsSession, name: str) -> Blocks:
    names = (name, f"{name}2")
    for bucket in names:
        wipe_bucket(session, bucket)
    clock = SystemClock()
    return retrying_blocks(S3Blocks(session, clock, names, PATIENT_S3), clock, RetryPolicy())


@pytest.fixture(scope="module")
def pair(session: AwsSession, fresh_name: Callable[[], str]) -> Iterator[tuple[AwsSession, str]]:
    yield from _pair(session, f"graveler-contract-{fresh_name()}")


class TestTheWayToAws(PresignClauses):
    """A little of what is run on S3 itself, run here, lest the way there break unseen."""

    presigns = True

    @pytest.fixture
    def blocks(self, pair: tuple[AwsSession, str]) -> Blocks:
        type(self).bucket = f"s3://{pair[1]}"
        blocks = _wiped(*pair)
        blocks.put(f"{self.bucket}/b", [b"left for the next wipe"])
        return blocks


if os.environ.get("GRAVELER_REAL_AWS"):

    @pytest.fixture(scope="module")
    def real(fresh_name: Callable[[], str]) -> Iterator[tuple[AwsSession, str]]:
        yield from _pair(AwsSession(), f"graveler-contract-{fresh_name()}")

    @pytest.mark.xdist_group("real")
    class TestS3BlocksOnAws(
        PutClauses, ReadClauses, ListClauses, ChangeClauses, AddressClauses, PresignClauses
    ):
        """The service itself, in buckets of its own that are removed afterwards; without the
        clauses of uploads, whose parts are shorter than S3 allows."""

        presigns = True
        tells_put_time = False

        @pytest.fixture
        def blocks(self, real: tuple[AwsSession, str]) -> Blocks:
            type(self).bucket = f"s3://{real[1]}"
            return _wiped(*real)
