/** Settings of a repository: what it is, its metadata, its deletion. */
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import { type Loaded, useLoad } from "../../api/load";
import { go, href } from "../../app/router";
import type { Params } from "../../app/routes";
import { say } from "../../app/toasts";
import { Button, Copy } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Dialog } from "../../parts/dialog";
import { Facts, Time } from "../../parts/facts";
import { Field, Form } from "../../parts/form";
import { Page } from "../../parts/page";
import { repositoryArn, useRights } from "../../parts/rights";
import { SettingsSections } from "../../parts/sections";
import { Show } from "../../parts/states";
import { sh, visible } from "../../parts/text";

export function General({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const about = useLoad(`repository ${repo}`, (signal) =>
    api("GET /repositories/{repository}", { repository: repo }, { signal }),
  );
  const may = useRights([
    ["fs:UpdateRepository", repositoryArn(repo)],
    ["fs:DeleteRepository", repositoryArn(repo)],
  ]);
  const [deleting, setDeleting] = useState(false);
  return (
    <Page title="Settings" command={sh`graveler repo show ${repo}`}>
      <SettingsSections repo={repo} at="General" />
      <Show of={about}>
        {(found) => (
          <>
            <Facts
              of={[
                ["Name", visible(found.id)],
                ["Default branch", visible(found.default_branch)],
                [
                  "Storage",
                  <>
                    <code>{visible(found.storage_namespace)}</code>
                    <Copy text={found.storage_namespace} label="Copy the address" />
                  </>,
                ],
                ["Created", <Time at={found.creation_date} />],
                ["Read-only", found.read_only ? "yes: nothing in it changes" : "no"],
              ]}
            />
            <Metadata repo={repo} off={may("fs:UpdateRepository")} />
            <section class="section danger-zone" aria-labelledby="deletion">
              <h2 id="deletion">Deletion</h2>
              <p>
                All branches, tags and commits go. The files in the storage stay until somebody
                deletes them there.
              </p>
              <Button
                kind="danger"
                icon="trash"
                off={may("fs:DeleteRepository")}
                onClick={() => setDeleting(true)}
              >
                Delete the repository
              </Button>
            </section>
            {deleting && (
              <Confirm
                title="Delete the repository"
                action="Delete it for good"
                typed={repo}
                onClose={() => setDeleting(false)}
                act={async () => {
                  const query = found.read_only ? { force: true } : {};
                  await api("DELETE /repositories/{repository}", { repository: repo }, { query });
                  say(`Repository ${repo} is deleted.`);
                  go(href("/repositories"), { replace: true });
                }}
              >
                <p>Nobody can undo this. Its branches, tags and commits are lost.</p>
              </Confirm>
            )}
          </>
        )}
      </Show>
    </Page>
  );
}

function Metadata({ repo, off }: { repo: string; off: string }) {
  const place = { repository: repo };
  const loaded = useLoad(`metadata ${repo}`, (signal) =>
    api("GET /repositories/{repository}/metadata", place, { signal }),
  );
  const [adding, setAdding] = useState(false);
  return (
    <section class="section" aria-labelledby="metadata">
      <div class="section-head">
        <h2 id="metadata">Metadata</h2>
        <Button icon="plus" off={off} onClick={() => setAdding(true)}>
          Set a value
        </Button>
      </div>
      <Show of={loaded} rows={2}>
        {(pairs) => <Pairs repo={repo} off={off} pairs={pairs} of={loaded} />}
      </Show>
      {adding && (
        <Dialog title="Set a value" onClose={() => setAdding(false)}>
          <Form
            action="Set the value"
            onCancel={() => setAdding(false)}
            submit={async ({ key = "", value = "" }) => {
              const body = { metadata: { [key]: value } };
              await api("POST /repositories/{repository}/metadata", place, { body });
              setAdding(false);
              loaded.reload();
            }}
          >
            <Field label="Key" name="key" required focus hint="An existing key gets the value." />
            <Field label="Value" name="value" />
          </Form>
        </Dialog>
      )}
    </section>
  );
}

function Pairs(props: {
  readonly repo: string;
  readonly off: string;
  readonly pairs: Readonly<Record<string, string>>;
  readonly of: Loaded<unknown>;
}) {
  const { repo, off, pairs, of } = props;
  const remove = async (key: string) => {
    const body = { keys: [key] };
    await api("DELETE /repositories/{repository}/metadata", { repository: repo }, { body });
    say(`${key} is removed.`);
    of.reload();
  };
  const lines = Object.entries(pairs).sort(([one], [other]) => (one < other ? -1 : 1));
  if (!lines.length) return <p class="faint">No metadata: keys and values for people and tools.</p>;
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col">Value</th>
          <th scope="col">
            <span class="hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {lines.map(([key, value]) => (
          <tr key={key} data-row>
            <td>{visible(key)}</td>
            <td>{visible(value)}</td>
            <td>
              <div class="actions right-aligned">
                <Button
                  kind="quiet"
                  icon="trash"
                  label={`Remove ${visible(key)}`}
                  off={off}
                  onClick={() => remove(key)}
                />
              </div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
