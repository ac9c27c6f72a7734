"""Endpoints of branches, tags and refs."""

from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, PLAIN, Answer
from graveler.api.service import Call
from graveler.engine.commits import reset
from graveler.engine.names import branches, refs, tags
from graveler.engine.names.branches import PageQuery
from graveler.errors import Invalid


def _page(call: Call) -> PageQuery:
    return PageQuery(call.query["prefix"], call.query["after"], call.amount)


def list_branches(call: Call) -> Answer:
    views, more = branches.list_branches(
        call.repo, _page(call), show_hidden=call.query["show_hidden"]
    )
    return answers.page(
        [shapes.branch(view) for view in views], more, views[-1].id if views else ""
    )


def create_branch(call: Call) -> Answer:
    """Create a branch.  The answer is the bare commit id as plain text, as clients expect."""
    body = call.body
    commit = branches.create_branch(
        call.repo,
        body["name"],
        body["source"],
        hidden=body.get("hidden", False),
        force=body.get("force", False),
    )
    return Answer(201, PLAIN, commit.encode())


def get_branch(call: Call) -> Answer:
    view = branches.get_branch(call.repo, call.arguments["branch"])
    return answers.json(shapes.branch(view))


def delete_branch(call: Call) -> Answer:
    branch, force = call.arguments["branch"], call.query["force"]
    branches.delete_branch(call.repo, branch, force=force)
    return NO_CONTENT


def reset_branch(call: Call) -> Answer:
    branch, body = call.arguments["branch"], call.body
    kind, path, force = body["type"], body.get("path", ""), body.get("force", False)
    if kind != "reset" and not path:
        raise Invalid(f'request body has an error: property "path" is missing: type={kind}')
    if kind == "reset":
        reset.reset(call.repo, branch, force=force)
    elif kind == "object":
        reset.reset_path(call.repo, branch, path, force=force)
    else:
        reset.reset_prefix(call.repo, branch, path, force=force)
    return NO_CONTENT


def hard_reset_branch(call: Call) -> Answer:
    branch, query = call.arguments["branch"], call.query
    reset.hard_reset(call.repo, branch, query["ref"], force=query["force"])
    return NO_CONTENT


def list_tags(call: Call) -> Answer:
    pairs, more = tags.list_tags(call.repo, _page(call))
    return answers.page(
        [shapes.ref(name, commit) for name, commit in pairs], more, pairs[-1][0] if pairs else ""
    )


def create_tag(call: Call) -> Answer:
    body = call.body
    commit = tags.create_tag(call.repo, body["id"], body["ref"], force=body.get("force", False))
    return answers.json(shapes.ref(body["id"], commit), 201)


def get_tag(call: Call) -> Answer:
    name = call.arguments["tag"]
    return answers.json(shapes.ref(name, tags.get_tag(call.repo, name)))


def delete_tag(call: Call) -> Answer:
    name, force = call.arguments["tag"], call.query["force"]
    tags.delete_tag(call.repo, name, force=force)
    return NO_CONTENT


def get_ref(call: Call) -> Answer:
    text = call.arguments["ref"]
    view = refs.get_ref(call.repo, text)
    shape = {"id": text, "type": view.kind, "commit_id": view.commit, "dirty": view.dirty}
    if view.branch:
        shape["branch"] = view.branch
    return answers.json(shape)
