/** Branches: list, create, delete; the way to a merge. */
import { useRef, useState } from "preact/hooks";
import { api, type Ref } from "../api/client";
import { useLoad } from "../api/load";
import { change, go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { Button, ButtonLink } from "../parts/button";
import { Dialog } from "../parts/dialog";
import { CommitLink } from "../parts/facts";
import { Field, Form } from "../parts/form";
import { List } from "../parts/list";
import { Page } from "../parts/page";
import { NextPage, PrefixFilter } from "../parts/paged";
import { RefPicker, useRefOrDefault } from "../parts/refs";
import { ASKING, type Pair, repositoryArn, useRights } from "../parts/rights";
import { useInSight } from "../parts/sight";
import { Empty, Failure, Show } from "../parts/states";
import { sh, visible } from "../parts/text";
import { UseLink } from "../parts/use";
import { type Distance, distances, textOf } from "../pictures/distance";

/** The rights of one page are asked for at once. */
const AMOUNT = 50;
const GRAPH_AMOUNT = 500;

export function Branches({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const prefix = query.value.get("search") ?? "";
  const after = query.value.get("after") ?? "";
  const [deleting, setDeleting] = useState<Ref | undefined>();
  const [main, about] = useRefOrDefault(repo, "");
  const listed = useLoad(`branches ${repo} ${prefix} ${after}`, (signal) =>
    api(
      "GET /repositories/{repository}/branches",
      { repository: repo },
      {
        query: { prefix, after, amount: AMOUNT },
        signal,
      },
    ),
  );
  const far = useDistances(repo, main, listed.data?.results);
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
      {!listed.error && <Failure of={about} />}
      <Show of={listed}>
        {(page) => (
          <>
            {page.results.length ? (
              <List
                of={page.results}
                icon="branch"
                linkOf={({ id }) => inRepository(repo, "objects", { ref: id })}
                badge={({ id }) => (
                  <>
                    {id === main && <span class="badge">default</span>}
                    <Dirty repo={repo} branch={id} />
                  </>
                )}
                columns={[
                  {
                    title: main ? `Against ${visible(main)}` : "Distance",
                    class: "wide-only faint nowrap",
                    cell: ({ id }) => (id === main ? "" : textOf(far.get(id))),
                  },
                  {
                    title: "Commit",
                    class: "wide-only",
                    cell: (branch) => <CommitLink repo={repo} id={branch.commit_id} />,
                  },
                  {
                    title: "Actions",
                    hidden: true,
                    cell: (branch) => (
                      <Actions
                        repo={repo}
                        branch={branch.id}
                        main={main}
                        off={may("fs:DeleteBranch", arn(branch.id))}
                        onDelete={() => setDeleting(branch)}
                      />
                    ),
                  },
                ]}
              />
            ) : (
              <Empty icon="search" title={`No branch begins with “${visible(prefix)}”`} />
            )}
            <NextPage of={page.pagination} />
          </>
        )}
      </Show>
      {query.value.get("create") && (
        <Create repo={repo} main={main} unknown={about.error?.message} />
      )}
      {deleting && (
        <Delete
          repo={repo}
          of={deleting}
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

/** How far each branch is from the default branch. */
function useDistances(repo: string, main: string, branches: readonly Ref[] | undefined) {
  const heads = [...new Set([main, ...(branches ?? []).map(({ id }) => id)])];
  const key = main && branches ? `distances ${repo} ${JSON.stringify(branches)}` : "";
  const loaded = useLoad(key, async (signal) => {
    const query = { heads, amount: GRAPH_AMOUNT };
    const place = { repository: repo };
    const page = await api("GET /repositories/{repository}/graph", place, { query, signal });
    const { ids, parents } = page.commits;
    return distances(heads, page.heads, new Map(ids.map((id, at) => [id, parents[at] ?? []])));
  });
  return loaded.data ?? new Map<string, Distance>();
}

/** Whether a branch has uncommitted changes; asked for when its row is in sight. */
function Dirty({ repo, branch }: { repo: string; branch: string }) {
  const element = useRef<HTMLSpanElement>(null);
  const isSeen = useInSight(element, { once: true });
  const named = useLoad(isSeen ? `ref ${repo} ${branch}` : "", (signal) =>
    api("GET /repositories/{repository}/refs/{ref}", { repository: repo, ref: branch }, { signal }),
  );
  return (
    <span ref={element}>
      {named.data?.dirty && (
        <a
          class="badge changed"
          href={inRepository(repo, "objects", { ref: branch, showChanges: true })}
          title="It has changes that no commit has"
        >
          uncommitted
        </a>
      )}
    </span>
  );
}

function Actions(props: {
  repo: string;
  branch: string;
  main: string;
  off: string;
  onDelete(): void;
}) {
  const { repo, branch, main } = props;
  const isMain = branch === main;
  return (
    <div class="actions right-aligned">
      <UseLink repo={repo} ref_={branch} />
      {!isMain && main && (
        <ButtonLink
          icon="merge"
          href={inRepository(repo, "compare", { ref: main, compare: branch })}
        >
          Merge<span class="wide-only"> into {visible(main)}</span>
        </ButtonLink>
      )}
      <Button
        kind="quiet"
        icon="trash"
        label={`Delete ${branch}`}
        off={isMain ? "the default branch stays" : props.off}
        onClick={props.onDelete}
      />
    </div>
  );
}

/** `unknown`: why the default branch could not be loaded. */
function Create(props: { repo: string; main: string; unknown: string | undefined }) {
  const { repo, main } = props;
  const [source, setSource] = useState(query.value.get("source") ?? "");
  const close = () =>
    change({ create: undefined, name: undefined, source: undefined }, { replace: true });
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
      <Form
        action="Create the branch"
        off={source || main ? undefined : (props.unknown ?? ASKING)}
        submit={submit}
        onCancel={close}
      >
        <Field label="Name" name="name" value={query.value.get("name") ?? ""} required focus />
        <div>
          <RefPicker repo={repo} value={source || main} label="From" onPick={setSource} />
        </div>
      </Form>
    </Dialog>
  );
}

function Delete(props: { repo: string; of: Ref; onClose(): void; onDone(): void }) {
  const { repo } = props;
  const { id: branch, commit_id: source } = props.of;
  const submit = async () => {
    await api("DELETE /repositories/{repository}/branches/{branch}", { repository: repo, branch });
    say(`Branch ${branch} is deleted.`, {
      href: inRepository(repo, "branches", { create: true, name: branch, source }),
      text: "Bring it back",
    });
    props.onDone();
  };
  return (
    <Dialog title={`Delete ${branch}`} onClose={props.onClose}>
      <Form action="Delete the branch" danger submit={submit} onCancel={props.onClose}>
        <p>
          Its uncommitted changes go with it. Its commits stay while another branch or tag leads to
          them; until a collection finds that nothing does, a new branch brings them back.
        </p>
      </Form>
    </Dialog>
  );
}
