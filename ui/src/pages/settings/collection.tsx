/** Settings of a repository: which files no commit needs, and their deletion. */
import { useState } from "preact/hooks";
import { ApiError, api, type CollectionStatus, type FileCount, type Job } from "../../api/client";
import { useLoad } from "../../api/load";
import { usePoll } from "../../api/poll";
import { change, changed, inRepository, query } from "../../app/router";
import type { Params } from "../../app/routes";
import { say } from "../../app/toasts";
import { Button, Copy } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Facts, Time } from "../../parts/facts";
import { Page } from "../../parts/page";
import { ASKING, repositoryArn, useRights } from "../../parts/rights";
import { SettingsSections } from "../../parts/sections";
import { Empty, ErrorBox, Show } from "../../parts/states";
import { count, sh, size } from "../../parts/text";

const RUN = "GET /repositories/{repository}/gc/runs/{id}";
const seconds = (moment: string): number => Date.parse(moment) / 1000;
const files = (of: FileCount | undefined): string =>
  of ? `${count(of.count, "file")}, ${size(of.size_bytes)}` : "none";

export function Collection({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const shown = query.value.get("run") ?? "";
  const may = useRights([["retention:CollectGarbage", repositoryArn(repo)]]);
  const off = may("retention:CollectGarbage");
  const [asking, setAsking] = useState(false);
  const jobs = useLoad(`collections ${repo} ${shown}`, (signal) =>
    api(
      "GET /repositories/{repository}/jobs",
      { repository: repo },
      { query: { kind: "collection", amount: 20 }, signal },
    ),
  );
  const order = async (dry: boolean) => {
    const body = { dry_run: dry };
    const place = { repository: repo };
    const { id } = await api("POST /repositories/{repository}/gc/runs", place, { body });
    setAsking(false);
    change({ run: id });
  };
  return (
    <Page
      title="Collection"
      command={sh`graveler gc --repository ${repo}`}
      actions={
        <>
          <Button kind="danger" icon="trash" off={off} onClick={() => setAsking(true)}>
            Collect
          </Button>
          <Button kind="primary" icon="search" off={off} onClick={() => order(true)}>
            Dry run
          </Button>
        </>
      }
    >
      <SettingsSections repo={repo} at="Collection" />
      <p class="lead">
        A collection finds files that no commit, change or upload needs. The first run condemns
        them; a run at least a day later deletes them. Until then it can be undone. What commits
        need follows from <a href={inRepository(repo, "settings/retention")}>retention</a>.
      </p>
      {shown && <Run repo={repo} id={shown} off={off} onEnd={jobs.reload} />}
      <section class="section" aria-labelledby="runs">
        <h2 id="runs">Runs</h2>
        <Show of={jobs} rows={3}>
          {(page) =>
            page.results.length ? (
              <Runs of={page.results} shown={shown} />
            ) : (
              <Empty
                icon="trash"
                title="Nothing was collected yet"
                command={sh`graveler gc --repository ${repo}`}
              >
                <p>A dry run changes nothing: it counts what would go.</p>
              </Empty>
            )
          }
        </Show>
      </section>
      {asking && (
        <Confirm
          title="Collect"
          action="Condemn and delete"
          onClose={() => setAsking(false)}
          act={() => order(false)}
        >
          <p>
            Unused files are condemned. Files that a run condemned at least a day ago are deleted,
            and nobody can bring them back.
          </p>
        </Confirm>
      )}
    </Page>
  );
}

function Runs({ of, shown }: { of: readonly Job[]; shown: string }) {
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Run</th>
          <th scope="col">State</th>
          <th scope="col" class="right">
            Began
          </th>
        </tr>
      </thead>
      <tbody>
        {of.map((job) => (
          <tr key={job.id} data-row>
            <td>
              <a
                class="name id"
                href={changed({ run: job.id })}
                aria-current={job.id === shown ? "true" : undefined}
              >
                {job.id}
              </a>
            </td>
            <td>
              <State of={job.state} />
            </td>
            <td class="right faint">
              <Time at={seconds(job.create_time)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function State({ of }: { of: Job["state"] }) {
  const tone = of === "done" ? "good" : of === "failed" || of === "expired" ? "bad" : "";
  return <span class={`badge flat ${tone}`}>{of}</span>;
}

function Run(props: { repo: string; id: string; off: string; onEnd(): void }) {
  const { repo, id, off, onEnd } = props;
  const place = { repository: repo, id };
  const status = useLoad(off ? "" : `collection ${repo} ${id}`, async (signal) => {
    const found = await api(RUN, place, { signal });
    if (found.done) onEnd();
    return found;
  });
  const isRunning = !!status.data && !status.data.done;
  const job = useLoad(isRunning ? `job ${repo} ${id}` : "", (signal) =>
    api("GET /repositories/{repository}/jobs/{id}", place, { signal }),
  );
  usePoll(isRunning, () => {
    status.reload();
    job.reload();
  });
  if (off === ASKING) return null;
  if (off) return <p class="note">Its totals are not shown: {off}.</p>;
  return (
    <section class="card stack" aria-labelledby="run">
      <h2 id="run" aria-live="polite">
        {!status.data
          ? "The run"
          : isRunning
            ? "The run is going on"
            : status.data.error
              ? "The run failed"
              : status.data.dry_run
                ? "A dry run: nothing was changed"
                : "The run is done"}
      </h2>
      <Show of={status} rows={3}>
        {(found) => (
          <>
            {!found.done && <Progress of={job.data} />}
            {found.error && <ErrorBox error={new ApiError(0, found.error.message)} />}
            {found.done && !found.error && <Totals repo={repo} of={found} off={off} />}
          </>
        )}
      </Show>
    </section>
  );
}

function Progress({ of }: { of: Job | undefined }) {
  const progress = of?.progress;
  return (
    <div role="status">
      <progress aria-label="The collection is running" />
      {progress && (
        <p class="faint">
          {progress.done.toLocaleString("en")} {progress.unit}
        </p>
      )}
    </div>
  );
}

function Totals({ repo, of, off }: { repo: string; of: CollectionStatus; off: string }) {
  const [undoing, setUndoing] = useState(false);
  const would = of.dry_run ? "Would be " : "";
  const word = (text: string) => (would ? would + text : text[0]?.toUpperCase() + text.slice(1));
  const canUndo = !of.dry_run && !!of.run && !!of.condemned?.count;
  return (
    <>
      <Facts
        of={[
          [word("condemned"), files(of.condemned)],
          [word("deleted"), files(of.deleted)],
          [
            "Commits that keep their content",
            `${of.commits_kept?.toLocaleString("en")} of ${of.commits?.toLocaleString("en")}`,
          ],
          ["Ended", <Time at={seconds(of.update_time)} />],
          ...(of.candidates
            ? [
                [
                  "Lists of the files",
                  <>
                    <code>{of.candidates}</code>
                    <Copy text={of.candidates} label="Copy the address" />
                  </>,
                ] as const,
              ]
            : []),
        ]}
      />
      {canUndo && (
        <div class="actions">
          <Button icon="undo" off={off} onClick={() => setUndoing(true)}>
            Undo this run
          </Button>
        </div>
      )}
      {undoing && (
        <Confirm
          title="Undo this run"
          action="Release the files"
          onClose={() => setUndoing(false)}
          act={async () => {
            const place = { repository: repo, id: of.id };
            await api("DELETE /repositories/{repository}/gc/runs/{id}", place);
            setUndoing(false);
            say(`The run is undone: ${files(of.condemned)} are released.`);
          }}
        >
          <p>
            {files(of.condemned)} are no longer condemned. Files that were deleted stay deleted.
          </p>
        </Confirm>
      )}
    </>
  );
}
