"""The S3 driver keeps the contract: on ministack, and on moto."""

from collections.abc import Callable, Iterator

import pytest

from graveler.aws import AwsSession
from graveler.block.adapter import Blocks
from graveler.block.retrying import RetryingBlocks
from graveler.block.s3 import S3Blocks
from graveler.clock import SystemClock
from graveler.requests import RetryPolicy
from graveler.testing.block_clauses import PutClauses, ReadClauses
from graveler.testing.block_suite import BlockSuite, ChangeClauses, UploadClauses
from tests.aws import engines
from tests.aws.buckets import create_bucket
from tests.aws.conftest import local


def opened(session: AwsSession, name: str) -> S3Blocks:
    """The driver over two new buckets, as the suite wants them."""
    for bucket in (name, f"{name}2"):
        create_bucket(session, bucket)
    return S3Blocks(session, SystemClock(), (name, f"{name}2"))


class OnS3:
    """What S3 lacks, and in lists the engine: characters that its XML cannot hold."""

    bucket = "s3://suite"
    presigns = True
    tells_put_time = False
    completes_again = True
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
        return RetryingBlocks(opened(session, own_bucket), SystemClock(), RetryPolicy())


@pytest.fixture(scope="module")
def moto() -> Iterator[AwsSession]:
    with engines.locked_moto() as url:
        yield AwsSession(local(url))


class TestS3BlocksOnMoto(OnS3, PutClauses, ReadClauses):
    """Bodies, conditions and ranges; moto begins pages of versions at the wrong key."""

    @pytest.fixture
    def blocks(self, moto: AwsSession, own_bucket: str) -> Blocks:
        return opened(moto, own_bucket)
