/** What belongs to the user of the page: keys, and the question "may I?". */
import { api } from "../../api/client";
import { useLoad } from "../../api/load";
import { change, fill, href, query } from "../../app/router";
import { startSession, user, userUnknown } from "../../app/session";
import { Keys } from "../../parts/keys";
import { Page } from "../../parts/page";
import { AccessSections } from "../../parts/sections";
import { Question } from "../../parts/statements";
import { ErrorBox, Show } from "../../parts/states";
import { sh, visible } from "../../parts/text";

export function Credentials() {
  const id = user.value?.id ?? "";
  const action = query.value.get("action") ?? "";
  const resource = query.value.get("resource") ?? "";
  const asked = useLoad(action && resource ? `may I ${action} ${resource}` : "", (signal) =>
    api("POST /auth/may-i", {}, { body: { pairs: [{ action, resource }] }, signal }),
  );
  return (
    <Page title="My access" command={sh`graveler user key list ${id}`}>
      <AccessSections at="My access" />
      {id && (
        <p class="lead">
          You are <strong>{visible(id)}</strong>.
        </p>
      )}
      {userUnknown.value && <ErrorBox error={userUnknown.value} retry={startSession} />}
      {id && <Keys user={id} />}
      <section class="section" aria-labelledby="may-i">
        <h2 id="may-i">May I?</h2>
        <Question
          key={`${action} ${resource}`}
          action={action}
          resource={resource}
          text="Ask"
          onAsk={(name, on) => change({ action: name, resource: on })}
        />
        {action && resource && (
          <Show of={asked} rows={1}>
            {({ results: [right] }) => (
              <div class={`verdict ${right?.allowed ? "allowed" : "denied"}`} role="status">
                <strong>{right?.allowed ? "Allowed" : "Denied"}</strong>
                <p>
                  {visible(action)} on {visible(resource)}
                </p>
                <p>
                  <a
                    href={href(fill("/auth/users/{id}/policies/effective", { id }), {
                      action,
                      resource,
                    })}
                  >
                    By which statement?
                  </a>
                </p>
              </div>
            )}
          </Show>
        )}
      </section>
    </Page>
  );
}
