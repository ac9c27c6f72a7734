/** The uncommitted changes of a branch: review, reset, commit. */
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useLoad } from "../api/load";
import { go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { Button } from "../parts/button";
import { Dialog } from "../parts/dialog";
import { DiffTree, type Source, uncommitted } from "../parts/difftree";
import { type Change, Totals } from "../parts/facts";
import { Form } from "../parts/form";
import { MessageFields, metadataOf } from "../parts/message";
import { Page } from "../parts/page";
import { RefPicker, useRefOrDefault } from "../parts/refs";
import { repositoryArn, useRights } from "../parts/rights";
import { Empty, Failure, Show } from "../parts/states";
import { sh, short, visible } from "../parts/text";

export function Changes({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const asked = query.value.get("ref") ?? "";
  const [branch, about] = useRefOrDefault(repo, asked);
  if (branch) return <OfBranch repo={repo} branch={branch} key={branch} />;
  return (
    <Page title="Changes">
      <Show of={about}>{() => null}</Show>
    </Page>
  );
}

function OfBranch({ repo, branch }: { repo: string; branch: string }) {
  const [turn, setTurn] = useState(0);
  const [resetting, setResetting] = useState<string | undefined>();
  const place = { repository: repo, branch };
  const total = useLoad(`uncommitted ${repo} ${branch} ${turn}`, (signal) =>
    api("GET /repositories/{repository}/branches/{branch}/diff/summary", place, {
      query: { delimiter: "", amount: 1000, sizes: false },
      signal,
    }),
  );
  const arn = repositoryArn(`${repo}/branch/${branch}`);
  const may = useRights([
    ["fs:CreateCommit", arn],
    ["fs:RevertBranch", arn],
  ]);
  const source: Source = {
    ...uncommitted(repo, branch, turn),
    link: (file) => inRepository(repo, "compare", { ref: `${branch}@`, compare: branch, file }),
    actions: (path) => (
      <Button
        kind="quiet"
        icon="undo"
        label={`Reset ${path}`}
        off={may("fs:RevertBranch")}
        onClick={() => setResetting(path)}
      />
    ),
  };
  const commit = async (fields: Record<string, string>) => {
    const made = await api("POST /repositories/{repository}/branches/{branch}/commits", place, {
      body: { message: fields.message ?? "", metadata: metadataOf(fields) },
    });
    say(`Commit ${short(made.id)} is on ${branch}.`, {
      href: inRepository(repo, `commits/${made.id}`),
      text: "Look at it",
    });
    go(inRepository(repo, "objects", { ref: branch }));
  };
  const sums = sum(total.data?.results ?? []);
  const isClean = total.data?.results.length === 0;
  return (
    <Page
      title={`Changes on ${branch}`}
      heading={<>Uncommitted changes</>}
      command={sh`graveler status ${repo}/${branch}`}
    >
      <div class="toolbar">
        <RefPicker
          repo={repo}
          value={branch}
          label="Branch"
          onlyBranches
          onPick={(ref) => go(inRepository(repo, "objects", { ref, showChanges: true }))}
        />
        {total.data && !isClean && (
          <span>
            <Totals {...sums} />
            {!total.data.complete && <span class="faint"> in the first 1,000</span>}
          </span>
        )}
        <span class="space" />
        {!isClean && total.data && (
          <Button
            kind="danger"
            icon="undo"
            off={may("fs:RevertBranch")}
            onClick={() => setResetting("")}
          >
            Reset all
          </Button>
        )}
      </div>
      <Failure of={total} />
      <div class={isClean ? undefined : "columns"}>
        <DiffTree
          of={source}
          empty={
            <Empty
              icon="check"
              title={`${visible(branch)} has no uncommitted changes`}
              command={sh`graveler cp FILE lakefs://${repo}/${branch}/FILE`}
            >
              <p>Uploads and deletions stand here until they are committed.</p>
            </Empty>
          }
        />
        {!isClean && total.data && (
          <section class="card" aria-label="Commit">
            <Form action={`Commit to ${branch}`} off={may("fs:CreateCommit")} submit={commit}>
              <MessageFields />
            </Form>
          </section>
        )}
      </div>
      {resetting !== undefined && (
        <Reset
          repo={repo}
          branch={branch}
          path={resetting}
          onClose={() => setResetting(undefined)}
          onDone={() => {
            setResetting(undefined);
            setTurn(turn + 1);
          }}
        />
      )}
    </Page>
  );
}

type Sums = Record<Exclude<Change, "prefix_changed">, number>;

function sum(lines: readonly Sums[]): Sums {
  const all: Sums = { added: 0, changed: 0, removed: 0, conflict: 0 };
  for (const line of lines) {
    all.added += line.added;
    all.changed += line.changed;
    all.removed += line.removed;
  }
  return all;
}

function Reset(props: {
  readonly repo: string;
  readonly branch: string;
  readonly path: string;
  onClose(): void;
  onDone(): void;
}) {
  const { repo, branch, path } = props;
  const type = path === "" ? "reset" : path.endsWith("/") ? "common_prefix" : "object";
  const submit = async () => {
    await api(
      "PUT /repositories/{repository}/branches/{branch}",
      { repository: repo, branch },
      { body: { type, ...(path && { path }) } },
    );
    say(path ? `${path} is as in the last commit.` : `${branch} is as in its last commit.`);
    props.onDone();
  };
  return (
    <Dialog title="Discard uncommitted changes" onClose={props.onClose}>
      <Form action="Discard" danger submit={submit} onCancel={props.onClose}>
        <p>
          {path ? (
            <>
              <code>{visible(path)}</code> becomes as in the last commit of {visible(branch)}.
            </>
          ) : (
            <>Everything that is not committed on {visible(branch)} is discarded.</>
          )}{" "}
          Nobody can bring these changes back.
        </p>
      </Form>
    </Dialog>
  );
}
