"""With `Cdn=true` CloudFront keeps the page, and nothing of the API."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from graveler.api.operations import OPERATIONS
from graveler.api.pages import HEALTH_PATH, METRICS_PATH, READY_PATH
from graveler.block.signature import PRESIGNED_PATH
from graveler.core.records import ABSENT
from graveler.ui.assets import PREFIX
from graveler.ui.shell import OPEN_PAGES, Page
from scripts.deploy import ROOT
from tests.aws.deployment.templates import loaded

CACHING_DISABLED = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
ALL_BUT_HOST = "b689b0a8-53d0-40ab-baf2-68738e2966ac"
# Paths beside the page: health, sessions, descriptions, signed URLs.
OTHERS = (HEALTH_PATH, READY_PATH, METRICS_PATH, PRESIGNED_PATH + "x", "/logout", "/openapi.json")


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return loaded(ROOT / "template.yaml")


@pytest.fixture(scope="module")
def behaviours(template: dict[str, Any]) -> dict[str, Any]:
    """What CloudFront does with the paths of each pattern; the empty one: with all others."""
    config = template["Resources"]["Distribution"]["Properties"]["DistributionConfig"]
    kept = {each["PathPattern"]: each for each in config["CacheBehaviors"]}
    return {"": config["DefaultCacheBehavior"], **kept}


def test_nothing_of_the_api_is_kept(behaviours: dict[str, Any]) -> None:
    paths = [f"/api/v1{operation.path}" for operation in OPERATIONS]
    assert len(paths) > 100
    for path in (*paths, *OTHERS):
        for pattern in behaviours:
            assert not pattern or not fnmatchcase(path, pattern), (path, pattern)
    rest = behaviours[""]
    assert (rest["CachePolicyId"], rest["OriginRequestPolicyId"]) == (
        CACHING_DISABLED,
        ALL_BUT_HOST,
    )
    assert set(rest["AllowedMethods"]) >= {"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"}
    assert rest["ViewerProtocolPolicy"] == "https-only"


def test_an_error_is_not_kept(template: dict[str, Any]) -> None:
    config = template["Resources"]["Distribution"]["Properties"]["DistributionConfig"]
    kept = {
        each["ErrorCode"]: each["ErrorCachingMinTTL"] for each in config["CustomErrorResponses"]
    }
    assert set(kept.values()) == {0}
    # All that CloudFront keeps.
    assert set(kept) == {400, 403, 404, 405, 414, 416, *range(500, 505)}


def test_only_the_page_is_kept_and_asked_for_without_a_session(behaviours: dict[str, Any]) -> None:
    own = (PREFIX, "/", *OPEN_PAGES)
    for pattern, behaviour in behaviours.items():
        if pattern:
            assert pattern.rstrip("*") in own or pattern.rstrip("/*") in own, pattern
            assert behaviour["AllowedMethods"] == ["GET", "HEAD"]
            assert "OriginRequestPolicyId" not in behaviour  # which would forward more than the key


def test_the_shell_is_the_same_for_everybody(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<head></head>")
    page = Page(tmp_path)
    plain = page.answer("/repositories/lake/objects", {})
    known = page.answer("/repositories/lake/objects", {b"cookie": b"a=b", b"authorization": b"x"})
    assert plain is not ABSENT and plain == known
    assert b"set-cookie" not in dict(plain.headers)


def test_the_shell_is_kept_for_a_minute_by_its_path(
    template: dict[str, Any], behaviours: dict[str, Any]
) -> None:
    shells = {pattern for pattern, each in behaviours.items() if pattern not in ("", "/_ui/*")}
    assert shells == {"/", "/repositories*", "/auth/*", "/setup"}
    for pattern in shells:
        assert behaviours[pattern]["CachePolicyId"] == {"!Ref": "ShellCache"}
    policy = template["Resources"]["ShellCache"]["Properties"]["CachePolicyConfig"]
    assert policy["MinTTL"] == policy["MaxTTL"] == 60
    key = policy["ParametersInCacheKeyAndForwardedToOrigin"]
    assert key["CookiesConfig"] == {"CookieBehavior": "none"}
    assert key["HeadersConfig"] == {"HeaderBehavior": "none"}
    assert key["QueryStringsConfig"] == {"QueryStringBehavior": "none"}


def test_there_is_none_by_default(template: dict[str, Any]) -> None:
    assert template["Parameters"]["Cdn"]["Default"] == "false"
    assert template["Conditions"]["UseCdn"] == {"!Equals": [{"!Ref": "Cdn"}, "true"]}
    kinds = {
        name: each.get("Condition")
        for name, each in template["Resources"].items()
        if each["Type"].startswith("AWS::CloudFront::")
    }
    assert kinds == {"Distribution": "UseCdn", "ShellCache": "UseCdn"}
    assert template["Outputs"]["CdnUrl"]["Condition"] == "UseCdn"
