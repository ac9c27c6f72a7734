/** Runs of hooks: what was asked before and after commits, merges and other events. */
import { type ActionRun, api, send } from "../api/client";
import { useLoad } from "../api/load";
import { change, changed, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { CommitLink, Time } from "../parts/facts";
import { Icon } from "../parts/icons";
import { StateBadge, seconds, span } from "../parts/jobs";
import { Page } from "../parts/page";
import { Empty, Show } from "../parts/states";
import { sh, short, visible } from "../parts/text";

const NO_COMMIT = /^0*$/;

async function load(repo: string, branch: string, ref: string, after: string, signal: AbortSignal) {
  let commit = ref;
  if (ref && !/^[0-9a-f]{64}$/.test(ref)) {
    const place = { repository: repo, ref };
    commit = (await api("GET /repositories/{repository}/refs/{ref}", place, { signal })).commit_id;
  }
  const response = await send(
    "GET /repositories/{repository}/actions/runs",
    { repository: repo },
    { query: { branch: commit ? "" : branch, commit, after, amount: 50 }, signal },
  );
  const page = (await response.json()) as Awaited<ReturnType<typeof list>>;
  return { ...page, off: response.headers.get("x-graveler-hooks") === "off" };
}

const list = (repository: string) =>
  api("GET /repositories/{repository}/actions/runs", { repository });

export function Actions({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const branch = query.value.get("branch") ?? "";
  const commit = query.value.get("commit") ?? "";
  const after = query.value.get("after") ?? "";
  const listed = useLoad(`runs ${repo} ${branch} ${commit} ${after}`, (signal) =>
    load(repo, branch, commit, after, signal),
  );
  const flags = commit ? sh` --commit ${short(commit)}` : branch && sh`/${branch}`;
  return (
    <Page title="Actions" command={sh`graveler actions list ${repo}` + flags}>
      <div class="toolbar filters">
        <Filter
          label="Branch"
          value={commit ? "" : branch}
          onPick={(value) => change({ branch: value, commit: "", after: "" })}
        />
        <Filter
          label="Commit"
          value={commit}
          onPick={(value) => change({ commit: value, branch: "", after: "" })}
        />
      </div>
      <Show of={listed}>
        {(page) => (
          <>
            {page.off && (
              <p class="banner" role="note">
                <span>
                  <strong>This service runs no hooks.</strong> Files in{" "}
                  <code>_lakefs_actions/</code> have no effect. An administrator switches hooks on
                  with <code>graveler serve --hooks-allow</code>.
                </span>
              </p>
            )}
            {page.results.length ? (
              <List repo={repo} of={page.results} />
            ) : (
              <NoRuns repo={repo} filtered={Boolean(branch || commit)} />
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

/** A field that acts when the reader is done with it. */
function Filter(props: { label: string; value: string; onPick(value: string): void }) {
  const { label, value, onPick } = props;
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="search"
        data-filter
        value={value}
        spellcheck={false}
        onChange={(event) => onPick(event.currentTarget.value.trim())}
      />
    </label>
  );
}

function List({ repo, of }: { repo: string; of: readonly ActionRun[] }) {
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Event</th>
          <th scope="col">Result</th>
          <th scope="col" class="wide-only">
            Commit
          </th>
          <th scope="col" class="right wide-only">
            Took
          </th>
          <th scope="col" class="right">
            Begun
          </th>
        </tr>
      </thead>
      <tbody>
        {of.map((run) => (
          <tr data-row key={run.run_id}>
            <td>
              <a
                class="name"
                href={inRepository(repo, `actions/${encodeURIComponent(run.run_id)}`)}
              >
                <Icon name="play" />
                <span>{visible(`${run.event_type} on ${run.branch}`)}</span>
              </a>
            </td>
            <td>
              <StateBadge of={run.status} />
            </td>
            <td class="wide-only">
              {!NO_COMMIT.test(run.commit_id) && <CommitLink repo={repo} id={run.commit_id} />}
            </td>
            <td class="right nowrap wide-only">
              {span(seconds(run.end_time) - seconds(run.start_time))}
            </td>
            <td class="right nowrap faint">
              <Time at={seconds(run.start_time)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function NoRuns({ repo, filtered }: { repo: string; filtered: boolean }) {
  if (filtered) {
    return (
      <Empty icon="search" title="No hook ran here">
        <a href={changed({ branch: "", commit: "", after: "" })}>Show all runs</a>
      </Empty>
    );
  }
  return (
    <Empty
      icon="play"
      title="No hook ran yet"
      command={sh`graveler cp FILE ${repo}/main/_lakefs_actions/`}
    >
      <p>
        An action is a YAML file in the folder <code>_lakefs_actions/</code> of a branch. It names
        events, such as <code>pre-merge</code>, and the hooks that decide on them.
      </p>
    </Empty>
  );
}
