/** Settings of a repository: how long commits keep their content. */
import { useState } from "preact/hooks";
import { ApiError, api, type GarbageCollectionRules } from "../../api/client";
import { useLoad } from "../../api/load";
import { inRepository } from "../../app/router";
import type { Params } from "../../app/routes";
import { say } from "../../app/toasts";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Dialog } from "../../parts/dialog";
import { Field, Form } from "../../parts/form";
import { Page } from "../../parts/page";
import { RefPicker } from "../../parts/refs";
import { repositoryArn, useRights } from "../../parts/rights";
import { SettingsSections } from "../../parts/sections";
import { Empty, Show } from "../../parts/states";
import { count, sh, visible } from "../../parts/text";

type Rules = GarbageCollectionRules;
const DAYS_MAX = 36_500;

/** The rules; null if there are none. */
async function rulesOf(repo: string, signal: AbortSignal): Promise<Rules | null> {
  const place = { repository: repo };
  try {
    return await api("GET /repositories/{repository}/settings/gc_rules", place, { signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404 && !/repository/.test(error.message)) {
      return null;
    }
    throw error;
  }
}

const kept = (days: number): string => (days ? count(days, "day") : "for ever");

/** Whether a change keeps some commits for less time than now. */
function isShorter(old: number, now: number): boolean {
  return now !== 0 && (old === 0 || now < old);
}

export function Retention({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const loaded = useLoad(`retention ${repo}`, (signal) => rulesOf(repo, signal));
  const may = useRights([["retention:SetGarbageCollectionRules", repositoryArn(repo)]]);
  // A rule is set with all others: one that is not known would be lost.
  const unknown = loaded.data === undefined ? "the rules are not known" : "";
  const off = may("retention:SetGarbageCollectionRules") || unknown;
  const [editing, setEditing] = useState<string | undefined>();
  const [ending, setEnding] = useState(false);
  const save = async (rules: Rules) => {
    const place = { repository: repo };
    await api("PUT /repositories/{repository}/settings/gc_rules", place, { body: rules });
    setEditing(undefined);
    say("The rules are set.");
    loaded.reload();
  };
  const hasRules = !!loaded.data;
  return (
    <Page
      title="Retention"
      command={sh`graveler retention --repository ${repo}`}
      actions={
        <>
          {hasRules && (
            <Button off={off} onClick={() => setEnding(true)}>
              Keep all for ever
            </Button>
          )}
          <Button kind="primary" icon="plus" off={off} onClick={() => setEditing("new")}>
            {hasRules ? "Rule for a branch" : "Set a rule"}
          </Button>
        </>
      }
    >
      <SettingsSections repo={repo} at="Retention" />
      <p class="lead">
        A commit keeps its content for these days after the next commit. Heads of branches and tags
        keep theirs always. Files are deleted by a{" "}
        <a href={inRepository(repo, "settings/collection")}>collection</a>, not by the rule.
      </p>
      <Show of={loaded}>
        {(rules) =>
          rules ? (
            <Rows rules={rules} off={off} onEdit={setEditing} onSave={save} />
          ) : (
            <Empty
              icon="history"
              title="Every commit keeps its content for ever"
              command={sh`graveler retention --repository ${repo} --days 30 --branch main=90`}
            >
              <p>Without a rule, a collection deletes only what no commit ever had.</p>
            </Empty>
          )
        }
      </Show>
      {editing !== undefined && (
        <Edit
          repo={repo}
          rules={loaded.data ?? undefined}
          branch={editing}
          onClose={() => setEditing(undefined)}
          onSave={save}
        />
      )}
      {ending && (
        <Confirm
          title="Keep all for ever"
          action="End the rules"
          onClose={() => setEnding(false)}
          act={async () => {
            const place = { repository: repo };
            await api("DELETE /repositories/{repository}/settings/gc_rules", place);
            setEnding(false);
            say("Every commit keeps its content.");
            loaded.reload();
          }}
        >
          <p>The rules are forgotten. What was deleted before does not come back.</p>
        </Confirm>
      )}
    </Page>
  );
}

function Rows(props: {
  readonly rules: Rules;
  readonly off: string;
  onEdit(branch: string): void;
  onSave(rules: Rules): Promise<void>;
}) {
  const { rules, off, onEdit, onSave } = props;
  const row = (name: string, days: number, isDefault: boolean) => (
    <tr key={isDefault ? "" : name} data-row>
      <td>{isDefault ? "All other branches" : visible(name)}</td>
      <td>{kept(days)}</td>
      <td>
        <div class="actions right-aligned">
          <Button off={off} onClick={() => onEdit(isDefault ? "" : name)}>
            Change
          </Button>
          {!isDefault && (
            <Button
              kind="quiet"
              icon="trash"
              label={`Remove the rule of ${visible(name)}`}
              off={off}
              onClick={() =>
                onSave({
                  ...rules,
                  branches: rules.branches.filter((each) => each.branch_id !== name),
                })
              }
            />
          )}
        </div>
      </td>
    </tr>
  );
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Branch</th>
          <th scope="col">Content is kept</th>
          <th scope="col">
            <span class="hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {rules.branches.map((rule) => row(rule.branch_id, rule.retention_days, false))}
        {row("", rules.default_retention_days, true)}
      </tbody>
    </table>
  );
}

function Edit(props: {
  readonly repo: string;
  readonly rules: Rules | undefined;
  /** A branch; empty: all others; "new": one is chosen, or all if there is no rule yet. */
  readonly branch: string;
  onClose(): void;
  onSave(rules: Rules): Promise<void>;
}) {
  const { repo, branch, onClose, onSave } = props;
  const rules = props.rules ?? { branches: [], default_retention_days: 0 };
  const picks = branch === "new" && props.rules !== undefined;
  const [picked, setPicked] = useState(branch === "new" ? "" : branch);
  const own = rules.branches.find((rule) => rule.branch_id === picked);
  const before = own?.retention_days ?? rules.default_retention_days;
  const [days, setDays] = useState(String(props.rules ? before : 30));
  const submit = async () => {
    const number = Number(days);
    if (!picked) return onSave({ ...rules, default_retention_days: number });
    const others = rules.branches.filter((rule) => rule.branch_id !== picked);
    const branches = [...others, { branch_id: picked, retention_days: number }];
    return onSave({ ...rules, branches });
  };
  const isValid = /^\d{1,5}$/.test(days) && Number(days) <= DAYS_MAX;
  return (
    <Dialog title={picked ? `Retention of ${picked}` : "Retention"} onClose={onClose}>
      <Form
        action="Set the rule"
        off={picks && !picked ? "choose a branch" : isValid ? "" : `0 to ${DAYS_MAX} days`}
        submit={submit}
        onCancel={onClose}
      >
        {picks && (
          <div>
            <RefPicker repo={repo} value={picked} label="Branch" onlyBranches onPick={setPicked} />
          </div>
        )}
        <Field
          label={picked || picks ? "Days" : "Days for all branches without a rule of their own"}
          name="days"
          type="number"
          value={days}
          hint="0: for ever"
          required
          focus
          onInput={setDays}
        />
        {isValid && isShorter(before, Number(days)) && (
          <p class="note" role="status">
            Older commits lose their content at the next collection. Now: {kept(before)}.
          </p>
        )}
      </Form>
    </Dialog>
  );
}
