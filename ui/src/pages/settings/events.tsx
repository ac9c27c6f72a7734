/** Settings of a repository: objects that arrive in a bucket become commits. */
import { useState } from "preact/hooks";
import { api, type EventRule } from "../../api/client";
import { useLoad } from "../../api/load";
import { inRepository } from "../../app/router";
import type { Params } from "../../app/routes";
import { say } from "../../app/toasts";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Dialog } from "../../parts/dialog";
import { Time } from "../../parts/facts";
import { Field, Form } from "../../parts/form";
import { Page } from "../../parts/page";
import { RefPicker } from "../../parts/refs";
import { inLake, repositoryArn, useRights } from "../../parts/rights";
import { SettingsSections } from "../../parts/sections";
import { Empty, Show } from "../../parts/states";
import { count, sh, visible } from "../../parts/text";

const RULES = "/repositories/{repository}/events/rules";

export function Events({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const loaded = useLoad(`events ${repo}`, (signal) =>
    api(`GET ${RULES}`, { repository: repo }, { signal }),
  );
  const may = useRights([["fs:UpdateRepository", repositoryArn(repo)]]);
  const off = may("fs:UpdateRepository");
  const [creating, setCreating] = useState(false);
  const [ending, setEnding] = useState<EventRule | undefined>();
  return (
    <Page
      title="Events"
      command={sh`graveler events rules list ${repo}`}
      actions={
        <Button kind="primary" icon="plus" off={off} onClick={() => setCreating(true)}>
          New rule
        </Button>
      }
    >
      <SettingsSections repo={repo} at="Events" />
      <p class="lead">
        Objects that arrive in a bucket are staged on a branch and committed in batches. They stay
        where they are: the branch refers to them.
      </p>
      <Show of={loaded}>
        {(found) =>
          found.results.length ? (
            <List repo={repo} of={found.results} off={off} onEnd={setEnding} />
          ) : (
            <Empty
              icon="download"
              title="No rule watches a bucket"
              command={sh`graveler events rules add ${repo} --branch main --bucket landing`}
            >
              <p>The bucket must send its notifications to the queue of the service first.</p>
            </Empty>
          )
        }
      </Show>
      {creating && (
        <Create
          repo={repo}
          onClose={() => setCreating(false)}
          onDone={() => {
            setCreating(false);
            loaded.reload();
          }}
        />
      )}
      {ending && (
        <Confirm
          title="End the rule"
          action="End the rule"
          onClose={() => setEnding(undefined)}
          act={async () => {
            await api(`DELETE ${RULES}/{rule}`, { repository: repo, rule: ending.id });
            setEnding(undefined);
            say("The rule is ended.");
            loaded.reload();
          }}
        >
          <p>
            What arrives later in {visible(`s3://${ending.bucket}/${ending.prefix}`)} is not taken
            in. What was staged and committed stays.
          </p>
        </Confirm>
      )}
    </Page>
  );
}

function List(props: {
  readonly repo: string;
  readonly of: readonly EventRule[];
  readonly off: string;
  onEnd(rule: EventRule): void;
}) {
  const { repo, of, off, onEnd } = props;
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Objects</th>
          <th scope="col">Become</th>
          <th scope="col" class="wide-only">
            Committed
          </th>
          <th scope="col" class="wide-only">
            Made by
          </th>
          <th scope="col">
            <span class="hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {of.map((rule) => (
          <tr key={rule.id} data-row>
            <td>
              <code>{visible(`s3://${rule.bucket}/${rule.prefix}*${rule.suffix}`)}</code>
            </td>
            <td>
              <code>{visible(rule.path)}</code> on{" "}
              <a href={inRepository(repo, "objects", { ref: rule.branch })}>
                {visible(rule.branch)}
              </a>
            </td>
            <td class="wide-only">{batch(rule)}</td>
            <td class="wide-only faint">
              {visible(rule.committer)}, <Time at={rule.creation_date} />
            </td>
            <td>
              <div class="actions right-aligned">
                <Button
                  kind="quiet"
                  icon="trash"
                  label={`End the rule of ${visible(rule.bucket)}/${visible(rule.prefix)}`}
                  off={off}
                  onClick={() => onEnd(rule)}
                />
              </div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** When a batch is complete, in words. */
function batch(rule: EventRule): string {
  const ends = [`after ${count(rule.seconds, "second")}`];
  if (rule.objects) ends.push(`after ${count(rule.objects, "object")}`);
  if (rule.marker) ends.push(`when ${visible(rule.marker)} arrives`);
  return ends.join(", or ");
}

function Create({ repo, onClose, onDone }: { repo: string; onClose(): void; onDone(): void }) {
  const [branch, setBranch] = useState("");
  const may = useRights(
    branch ? [["fs:CreateCommit", inLake(`repository/${repo}/branch/${branch}`)]] : [],
  );
  const submit = async (fields: Record<string, string>) => {
    const { bucket = "", prefix = "", suffix = "", path = "", marker = "" } = fields;
    const body = {
      branch,
      bucket,
      prefix,
      suffix,
      marker,
      ...(path && { path }),
      ...(fields.objects && { objects: Number(fields.objects) }),
      ...(fields.seconds && { seconds: Number(fields.seconds) }),
    };
    await api(`POST ${RULES}`, { repository: repo }, { body });
    say(`Objects of ${bucket} are taken in from now on.`);
    onDone();
  };
  return (
    <Dialog title="New rule" onClose={onClose}>
      <Form
        action="Create the rule"
        off={branch ? may("fs:CreateCommit") : "choose a branch"}
        submit={submit}
        onCancel={onClose}
      >
        <Field label="Bucket" name="bucket" required focus />
        <div class="pair">
          <Field label="Keys begin with" name="prefix" />
          <Field label="Keys end with" name="suffix" />
        </div>
        <div>
          <RefPicker repo={repo} value={branch} label="Branch" onlyBranches onPick={setBranch} />
        </div>
        <Field
          label="Path on the branch"
          name="path"
          hint="{key}, {rest} (the key after its beginning), {bucket}; empty: {key}"
        />
        <div class="pair">
          <Field label="Commit after seconds" name="seconds" type="number" hint="empty: 300" />
          <Field label="or after objects" name="objects" type="number" hint="empty: any number" />
        </div>
        <Field label="or when this name arrives" name="marker" hint="for example _SUCCESS" />
      </Form>
    </Dialog>
  );
}
