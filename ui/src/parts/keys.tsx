/** The access keys of a user: list, create, delete.  A secret is shown once and kept nowhere. */
import { useState } from "preact/hooks";
import { api, type KeyShape, type KeyWithSecret } from "../api/client";
import { useLoad } from "../api/load";
import { say } from "../app/toasts";
import { Button, Copy } from "./button";
import { Confirm } from "./confirm";
import { Dialog } from "./dialog";
import { Time } from "./facts";
import { Field, Form } from "./form";
import { inDirectory, useRights } from "./rights";
import { Show } from "./states";
import { visible } from "./text";

const KEYS = "/auth/users/{userId}/credentials";

export function Keys({ user }: { user: string }) {
  const loaded = useLoad(user && `keys ${user}`, (signal) =>
    api(`GET ${KEYS}`, { userId: user }, { query: { amount: 1000 }, signal }),
  );
  const own = inDirectory(`user/${user}`);
  const may = useRights(
    user
      ? [
          ["auth:CreateCredentials", own],
          ["auth:DeleteCredentials", own],
        ]
      : [],
  );
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState<KeyWithSecret | undefined>();
  const [deleting, setDeleting] = useState<KeyShape | undefined>();
  return (
    <section class="section" aria-labelledby="keys">
      <div class="section-head">
        <h2 id="keys">Access keys</h2>
        <Button icon="plus" off={may("auth:CreateCredentials")} onClick={() => setCreating(true)}>
          New key
        </Button>
      </div>
      <Show of={loaded} rows={2}>
        {(page) =>
          page.results.length ? (
            <List of={page.results} off={may("auth:DeleteCredentials")} onDelete={setDeleting} />
          ) : (
            <p class="faint">No key: the user cannot log in by one.</p>
          )
        }
      </Show>
      {creating && (
        <Dialog title="New key" onClose={() => setCreating(false)}>
          <Form
            action="Create the key"
            onCancel={() => setCreating(false)}
            submit={async ({ name = "" }) => {
              setMade(await api(`POST ${KEYS}`, { userId: user }, { query: { name } }));
              setCreating(false);
              loaded.reload();
            }}
          >
            <Field
              label="Name"
              name="name"
              focus
              hint="Where it will be used, so that others know what ends with it."
            />
          </Form>
        </Dialog>
      )}
      {made && <Secret of={made} onClose={() => setMade(undefined)} />}
      {deleting && (
        <Confirm
          title="Delete the key"
          action="Delete the key"
          onClose={() => setDeleting(undefined)}
          act={async () => {
            const key = { userId: user, accessKeyId: deleting.access_key_id };
            await api(`DELETE ${KEYS}/{accessKeyId}`, key);
            setDeleting(undefined);
            say("The key is deleted.");
            loaded.reload();
          }}
        >
          <p>
            Whatever uses <code>{deleting.access_key_id}</code> is refused, and the sessions that
            began with it end.
          </p>
        </Confirm>
      )}
    </section>
  );
}

function List(props: { of: readonly KeyShape[]; off: string; onDelete(key: KeyShape): void }) {
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col">Name</th>
          <th scope="col" class="right">
            Created
          </th>
          <th scope="col">
            <span class="hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {props.of.map((key) => (
          <tr key={key.access_key_id} data-row>
            <td>
              <code>{key.access_key_id}</code>
            </td>
            <td>{visible(key.name ?? "")}</td>
            <td class="right faint">
              <Time at={key.creation_date} />
            </td>
            <td>
              <div class="actions right-aligned">
                <Button
                  kind="quiet"
                  icon="trash"
                  label={`Delete ${key.access_key_id}`}
                  off={props.off}
                  onClick={() => props.onDelete(key)}
                />
              </div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Secret({ of, onClose }: { of: KeyWithSecret; onClose(): void }) {
  return (
    <Dialog title="The new key" onClose={onClose}>
      <div class="secret">
        <p class="note">The secret is shown now and never again. Keep it where nobody reads it.</p>
        <p>Access key id</p>
        <div class="command">
          <code>{of.access_key_id}</code>
          <Copy text={of.access_key_id} label="Copy the key id" />
        </div>
        <p>Secret</p>
        <div class="command">
          <code>{of.secret_access_key}</code>
          <Copy text={of.secret_access_key} label="Copy the secret" />
        </div>
        <p class="faint">
          In a terminal, <code>graveler login</code> asks for both.
        </p>
        <div class="actions right-aligned">
          <Button kind="primary" onClick={onClose}>
            I have kept it
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
