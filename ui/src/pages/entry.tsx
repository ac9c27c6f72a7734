/** The ways in: login with a key, and the set-up of a fresh store. */
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useLoad } from "../api/load";
import { go, href } from "../app/router";
import { logIn } from "../app/session";
import { Button, Copy } from "../parts/button";
import { Check, Field, Form } from "../parts/form";
import { Page } from "../parts/page";

export function Login() {
  const state = useLoad("setup state", (signal) => api("GET /setup_lakefs", {}, { signal }));
  const isNew = state.data?.state === "not_initialized";
  return (
    <Page title="Log in" narrow>
      <div class="card entry">
        {isNew && (
          <p class="note">
            This store is new. <a href={href("/setup")}>Create its administrator</a> first.
          </p>
        )}
        <Form action="Log in" submit={(fields) => logIn(fields.key ?? "", fields.secret ?? "")}>
          <Field label="Access key id" name="key" required focus autocomplete="username" />
          <Field
            label="Secret access key"
            name="secret"
            type="password"
            required
            autocomplete="current-password"
          />
        </Form>
        <p class="hint">
          Use the access key that an administrator gave you, or that <code>graveler serve</code>{" "}
          printed at its first start.
        </p>
      </div>
    </Page>
  );
}

interface Key {
  readonly id: string;
  readonly secret: string;
}

/** A fresh store: the token proves that the reader owns it; the key is shown once. */
export function Setup() {
  const [key, setKey] = useState<Key | undefined>();
  const state = useLoad("setup state", (signal) => api("GET /setup_lakefs", {}, { signal }));
  if (key) return <NewKey of={key} />;
  if (state.data?.state === "initialized") {
    return (
      <Page title="Set up" narrow>
        <div class="card entry">
          <p>This store has its administrator.</p>
          <a href={href("/auth/login")}>Log in</a>
        </div>
      </Page>
    );
  }
  const submit = async (fields: Record<string, string>) => {
    const made = await api(
      "POST /setup_lakefs",
      {},
      {
        body: { username: fields.name ?? "admin", email: fields.email ?? "" },
        headers: { "X-Graveler-Setup-Token": fields.token?.trim() ?? "" },
      },
    );
    setKey({ id: made.access_key_id, secret: made.secret_access_key });
  };
  return (
    <Page title="Set up Graveler" narrow>
      <div class="card entry">
        <p>This store is new. Create its administrator; then log in with the key that you get.</p>
        <Form action="Create the administrator" submit={submit}>
          <Field
            label="Set-up token"
            name="token"
            type="password"
            hint="The service printed it at its start. It proves that this store is yours."
            focus
          />
          <Field label="User name" name="name" value="admin" required />
          <Field label="E-mail (optional)" name="email" type="email" />
        </Form>
      </div>
    </Page>
  );
}

function NewKey({ of }: { of: Key }) {
  const submit = () => logIn(of.id, of.secret, href("/repositories", { create: true }));
  return (
    <Page title="Your key" narrow>
      <div class="card entry">
        <p>
          <strong>The secret is shown only now.</strong> Keep both lines, for example in a password
          manager.
        </p>
        <dl class="facts secret">
          <div>
            <dt>Access key id</dt>
            <dd>
              <code>{of.id}</code>
              <Copy text={of.id} label="Copy the access key id" />
            </dd>
          </div>
          <div>
            <dt>Secret access key</dt>
            <dd>
              <code>{of.secret}</code>
              <Copy text={of.secret} label="Copy the secret access key" />
            </dd>
          </div>
        </dl>
        <Form action="Log in with this key" submit={submit}>
          <Check label="I have kept the key" name="kept" required />
        </Form>
        <Button kind="quiet" onClick={() => go(href("/auth/login"))}>
          Log in later
        </Button>
      </div>
    </Page>
  );
}
