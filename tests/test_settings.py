"""What the environment says."""

import pytest

from graveler.core.errors import Invalid
from graveler.core.settings import deployment, is_local_engine

GIVEN = {"GRAVELER_TABLE": "lake", "GRAVELER_SECRET": "lake", "GRAVELER_BUCKETS": "one,,two"}


def test_tables_are_kept_among_temporary_files_unless_a_folder_is_named() -> None:
    assert deployment(GIVEN).cache_folder == "/tmp/graveler"
    moved = {**GIVEN, "TMPDIR": "/elsewhere"}
    assert deployment(moved).cache_folder == "/elsewhere/graveler"
    assert deployment({**moved, "GRAVELER_CACHE_FOLDER": "/named"}).cache_folder == "/named"


def test_what_a_template_must_say_is_asked_for_by_name() -> None:
    assert deployment(GIVEN).buckets == ("one", "two")
    assert deployment(GIVEN).read_only_buckets == ()
    assert deployment({**GIVEN, "GRAVELER_READ_ONLY_BUCKETS": "two,"}).read_only_buckets == ("two",)
    with pytest.raises(Invalid, match="missing=GRAVELER_SECRET,GRAVELER_BUCKETS"):
        deployment({"GRAVELER_TABLE": "lake", "GRAVELER_SECRET": ""})


def test_an_s3_endpoint_is_a_url_without_a_path() -> None:
    assert deployment(GIVEN).s3_endpoint == ""
    for named in ("https://s3.lake.example.org", "http://10.0.0.1:9000"):
        assert deployment({**GIVEN, "GRAVELER_S3_ENDPOINT": named}).s3_endpoint == named
    for wrong in ("s3.lake.example.org", "https://a/b", "https://a<b", "ftp://a", "https://a:x"):
        with pytest.raises(Invalid, match="GRAVELER_S3_ENDPOINT"):
            deployment({**GIVEN, "GRAVELER_S3_ENDPOINT": wrong})


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("http://127.0.0.1:4566", True),
        ("http://localhost:4566", True),
        ("http://[::1]:4566", True),
        ("", False),
        ("https://dynamodb.eu-central-1.amazonaws.com", False),
        ("http://10.0.0.1:4566", False),
        ("http://localhost.example:4566", False),
        ("http://169.254.169.254", False),
    ],
)
def test_an_engine_is_local_by_its_address(endpoint: str, local: bool) -> None:
    assert is_local_engine({"AWS_ENDPOINT_URL": endpoint}) == local
    assert not is_local_engine({})
