/** Settings of a repository: branches that change by merges alone. */
import { useState } from "preact/hooks";
import { api, type Ref, send } from "../../api/client";
import { useLoad } from "../../api/load";
import type { Params } from "../../app/routes";
import { say } from "../../app/toasts";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { Field, Form } from "../../parts/form";
import { globMatches } from "../../parts/glob";
import { Page } from "../../parts/page";
import { repositoryArn, useRights } from "../../parts/rights";
import { SettingsSections } from "../../parts/sections";
import { Empty, Show } from "../../parts/states";
import { sh, visible } from "../../parts/text";

const RULES = "GET /repositories/{repository}/settings/branch_protection";
const REPLACE = "PUT /repositories/{repository}/settings/branch_protection";

interface Rules {
  readonly patterns: readonly string[];
  /** Names this state of the rules, so that a change of somebody else is not lost. */
  readonly tag: string;
}

async function rulesOf(repo: string, signal: AbortSignal): Promise<Rules> {
  const response = await send(RULES, { repository: repo }, { signal });
  const rules = (await response.json()) as Array<{ pattern: string }>;
  const tag = response.headers.get("etag") ?? "";
  return { patterns: rules.map((rule) => rule.pattern), tag };
}

async function replace(repo: string, known: Rules, patterns: readonly string[]): Promise<void> {
  await send(
    REPLACE,
    { repository: repo },
    { body: patterns.map((pattern) => ({ pattern })), headers: { "If-Match": known.tag } },
  );
}

export function Protection({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const loaded = useLoad(`protection ${repo}`, (signal) => rulesOf(repo, signal));
  const branches = useLoad(`branches ${repo}  `, (signal) =>
    api(
      "GET /repositories/{repository}/branches",
      { repository: repo },
      { query: { amount: 100 }, signal },
    ),
  );
  const may = useRights([["branches:SetBranchProtectionRules", repositoryArn(repo)]]);
  const off = may("branches:SetBranchProtectionRules");
  const [adding, setAdding] = useState(false);
  const remove = async (known: Rules, pattern: string) => {
    await replace(
      repo,
      known,
      known.patterns.filter((each) => each !== pattern),
    );
    say(`Branches like ${pattern} are open.`);
    loaded.reload();
  };
  return (
    <Page
      title="Protection"
      command={sh`graveler branch-protect list ${repo}`}
      actions={
        <Button kind="primary" icon="plus" off={off} onClick={() => setAdding(true)}>
          Protect branches
        </Button>
      }
    >
      <SettingsSections repo={repo} at="Protection" />
      <p class="lead">
        A protected branch changes by merges, reverts and cherry-picks alone, and cannot be deleted.
      </p>
      <Show of={loaded}>
        {(known) =>
          known.patterns.length ? (
            <table class="list">
              <thead>
                <tr>
                  <th scope="col">Branches like</th>
                  <th scope="col">Protected now</th>
                  <th scope="col">
                    <span class="hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {known.patterns.map((pattern) => (
                  <tr key={pattern} data-row>
                    <td>
                      <code>{visible(pattern)}</code>
                    </td>
                    <td>
                      <Matching pattern={pattern} branches={branches.data?.results ?? []} />
                    </td>
                    <td>
                      <div class="actions right-aligned">
                        <Button
                          kind="quiet"
                          icon="trash"
                          label={`Remove the rule ${visible(pattern)}`}
                          off={off}
                          onClick={() => remove(known, pattern)}
                        />
                      </div>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <Empty
              icon="branch"
              title="No branch is protected"
              command={sh`graveler branch-protect add ${repo} main`}
            >
              <p>Whoever may write can commit to every branch, and delete all but the default.</p>
            </Empty>
          )
        }
      </Show>
      {adding && loaded.data && (
        <Add
          repo={repo}
          known={loaded.data}
          branches={branches.data?.results ?? []}
          onClose={() => setAdding(false)}
          onDone={() => {
            setAdding(false);
            loaded.reload();
          }}
        />
      )}
    </Page>
  );
}

function Matching({ pattern, branches }: { pattern: string; branches: readonly Ref[] }) {
  const names = branches.map((each) => each.id).filter((name) => globMatches(pattern, name));
  if (!names.length) return <span class="faint">none of the first 100 branches</span>;
  const shown = names.slice(0, 5).map(visible).join(", ");
  return <>{names.length > 5 ? `${shown} and ${names.length - 5} more` : shown}</>;
}

function Add(props: {
  readonly repo: string;
  readonly known: Rules;
  readonly branches: readonly Ref[];
  onClose(): void;
  onDone(): void;
}) {
  const { repo, known, branches, onClose, onDone } = props;
  const [pattern, setPattern] = useState("");
  const submit = async (fields: Record<string, string>) => {
    const added = fields.pattern ?? "";
    await replace(repo, known, [...known.patterns, added]);
    say(`Branches like ${added} are protected.`);
    onDone();
  };
  return (
    <Dialog title="Protect branches" onClose={onClose}>
      <Form
        action="Protect them"
        off={known.patterns.includes(pattern) ? "this rule exists" : ""}
        submit={submit}
        onCancel={onClose}
      >
        <Field
          label="Name of a branch, or a pattern"
          name="pattern"
          hint="* is any text, ? is one character: release-*"
          required
          focus
          onInput={setPattern}
        />
        {pattern && (
          <p class="preview" aria-live="polite">
            Protects: <Matching pattern={pattern} branches={branches} />
          </p>
        )}
      </Form>
    </Dialog>
  );
}
