/** Runs of the actions of a repository: which hooks ran, what they said, and why one refused. */
import { useState } from "preact/hooks";
import { type ActionRun, api, type HookRun } from "../api/client";
import { useLoad } from "../api/load";
import { changed, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { CommitLink, Facts, Time } from "../parts/facts";
import { Icon } from "../parts/icons";
import { Page } from "../parts/page";
import { Empty, Show } from "../parts/states";
import { visible } from "../parts/text";

const seconds = (time: string): number => Date.parse(time) / 1000;

export function Actions({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const [branch, commit, after] = ["branch", "commit", "after"].map(
    (name) => query.value.get(name) ?? "",
  ) as [string, string, string];
  const listed = useLoad(`runs ${repo} ${branch} ${commit} ${after}`, (signal) =>
    api(
      "GET /repositories/{repository}/actions/runs",
      { repository: repo },
      {
        query: { branch, commit, after, amount: 50 },
        signal,
      },
    ),
  );
  return (
    <Page title="Actions" command={`graveler actions list ${repo}`}>
      <Show of={listed}>
        {(page) =>
          page.results.length ? (
            <>
              <Runs repo={repo} of={page.results} />
              {page.pagination.has_more && (
                <nav class="pager" aria-label="Pages of the list">
                  <a class="button" href={changed({ after: page.pagination.next_offset })}>
                    Older runs
                  </a>
                </nav>
              )}
            </>
          ) : (
            <Empty icon="play" title="No action has run">
              <p>
                A file in the folder <code>_lakefs_actions/</code> of a branch names hooks that run
                before or after commits and merges.
              </p>
            </Empty>
          )
        }
      </Show>
    </Page>
  );
}

export function Badge({ status }: { status: string }) {
  return <span class={`badge ${status === "failed" ? "bad" : "good"}`}>{status}</span>;
}

function Runs({ repo, of }: { repo: string; of: readonly ActionRun[] }) {
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Event</th>
          <th scope="col">Branch</th>
          <th scope="col" class="wide-only">
            Commit
          </th>
          <th scope="col" class="right">
            Began
          </th>
        </tr>
      </thead>
      <tbody>
        {of.map((run) => (
          <tr key={run.run_id} data-row>
            <td>
              <a class="name" href={inRepository(repo, `actions/${run.run_id}`)}>
                <Icon name="play" />
                <span>{visible(run.event_type)}</span>
              </a>
              <Badge status={run.status} />
            </td>
            <td>{visible(run.branch)}</td>
            <td class="wide-only">
              {run.commit_id && <CommitLink repo={repo} id={run.commit_id} />}
            </td>
            <td class="right faint nowrap">
              <Time at={seconds(run.start_time)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Run({ params }: { params: Params }) {
  const { repo = "", id = "" } = params;
  const place = { repository: repo, run_id: id };
  const loaded = useLoad(`run ${repo} ${id}`, async (signal) => {
    const [run, hooks] = await Promise.all([
      api("GET /repositories/{repository}/actions/runs/{run_id}", place, { signal }),
      api("GET /repositories/{repository}/actions/runs/{run_id}/hooks", place, {
        query: { amount: 1000 },
        signal,
      }),
    ]);
    return { run, hooks: hooks.results };
  });
  return (
    <Page title={`Run ${id}`} command={`graveler actions show ${repo} ${id}`}>
      <Show of={loaded}>
        {({ run, hooks }) => (
          <>
            <Facts
              of={[
                ["State", <Badge key="s" status={run.status} />],
                ["Event", visible(run.event_type)],
                ["Branch", visible(run.branch)],
                ["Commit", run.commit_id ? <CommitLink repo={repo} id={run.commit_id} /> : "none"],
                ["Began", <Time key="b" at={seconds(run.start_time)} />],
              ]}
            />
            <section class="section">
              <h2>Hooks</h2>
              {hooks.map((hook) => (
                <Hook key={hook.hook_run_id} repo={repo} run={id} of={hook} />
              ))}
              {!hooks.length && <p class="faint">No hook ran.</p>}
            </section>
          </>
        )}
      </Show>
    </Page>
  );
}

function Hook({ repo, run, of }: { repo: string; run: string; of: HookRun }) {
  const [open, setOpen] = useState(of.status === "failed");
  const log = useLoad(open ? `hook ${repo} ${run} ${of.hook_run_id}` : "", (signal) =>
    api(
      "GET /repositories/{repository}/actions/runs/{run_id}/hooks/{hook_run_id}/output",
      { repository: repo, run_id: run, hook_run_id: of.hook_run_id },
      { signal },
    ),
  );
  return (
    <div class="hook">
      <button type="button" class="name folder" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? "down" : "right"} />
        <span>
          {visible(of.action)} / {visible(of.hook_id)}
        </span>
        <Badge status={of.status} />
      </button>
      {open && (
        <Show of={log} rows={3}>
          {(text) => (
            <div class="code" tabIndex={0} role="region" aria-label={`Log of ${of.hook_id}`}>
              <pre>{String(text).split("\n").map(visible).join("\n") || "(no output)"}</pre>
            </div>
          )}
        </Show>
      )}
    </div>
  );
}
