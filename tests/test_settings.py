"""What the environment says."""

import dataclasses
import importlib
import pkgutil

import msgspec
import pytest

import graveler
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


SECRETS = {"secret", "secret_access_key", "session_token", "password", "setup_token"} | {
    *("security_token",),
    *("signing_key", "signing_key_before"),
}
NAMED_OTHERWISE = {
    "Deployment": set[str](),  # the name of a secret
    "Embedded": {"secret", "before"},
    "IssuedToken": {"token"},
    "Keeper": {"key"},
    "NewToken": {"text"},
    "Secret": {"key", "before"},
    "StoreKey": {"secret", "before"},
}


def test_no_record_shows_its_secrets() -> None:
    """Where a record is printed, as in a traceback or a log, nobody learns a secret."""
    count = 0
    for found in pkgutil.walk_packages(graveler.__path__, "graveler."):
        if found.name.startswith(("graveler.spark", "graveler.ui")) or "__main__" in found.name:
            continue
        for kind in vars(importlib.import_module(found.name)).values():
            if not isinstance(kind, type) or kind.__module__ != found.name:
                continue
            names = NAMED_OTHERWISE.get(kind.__name__, SECRETS)
            types = vars(kind).get("__annotations__", {})
            secrets = {name for name in names if types.get(name) in (str, bytes)}
            count += bool(secrets)
            if secrets and issubclass(kind, tuple):
                made = kind._make("hidden" if each in secrets else "" for each in types)
                assert "hidden" not in repr(made), kind
            elif secrets and issubclass(kind, msgspec.Struct):
                assert kind.__repr__ is object.__repr__, kind
            elif dataclasses.is_dataclass(kind):
                fields = dataclasses.fields(kind)
                assert not any(each.repr and each.name in secrets for each in fields), kind
    assert count > 10
