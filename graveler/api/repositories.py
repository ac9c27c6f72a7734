"""Endpoints of repositories and their metadata."""

from typing import Final

from graveler.api import answers, samples, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.engine.commits import adopt
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.errors import Invalid
from graveler.records import ABSENT

_DEFAULT_BRANCH: Final = "main"


def list_repositories(call: Call) -> Answer:
    query = call.query
    repos, more = repository.list_page(
        call.ports, query["prefix"], query["search"], query["after"], call.amount
    )
    return answers.page(
        [shapes.repository(each) for each in repos], more, repos[-1].id if repos else ""
    )


def create_repository(call: Call) -> Answer:
    body, bare = call.body, call.query["bare"]
    namespace = body["storage_namespace"]
    scheme = f"{call.service.settings.blockstore_type}://"
    if not namespace.startswith(scheme):
        raise Invalid(f"failed to match required regex ^{scheme}: invalid namespace")
    if body.get("storage_id", ""):
        raise Invalid("storage_id invalid: it must be empty, because there is only one storage")
    with_samples = body.get("sample_data", False)
    new = NewRepository(
        name=body["name"],
        namespace=namespace,
        default_branch=body.get("default_branch") or _DEFAULT_BRANCH,
        read_only=body.get("read_only", False),
        bare=bare,
        content=samples.content(call.committer) if with_samples else ABSENT,
        protected=with_samples,
    )
    shape = shapes.repository(repository.create(call.ports, new))
    if bare:
        del shape["read_only"]
    return answers.json(shape, 201)


def get_repository(call: Call) -> Answer:
    return answers.json(shapes.repository(call.repo.record))


def delete_repository(call: Call) -> Answer:
    repository.delete(call.repo, force=call.query["force"])
    return NO_CONTENT


def get_repository_metadata(call: Call) -> Answer:
    return answers.json(repository.metadata(call.repo))


def set_repository_metadata(call: Call) -> Answer:
    repository.set_metadata(call.repo, call.body["metadata"])
    return NO_CONTENT


def delete_repository_metadata(call: Call) -> Answer:
    repository.delete_metadata(call.repo, call.body["keys"])
    return NO_CONTENT


def get_meta_range(call: Call) -> Answer:
    return _location(adopt.metarange_location(call.repo, call.arguments["meta_range"]))


def get_range(call: Call) -> Answer:
    return _location(adopt.range_location(call.repo, call.arguments["range"]))


def _location(location: str) -> Answer:
    return answers.json({"location": location}, 200, (answers.text_header(b"location", location),))
