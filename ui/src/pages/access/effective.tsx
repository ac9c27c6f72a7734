/** What a user may do, and by which statement: "why denied?". */
import { api, type PolicyShape } from "../../api/client";
import { useLoad } from "../../api/load";
import { change, fill, href, query } from "../../app/router";
import type { Params } from "../../app/routes";
import { Page } from "../../parts/page";
import { type Decision, decide, type Found } from "../../parts/policies";
import { AccessSections } from "../../parts/sections";
import { Question, StatementText } from "../../parts/statements";
import { Empty, Show } from "../../parts/states";
import { sh, visible } from "../../parts/text";

const ALL = { amount: 1000 };
const GROUPS_MAX = 30;

interface Rights {
  readonly policies: readonly PolicyShape[];
  /** The groups that each policy comes from; none: it is attached to the user. */
  readonly groups: ReadonlyMap<string, readonly string[]>;
}

async function rightsOf(id: string, signal: AbortSignal): Promise<Rights> {
  const place = { userId: id };
  const [all, groups] = await Promise.all([
    api("GET /auth/users/{userId}/policies", place, {
      query: { ...ALL, effective: true },
      signal,
    }),
    api("GET /auth/users/{userId}/groups", place, { query: ALL, signal }),
  ]);
  const from = new Map<string, string[]>();
  await Promise.all(
    groups.results.slice(0, GROUPS_MAX).map(async (group) => {
      const of = { groupId: group.id };
      const held = await api("GET /auth/groups/{groupId}/policies", of, { query: ALL, signal });
      for (const policy of held.results) {
        from.set(policy.id, [...(from.get(policy.id) ?? []), group.id].sort());
      }
    }),
  );
  return { policies: all.results, groups: from };
}

export function Effective({ params }: { params: Params }) {
  const id = params.id ?? "";
  const action = query.value.get("action") ?? "";
  const resource = query.value.get("resource") ?? "";
  const loaded = useLoad(`effective ${id}`, (signal) => rightsOf(id, signal));
  return (
    <Page
      title={`Rights of ${id}`}
      heading={`Rights of ${visible(id)}`}
      command={sh`graveler user show ${id}`}
      actions={
        <a class="button" href={href(fill("/auth/users/{id}", { id }))}>
          The user
        </a>
      }
    >
      <AccessSections at="Users" />
      <Question
        key={`${action} ${resource}`}
        action={action}
        resource={resource}
        text="Why?"
        onAsk={(asked, on) => change({ action: asked, resource: on })}
      />
      <Show of={loaded}>
        {(rights) => (
          <>
            {action && resource && (
              <Verdict of={decide(rights.policies, id, action, resource)} rights={rights} />
            )}
            <section class="section" aria-labelledby="effective">
              <h2 id="effective">Effective policies</h2>
              {rights.policies.length ? (
                <div class="stack">
                  {rights.policies.map((policy) => (
                    <div key={policy.id} class="stack">
                      <h3>
                        <PolicyLink id={policy.id} />{" "}
                        <span class="faint">{origin(rights, policy.id)}</span>
                      </h3>
                      {policy.statement.map((statement, at) => (
                        <StatementText key={at} of={statement} />
                      ))}
                    </div>
                  ))}
                </div>
              ) : (
                <Empty icon="key" title="No policy: the user may do nothing">
                  <p>Add it to a group, or attach a policy.</p>
                </Empty>
              )}
            </section>
          </>
        )}
      </Show>
    </Page>
  );
}

function PolicyLink({ id }: { id: string }) {
  return <a href={href(fill("/auth/policies/{id}", { id }))}>{visible(id)}</a>;
}

function origin(rights: Rights, policy: string): string {
  const groups = rights.groups.get(policy);
  return groups ? `by ${groups.map(visible).join(", ")}` : "attached to the user";
}

const TITLES = { allowed: "Allowed", denied: "Denied", open: "Depends" } as const;

function Verdict({ of, rights }: { of: Decision; rights: Rights }) {
  return (
    <section class={`verdict ${of.verdict}`} aria-label="Decision" aria-live="polite">
      <h2>{TITLES[of.verdict]}</h2>
      <p>{visible(of.reason)}</p>
      {of.by.map((found) => (
        <Cause key={`${found.policy} ${found.number}`} of={found} rights={rights} />
      ))}
      {of.verdict === "denied" &&
        !of.by.length &&
        of.near.map((found) => (
          <Cause key={`${found.policy} ${found.number}`} of={found} rights={rights} />
        ))}
    </section>
  );
}

function Cause({ of, rights }: { of: Found; rights: Rights }) {
  return (
    <div>
      <p>
        Statement {of.number} of <PolicyLink id={of.policy} />, {origin(rights, of.policy)}
      </p>
      <StatementText of={of.statement} />
    </div>
  );
}
