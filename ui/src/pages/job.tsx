/** One job: how far it is, what it made or why it failed; cancel. */
import type { ComponentChildren } from "preact";
import { ApiError, api, type Job } from "../api/client";
import { useLoad } from "../api/load";
import { usePolled } from "../api/poll";
import { inRepository } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { Button, ButtonLink, Copy } from "../parts/button";
import { CommitLink, Facts, Time } from "../parts/facts";
import { doneText, isOver, StateBadge, seconds, span } from "../parts/jobs";
import { Page } from "../parts/page";
import { repositoryArn, useRights } from "../parts/rights";
import { ErrorBox, Show } from "../parts/states";
import { count, sh, visible } from "../parts/text";

const SKIPPED = "graveler.import.skipped";

export function JobPage({ params }: { params: Params }) {
  const { repo = "", id = "" } = params;
  const loaded = usePolled(
    `job ${repo} ${id}`,
    (signal) =>
      api("GET /repositories/{repository}/jobs/{id}", { repository: repo, id }, { signal }),
    isOver,
  );
  const job = loaded.data;
  const may = useRights([["fs:UpdateRepository", repositoryArn(repo)]]);
  const cancel = async () => {
    await api("DELETE /repositories/{repository}/jobs/{id}", { repository: repo, id });
    say("The job is cancelled.");
    loaded.reload();
  };
  const title = job ? `${job.kind[0]?.toUpperCase()}${job.kind.slice(1)}` : "Job";
  return (
    <Page
      title={job?.branch ? `${title} on ${job.branch}` : title}
      heading={visible(job?.branch ? `${title} on ${job.branch}` : title)}
      command={sh`graveler jobs show ${repo} ${id}`}
      actions={
        <>
          <ButtonLink icon="job" href={inRepository(repo, "jobs")}>
            All jobs
          </ButtonLink>
          {job && (
            <Button
              kind="danger"
              icon="close"
              off={whyNot(job) || may("fs:UpdateRepository")}
              onClick={cancel}
            >
              Cancel the job
            </Button>
          )}
        </>
      }
    >
      {loaded.late && (
        <p class="banner" role="status">
          <span>No answer just now: {visible(loaded.late.message)} The page goes on asking.</span>
        </p>
      )}
      <Show of={loaded}>{(data) => <Content repo={repo} of={data} />}</Show>
    </Page>
  );
}

function whyNot(job: Job): string {
  if (job.cancellable) return "";
  if (isOver(job)) return "it has ended";
  if (job.waits_for) return "it waits for a bulk job: cancel that one";
  return `a job of the kind ${job.kind} cannot be cancelled in this state`;
}

function Content({ repo, of }: { repo: string; of: Job }) {
  const { progress, error } = of;
  const over = isOver(of);
  const rows: Array<readonly [string, ComponentChildren]> = [
    ["State", <StateBadge key="s" of={of.state} />],
  ];
  if (of.committer) rows.push(["Ordered by", visible(of.committer)]);
  if (progress) rows.push(["Done", doneText(of)]);
  if (progress && progress.per_second > 0) rows.push(["Rate", rateText(progress.per_second)]);
  rows.push(["Begun", <Time key="b" at={seconds(of.create_time)} />]);
  rows.push(
    over
      ? ["Took", span(seconds(of.update_time) - seconds(of.create_time))]
      : ["Last heartbeat", <Time key="h" at={seconds(of.update_time)} />],
  );
  if (of.attempts > 1) rows.push(["Attempts without progress", String(of.attempts)]);
  if (of.waits_for) {
    rows.push([
      "Waits for",
      <a key="w" class="id" href={inRepository(repo, `jobs/${encodeURIComponent(of.waits_for)}`)}>
        {visible(of.waits_for)}
      </a>,
    ]);
  }
  if (of.branch) {
    rows.push([
      "Branch",
      <a key="r" href={inRepository(repo, "objects", { ref: of.branch })}>
        {visible(of.branch)}
      </a>,
    ]);
  }
  if (of.commit_id) rows.push(["Commit", <CommitLink key="c" repo={repo} id={of.commit_id} />]);
  rows.push([
    "Id",
    <span key="i">
      <code>{visible(of.id)}</code>
      <Copy text={of.id} label="Copy the id of the job" />
    </span>,
  ]);
  return (
    <>
      {!over && <progress class="whole" aria-label={`The ${of.kind} runs`} />}
      <p class="hidden" role="status">
        {of.state}
        {progress && `, ${doneText(of)}`}
      </p>
      {error && <ErrorBox error={new ApiError(error.status_code, error.message)} />}
      <Facts of={rows} />
      {!over && of.kind === "import" && (
        <p class="faint">
          The source is listed while the import goes on, so its end is not known before. You can
          leave this page: the job goes on, and the tab “Jobs” leads back.
        </p>
      )}
      {of.kind === "import" && of.commit_id && <Skipped repo={repo} commit={of.commit_id} />}
    </>
  );
}

function rateText(perSecond: number): string {
  if (perSecond < 0.1) return "less than one in 10 seconds";
  return `${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond).toLocaleString("en")} a second`;
}

/** Names of the source that no path can have. */
function Skipped({ repo, commit }: { repo: string; commit: string }) {
  const loaded = useLoad(`commit ${repo} ${commit}`, (signal) =>
    api(
      "GET /repositories/{repository}/commits/{commitId}",
      { repository: repo, commitId: commit },
      { signal },
    ),
  );
  const total = Number(loaded.data?.metadata[SKIPPED] ?? 0);
  if (!total) return null;
  const examples = (loaded.data?.metadata[`${SKIPPED}.examples`] ?? "").split("\n").filter(Boolean);
  return (
    <section class="section">
      <h2>{count(total, "name was", "names were")} skipped</h2>
      <p class="faint">No path can have these names. Rename them in the source to import them.</p>
      <ul class="paths">
        {examples.map((name) => (
          <li key={name}>
            <code>{visible(name)}</code>
          </li>
        ))}
        {total > examples.length && (
          <li class="faint">and {(total - examples.length).toLocaleString("en")} more</li>
        )}
      </ul>
    </section>
  );
}
