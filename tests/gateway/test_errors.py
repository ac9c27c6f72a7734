"""The closed table of error codes, and the answer for each error."""

import logging
from xml.etree import ElementTree

import pytest

from graveler.core.errors import (
    Code,
    Contended,
    Internal,
    NotFound,
    OutcomeUnknown,
    RangeUnsatisfiable,
    Refused,
    StorageFull,
    Throttled,
    Unavailable,
)
from graveler.gateway.errors import CODES, OF_ENGINE, S3Error, Subject, answer, report_of


def test_every_code_of_the_engine_has_a_code_of_s3() -> None:
    of_client = {
        *(Code.CERTIFICATE_REFUSED, Code.TIMED_OUT, Code.CHECK_FAILED, Code.TRANSFER_FAILED)
    }  # only the client raises them
    assert set(OF_ENGINE) == set(Code) - of_client
    assert set(OF_ENGINE.values()) <= set(CODES)


def test_only_failures_of_the_service_have_a_status_that_clients_retry() -> None:
    retried = {code for code, kind in CODES.items() if kind.status >= 500}
    assert retried == {
        "InternalError",
        "NotImplemented",  # clients do not retry 501
        "ServiceUnavailable",
        "SlowDown",
        "StorageFull",
    }


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (S3Error("NoSuchUpload"), 404, "NoSuchUpload"),
        (NotFound("x", Code.PATH_NOT_FOUND), 404, "NoSuchKey"),
        (NotFound("x", Code.BRANCH_NOT_FOUND), 404, "NoSuchBucket"),
        (Refused("x", Code.PROTECTED_WRITE), 403, "ErrWriteToProtectedBranch"),
        (Contended("x"), 503, "SlowDown"),
        (OutcomeUnknown("x"), 503, "ServiceUnavailable"),
        (StorageFull("x"), 507, "StorageFull"),
        (Internal("x"), 500, "InternalError"),
        (KeyError("x"), 500, "InternalError"),
    ],
)
def test_an_error_is_answered_with_its_status_and_code(
    error: Exception, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        told = answer(error, Subject("lake", "main", "a&b"), "id-1", "s3:GetObject")
    assert told.status == status
    assert isinstance(told.body, bytes)
    root = ElementTree.fromstring(told.body)
    texts = {child.tag: child.text for child in root}
    assert texts["Code"] == code
    assert texts["Key"] == "a&b"
    assert (texts["BucketName"], texts["Resource"]) == ("lake", "main@lake")
    assert texts["RequestId"] == texts["HostId"] == "id-1"


def test_a_bug_is_answered_without_details_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    told = answer(ValueError("secret detail"), Subject(), "id-2", "s3:GetObject")
    assert isinstance(told.body, bytes)
    assert b"secret detail" not in told.body
    (record,) = caplog.records
    assert (record.request_id, record.operation) == ("id-2", "s3:GetObject")  # type: ignore[attr-defined]


def test_a_client_is_told_when_to_come_back() -> None:
    assert (b"retry-after", b"1") in answer(Unavailable("x"), Subject(), "", "").headers
    assert (b"retry-after", b"17") in answer(Throttled("x", 17), Subject(), "", "").headers


def test_a_range_outside_an_object_names_its_size() -> None:
    told = answer(RangeUnsatisfiable("x", 3), Subject(), "", "")
    assert told.status == 416
    assert (b"content-range", b"bytes */3") in told.headers
    assert isinstance(told.body, bytes) and b"<ActualObjectSize>3</ActualObjectSize>" in told.body


def test_only_the_texts_of_arguments_and_permissions_reach_the_client() -> None:
    assert report_of(Refused("permission missing: fs:ReadObject on x")).message.endswith("on x")
    assert "secret" not in report_of(NotFound("secret", Code.PATH_NOT_FOUND)).message
