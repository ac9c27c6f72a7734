"""The CORS rule for the page: one rule of a bucket is Graveler's, the others stay."""

import json
from collections.abc import Callable

import pytest

from graveler.block import s3_cors
from graveler.block.s3_cors import ANY, rule_for, with_rule
from graveler.cli.main import main
from graveler.core.aws import AwsSession
from scripts.deploy import LOCAL_CREDENTIALS, ROOT
from tests.aws.deployment.templates import resources_of

PAGE = "https://lake.example.org"
THEIRS = {
    "ID": "theirs",
    "AllowedOrigins": ["https://other.example.org"],
    "AllowedMethods": ["GET", "DELETE"],
    "AllowedHeaders": [],
    "ExposeHeaders": [],
}


@pytest.fixture
def bucket(session: AwsSession, fresh_name: Callable[[], str]) -> str:
    name = fresh_name()
    session.client("s3").create_bucket(Bucket=name)
    return name


@pytest.fixture
def cors(
    engine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`graveler storage cors` with the AWS configuration of the engine: code, output, errors."""
    for name, value in {**LOCAL_CREDENTIALS, "AWS_ENDPOINT_URL": engine}.items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["storage", "cors", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def rules_of(session: AwsSession, bucket: str) -> list[str]:
    return [rule["ID"] for rule in s3_cors.read(session, bucket)]


def test_the_rule_is_set_once_and_removed_and_others_stay(
    session: AwsSession, bucket: str, cors: Callable[..., tuple[int, str, str]]
) -> None:
    session.client("s3").put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [THEIRS]})
    assert cors(bucket, "--origin", PAGE) == (0, f"{bucket}: a rule for {PAGE}\n", "")
    assert rules_of(session, bucket) == [f"graveler {PAGE}", "theirs"]
    assert cors(bucket, "--origin", PAGE + "/") == (0, f"{bucket}: a rule for {PAGE} already\n", "")
    assert cors(bucket, "--origin", ANY)[0] == 0
    assert rules_of(session, bucket) == [f"graveler {PAGE}", "theirs", "graveler *"]
    assert cors(bucket, "--origin", ANY, "--remove")[:2] == (0, f"{bucket}: no rule for *\n")
    assert cors(bucket, "--origin", PAGE, "--remove")[0] == 0
    assert cors(bucket, "--origin", ANY, "--remove")[:2] == (
        0,
        f"{bucket}: no rule for * already\n",
    )
    assert rules_of(session, bucket) == ["theirs"]


def test_the_last_rule_is_removed_with_the_configuration(
    session: AwsSession, bucket: str, cors: Callable[..., tuple[int, str, str]]
) -> None:
    assert cors(bucket, "--origin", ANY)[0] == 0
    assert cors(bucket, "--origin", ANY, "--remove")[0] == 0
    assert s3_cors.read(session, bucket) == []


def test_a_dry_run_prints_the_configuration_and_sets_nothing(
    session: AwsSession, bucket: str, cors: Callable[..., tuple[int, str, str]]
) -> None:
    code, printed, _ = cors(bucket, "--origin", PAGE, "--dry-run")
    assert code == 0 and s3_cors.read(session, bucket) == []
    session.client("s3").put_bucket_cors(Bucket=bucket, CORSConfiguration=json.loads(printed))
    assert cors(bucket, "--origin", PAGE)[1] == f"{bucket}: a rule for {PAGE} already\n"


def test_a_rule_that_was_changed_by_hand_is_made_whole_again(
    session: AwsSession, bucket: str, cors: Callable[..., tuple[int, str, str]]
) -> None:
    narrow = {**rule_for(PAGE), "AllowedMethods": ["GET"]}
    session.client("s3").put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [narrow]})
    assert cors(bucket, "--origin", PAGE)[1] == f"{bucket}: a rule for {PAGE}\n"
    [rule] = s3_cors.read(session, bucket)
    assert sorted(rule["AllowedMethods"]) == ["GET", "HEAD", "PUT"]


def test_a_bucket_that_is_not_there_is_named(cors: Callable[..., tuple[int, str, str]]) -> None:
    code, _, error = cors("nowhere-at-all", "--origin", PAGE)
    assert code == 1 and "nowhere-at-all" in error


def test_the_first_rule_that_fits_is_the_one_of_the_page() -> None:
    """S3 follows the first rule that fits, so a rule for all other pages must not come before."""
    everybody = {**THEIRS, "AllowedOrigins": ["*"]}
    assert with_rule([everybody], PAGE) == [rule_for(PAGE), everybody]
    assert with_rule([everybody, rule_for(PAGE)], PAGE) == [rule_for(PAGE), everybody]
    assert with_rule([everybody], ANY) == [everybody, rule_for(ANY)]


def test_the_bucket_of_the_template_has_the_same_rule() -> None:
    [rule] = resources_of(ROOT / "template.yaml")["Data"]["Properties"]["CorsConfiguration"][
        "CorsRules"
    ]
    names = {"ExposedHeaders": "ExposeHeaders", "MaxAge": "MaxAgeSeconds", "Id": "ID"}
    assert {names.get(name, name): value for name, value in rule.items()} == rule_for(ANY)
