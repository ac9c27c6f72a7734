/** Branches: list, create, delete; the way to a merge. */
import { useState } from "preact/hooks";
import { api, type Ref } from "../api/client";
import { type Loaded, useLoad } from "../api/load";
import { change, go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { Button, ButtonLink } from "../parts/button";
import { Dialog } from "../parts/dialog";
import { CommitLink } from "../parts/facts";
import { Field, Form } from "../parts/form";
import { Icon } from "../parts/icons";
import { Page } from "../parts/page";
import { NextPage, PrefixFilter } from "../parts/paged";
import { RefPicker } from "../parts/refs";
import { type Pair, repositoryArn, useRights } from "../parts/rights";
import { Empty, Show } from "../parts/states";
import { sh, visible } from "../parts/text";

export function Branches({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const prefix = query.value.get("search") ?? "";
  const after = query.value.get("after") ?? "";
  const [deleting, setDeleting] = useState<string | undefined>();
  const about = useLoad(`repository ${repo}`, (signal) =>
    api("GET /repositories/{repository}", { repository: repo }, { signal }),
  );
  const listed = useLoad(`branches ${repo} ${prefix} ${after}`, (signal) =>
    api(
      "GET /repositories/{repository}/branches",
      { repository: repo },
      {
        query: { prefix, after, amount: 100 },
        signal,
      },
    ),
  );
  const main = about.data?.default_branch ?? "";
  const arn = (branch: string) => repositoryArn(`${repo}/branch/${branch}`);
  const deletions = (listed.data?.results ?? []).map(
    ({ id }): Pair => ["fs:DeleteBranch", arn(id)],
  );
  const may = useRights(listed.data ? [["fs:CreateBranch", arn(""), "some"], ...deletions] : []);
  return (
    <Page
      title="Branches"
      command={sh`graveler branch list ${repo}`}
      actions={
        <>
          <PrefixFilter />
          <Button
            kind="primary"
            icon="plus"
            off={may("fs:CreateBranch")}
            onClick={() => change({ create: true })}
          >
            New branch
          </Button>
        </>
      }
    >
      <Show of={listed}>
        {(page) => (
          <>
            {page.results.length ? (
              <table class="list">
                <thead>
                  <tr>
                    <th scope="col">Name</th>
                    <th scope="col" class="wide-only">
                      Commit
                    </th>
                    <th scope="col">
                      <span class="hidden">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {page.results.map((branch) => (
                    <Row
                      key={branch.id}
                      repo={repo}
                      of={branch}
                      main={main}
                      off={may("fs:DeleteBranch", arn(branch.id))}
                      onDelete={() => setDeleting(branch.id)}
                    />
                  ))}
                </tbody>
              </table>
            ) : (
              <Empty icon="search" title={`No branch begins with “${visible(prefix)}”`} />
            )}
            <NextPage of={page.pagination} />
          </>
        )}
      </Show>
      {query.value.get("create") && <Create repo={repo} main={main} of={listed} />}
      {deleting && (
        <Delete
          repo={repo}
          branch={deleting}
          onClose={() => setDeleting(undefined)}
          onDone={() => {
            setDeleting(undefined);
            listed.reload();
          }}
        />
      )}
    </Page>
  );
}

function Row(props: { repo: string; of: Ref; main: string; off: string; onDelete(): void }) {
  const { repo, of, main } = props;
  const isMain = of.id === main;
  return (
    <tr data-row>
      <td>
        <a class="name" href={inRepository(repo, "objects", { ref: of.id })}>
          <Icon name="branch" />
          <span>{visible(of.id)}</span>
        </a>
        {isMain && <span class="badge">default</span>}
      </td>
      <td class="wide-only">
        <CommitLink repo={repo} id={of.commit_id} />
      </td>
      <td>
        <div class="actions right-aligned">
          <a
            class="button quiet only-icon"
            href={inRepository(repo, "objects", { ref: of.id, use: true })}
            aria-label={`Use ${visible(of.id)}`}
          >
            <Icon name="code" />
          </a>
          {!isMain && main && (
            <ButtonLink
              icon="merge"
              href={inRepository(repo, "compare", { ref: main, compare: of.id })}
            >
              Merge<span class="wide-only"> into {visible(main)}</span>
            </ButtonLink>
          )}
          <Button
            kind="quiet"
            icon="trash"
            label={`Delete ${of.id}`}
            off={isMain ? "the default branch stays" : props.off}
            onClick={props.onDelete}
          />
        </div>
      </td>
    </tr>
  );
}

function Create(props: { repo: string; main: string; of: Loaded<unknown> }) {
  const { repo, main } = props;
  const [source, setSource] = useState(query.value.get("source") ?? "");
  const close = () => change({ create: undefined, source: undefined }, { replace: true });
  const submit = async (fields: Record<string, string>) => {
    const name = fields.name ?? "";
    await api(
      "POST /repositories/{repository}/branches",
      { repository: repo },
      {
        body: { name, source: source || main },
      },
    );
    say(`Branch ${name} is created.`);
    go(inRepository(repo, "objects", { ref: name }));
  };
  return (
    <Dialog title="New branch" onClose={close}>
      <Form action="Create the branch" submit={submit} onCancel={close}>
        <Field label="Name" name="name" required focus />
        <div>
          <RefPicker repo={repo} value={source || main} label="From" onPick={setSource} />
        </div>
      </Form>
    </Dialog>
  );
}

function Delete(props: { repo: string; branch: string; onClose(): void; onDone(): void }) {
  const { repo, branch } = props;
  const submit = async () => {
    await api("DELETE /repositories/{repository}/branches/{branch}", { repository: repo, branch });
    say(`Branch ${branch} is deleted.`);
    props.onDone();
  };
  return (
    <Dialog title={`Delete ${branch}`} onClose={props.onClose}>
      <Form action="Delete the branch" danger submit={submit} onCancel={props.onClose}>
        <p>
          Its uncommitted changes go with it. Its commits stay while another branch or tag leads to
          them. For a while, <code>graveler undo</code> brings the branch back.
        </p>
      </Form>
    </Dialog>
  );
}
