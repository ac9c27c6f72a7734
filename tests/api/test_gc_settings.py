"""Rules and settings of garbage collection, by the generated SDK."""

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import ApiException, NotFoundException
from lakefs_sdk.models import (
    GarbageCollectionRule,
    GarbageCollectionRules,
)

from graveler.core import limits

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:lakefs_sdk")

RULES = GarbageCollectionRules(
    default_retention_days=7, branches=[GarbageCollectionRule(branch_id="main", retention_days=30)]
)


@pytest.fixture
def internal(sdk: lakefs_sdk.ApiClient) -> lakefs_sdk.InternalApi:
    return lakefs_sdk.InternalApi(sdk)


def test_the_rules_have_two_paths(
    internal: lakefs_sdk.InternalApi, sdk: lakefs_sdk.ApiClient, repo: str
) -> None:
    repositories = lakefs_sdk.RepositoriesApi(sdk)
    with pytest.raises(NotFoundException):
        internal.internal_get_garbage_collection_rules(repo)
    internal.set_garbage_collection_rules_preflight(repo)
    internal.internal_set_garbage_collection_rules(repo, RULES)
    assert internal.internal_get_garbage_collection_rules(repo) == RULES
    assert repositories.get_gc_rules(repo) == RULES
    internal.internal_delete_garbage_collection_rules(repo)
    with pytest.raises(NotFoundException):
        repositories.get_gc_rules(repo)


def test_the_grace_period_is_longer_than_any_operation(internal: lakefs_sdk.InternalApi) -> None:
    config = internal.get_garbage_collection_config()
    assert config.grace_period == limits.collect_min_age_seconds


def test_lakefs_s_own_collection_is_refused(internal: lakefs_sdk.InternalApi, repo: str) -> None:
    with pytest.raises(ApiException) as refused:
        internal.prepare_garbage_collection_uncommitted(repo)
    assert refused.value.status == 501 and "graveler.spark.collect" in str(refused.value.body)
