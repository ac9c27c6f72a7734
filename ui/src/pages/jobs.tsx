/** Jobs of all kinds: what runs, what waits, what ended in the last day. */
import { api, type Job } from "../api/client";
import { usePolled } from "../api/poll";
import { change, changed, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { Time } from "../parts/facts";
import { Choice } from "../parts/form";
import { Icon } from "../parts/icons";
import { doneText, isOver, KINDS, STATES, StateBadge, seconds } from "../parts/jobs";
import { Page } from "../parts/page";
import { Empty, Show } from "../parts/states";
import { sh, visible } from "../parts/text";

const any = (values: readonly string[]) => [
  ["", "any"] as const,
  ...values.map((value) => [value, value] as const),
];

export function Jobs({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const kind = query.value.get("kind") ?? "";
  const state = STATES.find((each) => each === query.value.get("state")) ?? "";
  const after = query.value.get("after") ?? "";
  const listed = usePolled(
    `jobs ${repo} ${kind} ${state} ${after}`,
    (signal) =>
      api(
        "GET /repositories/{repository}/jobs",
        { repository: repo },
        { query: { kind, state, after, amount: 50 }, signal },
      ),
    (page) => page.results.every(isOver),
  );
  const flags = (kind && sh` --kind ${kind}`) + (state && sh` --state ${state}`);
  return (
    <Page title="Jobs" command={sh`graveler jobs list ${repo}` + flags}>
      <div class="toolbar filters">
        <Choice
          label="Kind"
          name="kind"
          value={kind}
          options={any(KINDS)}
          onInput={(value) => change({ kind: value, after: "" })}
        />
        <Choice
          label="State"
          name="state"
          value={state}
          options={any(STATES)}
          onInput={(value) => change({ state: value, after: "" })}
        />
      </div>
      <Show of={listed}>
        {(page) => (
          <>
            {page.results.length ? (
              <List repo={repo} of={page.results} />
            ) : (
              <NoJobs repo={repo} filtered={Boolean(kind || state)} />
            )}
            <nav class="pager" aria-label="Pages of the list">
              {after && <a href={changed({ after: "" })}>First page</a>}
              {page.pagination.has_more && (
                <a class="button" href={changed({ after: page.pagination.next_offset })}>
                  Next page
                </a>
              )}
            </nav>
          </>
        )}
      </Show>
    </Page>
  );
}

function List({ repo, of }: { repo: string; of: readonly Job[] }) {
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Job</th>
          <th scope="col">State</th>
          <th scope="col" class="wide-only">
            Ordered by
          </th>
          <th scope="col" class="right wide-only">
            Progress
          </th>
          <th scope="col" class="right">
            Begun
          </th>
        </tr>
      </thead>
      <tbody>
        {of.map((job) => (
          <tr data-row key={job.id}>
            <td>
              <a class="name" href={inRepository(repo, `jobs/${encodeURIComponent(job.id)}`)}>
                <Icon name="job" />
                <span>
                  {job.kind}
                  {job.branch && ` on ${visible(job.branch)}`}
                </span>
              </a>
            </td>
            <td>
              <StateBadge of={job.state} />
            </td>
            <td class="wide-only faint cut">{visible(job.committer ?? "")}</td>
            <td class="right nowrap wide-only">{doneText(job)}</td>
            <td class="right nowrap faint">
              <Time at={seconds(job.create_time)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function NoJobs({ repo, filtered }: { repo: string; filtered: boolean }) {
  if (filtered) {
    return (
      <Empty icon="search" title="No job is of this kind and in this state">
        <a href={changed({ kind: "", state: "", after: "" })}>Show all jobs</a>
      </Empty>
    );
  }
  return (
    <Empty
      icon="job"
      title="No job ran in the last day"
      command={sh`graveler import s3://BUCKET/PREFIX/ ${repo}/main/PREFIX/`}
    >
      <p>
        Imports, collections, dumps, and commits that take long are jobs. An ended job stays a day.
      </p>
    </Empty>
  );
}
