/** A pull request: what it says, what it changes, whether it can be merged, the merge. */
import { useState } from "preact/hooks";
import { api, type PullRequestShape } from "../api/client";
import { type Loaded, useLoad } from "../api/load";
import { inRepository } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { Button, ButtonLink } from "../parts/button";
import { Comments, useComments } from "../parts/comments";
import { between, DiffTree } from "../parts/difftree";
import { CommitLink, Time, Totals } from "../parts/facts";
import { Moved } from "../parts/moved";
import { Page } from "../parts/page";
import { Prose } from "../parts/prose";
import { repositoryArn, useRights } from "../parts/rights";
import { Empty, Show } from "../parts/states";
import { count, sh, visible } from "../parts/text";

export function Pull({ params }: { params: Params }) {
  const { repo = "", id = "" } = params;
  const loaded = useLoad(`pull ${repo} ${id}`, (signal) =>
    api(
      "GET /repositories/{repository}/pulls/{pull_request}",
      { repository: repo, pull_request: id },
      { signal },
    ),
  );
  return (
    <Page
      title={loaded.data?.title ?? "Pull request"}
      heading={
        loaded.data && (
          <>
            {visible(loaded.data.title)} <State of={loaded.data.status} />
          </>
        )
      }
      command={sh`graveler pr show ${repo} ${id}`}
      actions={loaded.data && <Status repo={repo} of={loaded.data} reload={loaded.reload} />}
    >
      <Show of={loaded}>{(pull) => <Content repo={repo} of={pull} all={loaded} />}</Show>
    </Page>
  );
}

function State({ of }: { of: PullRequestShape["status"] }) {
  return <span class={`badge ${of === "merged" ? "good" : ""}`}>{of}</span>;
}

interface OfPull {
  readonly repo: string;
  readonly of: PullRequestShape;
  reload(): void;
}

function Status({ repo, of, reload }: OfPull) {
  const off = useRights([["pr:WritePullRequest", repositoryArn(repo)]])("pr:WritePullRequest");
  const place = { repository: repo, pull_request: of.id };
  const set = async (status: "open" | "closed") => {
    await api("PATCH /repositories/{repository}/pulls/{pull_request}", place, { body: { status } });
    say(status === "open" ? "The pull request is open again." : "The pull request is closed.");
    reload();
  };
  if (of.status === "open")
    return (
      <Button off={off} onClick={() => set("closed")}>
        Close
      </Button>
    );
  if (of.status === "closed")
    return (
      <Button off={off} onClick={() => set("open")}>
        Open again
      </Button>
    );
  return null;
}

function Content({ repo, of, all }: { repo: string; of: PullRequestShape; all: Loaded<unknown> }) {
  const comments = useComments(repo, of.id);
  const [turn, setTurn] = useState(0); // of what the branches change
  const merged = of.merged_commit_id;
  const sides: [string, string] = merged
    ? [`${merged}~1`, merged]
    : [of.destination_branch, of.source_branch];
  const type = merged ? "two_dot" : "three_dot";
  const link = (file: string) =>
    inRepository(repo, "compare", { ref: sides[0], compare: sides[1], file, pull: of.id });
  const saidOf = (path: string) => {
    const said = comments.data?.filter((each) => each.path === path).length ?? 0;
    return said > 0 && <span class="badge">{count(said, "comment")}</span>;
  };
  return (
    <>
      <p class="faint">
        {visible(of.author)} wants to merge <b>{visible(of.source_branch)}</b> into{" "}
        <b>{visible(of.destination_branch)}</b>, opened{" "}
        <Time at={Date.parse(of.creation_date) / 1000} />
        {of.merged_commit_id && (
          <>
            , merged by the commit <CommitLink repo={repo} id={of.merged_commit_id} />
          </>
        )}
      </p>
      {of.description && (
        <div class="card description">
          <Prose text={of.description} place={{ repo, ref: of.source_branch, path: "" }} />
        </div>
      )}
      {of.status === "open" && (
        <Merging key={turn} {...{ repo, of }} reload={all.reload} again={() => setTurn(turn + 1)} />
      )}
      <section class="section">
        <h2>What it changes</h2>
        <DiffTree
          key={turn}
          of={{ ...between(repo, ...sides, type), link, actions: (path) => saidOf(path) }}
          empty={
            <Empty
              icon="check"
              title={of.merged_commit_id ? "It changed no object" : "There is nothing to merge"}
            />
          }
        />
      </section>
      <Comments repo={repo} pull={of.id} ref_={sides[1]} of={comments} link={link} />
    </>
  );
}

function Merging({ repo, of, reload, again }: OfPull & { again(): void }) {
  const may = useRights([
    ["pr:WritePullRequest", repositoryArn(repo)],
    ["fs:CreateCommit", repositoryArn(`${repo}/branch/${of.destination_branch}`)],
  ]);
  const place = { sourceRef: of.source_branch, destinationBranch: of.destination_branch };
  const preview = useLoad(
    `preview ${repo} ${of.destination_branch} ${of.source_branch}`,
    (signal) =>
      api(
        "GET /repositories/{repository}/refs/{sourceRef}/merge/{destinationBranch}/preview",
        { repository: repo, ...place },
        { query: { amount: 100 }, signal },
      ),
  );
  const merge = async () => {
    const made = await api("PUT /repositories/{repository}/pulls/{pull_request}/merge", {
      repository: repo,
      pull_request: of.id,
    });
    say(`${of.source_branch} is merged into ${of.destination_branch}.`, {
      href: inRepository(repo, `commits/${made.reference}`),
      text: "Look at it",
    });
    reload();
  };
  return (
    <Show of={preview} rows={1}>
      {({ counts, ...heads }) => (
        <>
          <Moved
            repo={repo}
            ref_={of.source_branch}
            shown={heads.source_commit_id}
            onShow={again}
          />
          <Moved
            repo={repo}
            ref_={of.destination_branch}
            shown={heads.destination_commit_id}
            onShow={again}
          />
          <div class={counts.conflict ? "banner" : "banner calm"}>
            <span>
              The merge changes <Totals {...counts} />{" "}
              {counts.conflict > 0 && (
                <strong>{count(counts.conflict, "conflict")} must be resolved first</strong>
              )}
            </span>
            <span class="actions">
              {counts.conflict > 0 && (
                <ButtonLink
                  href={inRepository(repo, "compare", {
                    ref: of.destination_branch,
                    compare: of.source_branch,
                  })}
                >
                  Resolve and merge
                </ButtonLink>
              )}
              <Button
                icon="merge"
                kind="primary"
                off={
                  counts.conflict
                    ? "there are conflicts"
                    : counts.added + counts.changed + counts.removed
                      ? may("pr:WritePullRequest") || may("fs:CreateCommit")
                      : "there is nothing to merge"
                }
                onClick={merge}
              >
                Merge
              </Button>
            </span>
          </div>
        </>
      )}
    </Show>
  );
}
