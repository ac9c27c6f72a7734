"""Where signed URLs of a deployment lead: what the policy of the page admits."""

import pytest

from graveler.assembly.aws import storage_origins
from graveler.core.settings import Deployment


@pytest.mark.parametrize(
    ("buckets", "region", "endpoint", "origins"),
    [
        (("lake",), "eu-west-1", "", ("https://lake.s3.eu-west-1.amazonaws.com",)),
        (("a.b", "c.d"), "eu-west-1", "", ("https://s3.eu-west-1.amazonaws.com",)),
        (("lake",), "cn-north-1", "", ("https://lake.s3.cn-north-1.amazonaws.com.cn",)),
        (("lake", "other"), "eu-west-1", "http://127.0.0.1:4566", ("http://127.0.0.1:4566",)),
    ],
)
def test_they_are_origins_without_a_path(
    buckets: tuple[str, ...], region: str, endpoint: str, origins: tuple[str, ...]
) -> None:
    deployment = Deployment("table", "secret", buckets, endpoint_url=endpoint)
    assert storage_origins(deployment, region) == origins
