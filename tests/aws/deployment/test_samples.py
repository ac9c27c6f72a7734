"""Sample data through the deployed stack: the function brings the files, within its time."""

import lakefs
import pytest
from lakefs.client import Client

from graveler.api import repositories
from tests.aws.deployment.conftest import Stack

pytestmark = pytest.mark.xdist_group("stack")


def test_a_repository_with_sample_data(stack: Stack, client: Client) -> None:
    repo = lakefs.Repository("sampled", client=client)
    main = repo.create(f"{stack.namespace}/sampled", include_samples=True).branch("main")
    found = {each.path: each.size_bytes for each in main.objects()}
    files = {each.path: each.body for each in repositories.content("").files}
    assert found == {path: len(body) for path, body in files.items()}
    with main.object("images/index.csv").reader(mode="rb") as reader:
        assert reader.read() == files["images/index.csv"]
    assert main.get_commit().message == "Add sample data"
