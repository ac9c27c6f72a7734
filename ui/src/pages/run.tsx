/** A run of hooks: each hook, and its log. */
import { api, type HookRun } from "../api/client";
import { useLoad } from "../api/load";
import { inRepository } from "../app/router";
import type { Params } from "../app/routes";
import { ButtonLink, Copy } from "../parts/button";
import { CommitLink, Facts, Time } from "../parts/facts";
import { StateBadge, seconds, span } from "../parts/jobs";
import { Page } from "../parts/page";
import { Empty, Show } from "../parts/states";
import { sh, visible } from "../parts/text";

const LOG_MAX = 200_000;

export function Run({ params }: { params: Params }) {
  const { repo = "", run = "" } = params;
  const place = { repository: repo, run_id: run };
  const loaded = useLoad(`run ${repo} ${run}`, async (signal) => {
    const [of, hooks] = await Promise.all([
      api("GET /repositories/{repository}/actions/runs/{run_id}", place, { signal }),
      api("GET /repositories/{repository}/actions/runs/{run_id}/hooks", place, {
        query: { amount: 1000 },
        signal,
      }),
    ]);
    return { of, hooks: hooks.results };
  });
  const title = loaded.data ? `Hooks of ${loaded.data.of.event_type}` : "Run of hooks";
  return (
    <Page
      title={title}
      heading={visible(title)}
      command={sh`graveler actions log ${repo} ${run}`}
      actions={
        <ButtonLink icon="play" href={inRepository(repo, "actions")}>
          All runs
        </ButtonLink>
      }
    >
      <Show of={loaded}>
        {({ of, hooks }) => (
          <>
            <Facts
              of={[
                ["Result", <StateBadge key="s" of={of.status} />],
                [
                  "Branch",
                  <a key="b" href={inRepository(repo, "actions", { branch: of.branch })}>
                    {visible(of.branch)}
                  </a>,
                ],
                [
                  "Commit",
                  /^0*$/.test(of.commit_id) ? (
                    "none was made"
                  ) : (
                    <CommitLink key="c" repo={repo} id={of.commit_id} />
                  ),
                ],
                ["Begun", <Time key="t" at={seconds(of.start_time)} />],
                ["Took", span(seconds(of.end_time) - seconds(of.start_time))],
                [
                  "Id",
                  <span key="i">
                    <code>{visible(of.run_id)}</code>
                    <Copy text={of.run_id} label="Copy the id of the run" />
                  </span>,
                ],
              ]}
            />
            {hooks.map((hook) => (
              <Hook key={hook.hook_run_id} repo={repo} run={run} of={hook} />
            ))}
            {!hooks.length && (
              <Empty title="No hook was called">
                <p>The action files could not be read, or every hook was skipped.</p>
              </Empty>
            )}
          </>
        )}
      </Show>
    </Page>
  );
}

function Hook({ repo, run, of }: { repo: string; run: string; of: HookRun }) {
  const loaded = useLoad(`log ${repo} ${run} ${of.hook_run_id}`, (signal) =>
    api(
      "GET /repositories/{repository}/actions/runs/{run_id}/hooks/{hook_run_id}/output",
      { repository: repo, run_id: run, hook_run_id: of.hook_run_id },
      { signal },
    ),
  );
  return (
    <section class="section">
      <div class="heading">
        <h2>
          {visible(of.hook_id)} <StateBadge of={of.status} />
        </h2>
        <span class="faint">
          action {visible(of.action)} · {span(seconds(of.end_time) - seconds(of.start_time))}
        </span>
      </div>
      <Show of={loaded} rows={3}>
        {(log) => <Log of={String(log)} name={of.hook_id} />}
      </Show>
    </section>
  );
}

/** What a hook was sent and answered: text of somebody else. */
function Log({ of, name }: { of: string; name: string }) {
  if (!of) return <p class="faint">The log is empty.</p>;
  const shown = of.slice(0, LOG_MAX).split(/\r?\n/).map(visible).join("\n");
  return (
    <div class="log" role="region" aria-label={`Log of ${visible(name)}`} tabIndex={0}>
      <pre>{shown}</pre>
      {of.length > LOG_MAX && (
        <p class="faint">The rest is in the terminal: the command is below.</p>
      )}
    </div>
  );
}
