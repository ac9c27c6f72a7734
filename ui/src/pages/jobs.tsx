/** Work that outlives its request: imports, long commits and merges, dumps, collections. */
import { api, type Job } from "../api/client";
import { type Loaded, useLoad } from "../api/load";
import { usePoll } from "../api/poll";
import { changed, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { Button } from "../parts/button";
import { CommitLink, Facts, Time } from "../parts/facts";
import { Icon } from "../parts/icons";
import { Page } from "../parts/page";
import { Empty, Show } from "../parts/states";
import { visible } from "../parts/text";

const GOES_ON: readonly Job["state"][] = ["queued", "running", "landing"];
const goesOn = (job: Job): boolean => GOES_ON.includes(job.state);
const seconds = (time: string): number => Date.parse(time) / 1000;

export function Jobs({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const after = query.value.get("after") ?? "";
  const listed = useLoad(`jobs ${repo} ${after}`, (signal) =>
    api(
      "GET /repositories/{repository}/jobs",
      { repository: repo },
      {
        query: { after, amount: 50 },
        signal,
      },
    ),
  );
  usePoll(Boolean(listed.data?.results.some(goesOn)), listed.reload);
  return (
    <Page title="Jobs" command={`graveler jobs list ${repo}`}>
      <Show of={listed}>
        {(page) =>
          page.results.length ? (
            <>
              <table class="list">
                <thead>
                  <tr>
                    <th scope="col">Kind</th>
                    <th scope="col">Branch</th>
                    <th scope="col">Progress</th>
                    <th scope="col" class="right wide-only">
                      Began
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {page.results.map((job) => (
                    <tr key={job.id} data-row>
                      <td>
                        <a class="name" href={inRepository(repo, `jobs/${job.id}`)}>
                          <Icon name="job" />
                          <span>{visible(job.kind)}</span>
                        </a>
                        <State of={job.state} />
                      </td>
                      <td>{visible(job.branch ?? "")}</td>
                      <td>
                        <Progress of={job} />
                      </td>
                      <td class="right faint nowrap wide-only">
                        <Time at={seconds(job.create_time)} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {page.pagination.has_more && (
                <nav class="pager" aria-label="Pages of the list">
                  <a class="button" href={changed({ after: page.pagination.next_offset })}>
                    Older jobs
                  </a>
                </nav>
              )}
            </>
          ) : (
            <Empty icon="job" title="No job" command={`graveler import ${repo}/main --help`}>
              <p>Imports, long commits and merges, dumps and collections stand here.</p>
            </Empty>
          )
        }
      </Show>
    </Page>
  );
}

function State({ of }: { of: Job["state"] }) {
  const kind = of === "failed" || of === "expired" ? "bad" : of === "done" ? "good" : "";
  return <span class={`badge ${kind}`}>{of}</span>;
}

function Progress({ of }: { of: Job }) {
  const { progress } = of;
  if (!progress) return <span class="faint">—</span>;
  const rate = goesOn(of) && progress.per_second > 0;
  return (
    <span class="nowrap">
      {progress.done.toLocaleString("en")} {visible(progress.unit)}
      {rate && (
        <span class="faint"> · {Math.round(progress.per_second).toLocaleString("en")}/s</span>
      )}
    </span>
  );
}

export function JobPage({ params }: { params: Params }) {
  const { repo = "", id = "" } = params;
  const loaded = useLoad(`job ${repo} ${id}`, (signal) =>
    api("GET /repositories/{repository}/jobs/{id}", { repository: repo, id }, { signal }),
  );
  usePoll(Boolean(loaded.data && goesOn(loaded.data)), loaded.reload);
  const { data } = loaded;
  return (
    <Page
      title={data ? `Job: ${data.kind}` : "Job"}
      command={`graveler jobs show ${repo} ${id}`}
      actions={data && goesOn(data) && <Cancel repo={repo} of={data} all={loaded} />}
    >
      <Show of={loaded}>
        {(job) => (
          <div aria-live="polite">
            <Facts
              of={[
                ["State", <State key="s" of={job.state} />],
                ["Branch", visible(job.branch ?? "none")],
                ["Progress", <Progress key="p" of={job} />],
                ["Began", <Time key="b" at={seconds(job.create_time)} />],
                ["Last sign of life", <Time key="u" at={seconds(job.update_time)} />],
                ["Attempts", String(job.attempts)],
                ...(job.waits_for ? [["Waits for", visible(job.waits_for)] as const] : []),
                ...(job.commit_id
                  ? [["Commit", <CommitLink key="c" repo={repo} id={job.commit_id} />] as const]
                  : []),
                ...(job.error ? [["Error", visible(job.error.message)] as const] : []),
              ]}
            />
          </div>
        )}
      </Show>
    </Page>
  );
}

function Cancel({ repo, of, all }: { repo: string; of: Job; all: Loaded<Job> }) {
  const cancel = async () => {
    await api("DELETE /repositories/{repository}/jobs/{id}", { repository: repo, id: of.id });
    say("The job is being cancelled.");
    all.reload();
  };
  return (
    <Button
      kind="danger"
      icon="close"
      off={of.cancellable ? "" : "this kind of job cannot be cancelled"}
      onClick={cancel}
    >
      Cancel
    </Button>
  );
}
