/** A policy: its statements, their change, its deletion. */
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import { useLoad } from "../../api/load";
import { change, go, href, query } from "../../app/router";
import type { Params } from "../../app/routes";
import { say } from "../../app/toasts";
import { Button, Copy } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Dialog } from "../../parts/dialog";
import { Time } from "../../parts/facts";
import { Page } from "../../parts/page";
import { PolicyForm } from "../../parts/policyform";
import { inDirectory, useRights } from "../../parts/rights";
import { AccessSections } from "../../parts/sections";
import { StatementText } from "../../parts/statements";
import { Show } from "../../parts/states";
import { sh, visible } from "../../parts/text";

export function PolicyPage({ params }: { params: Params }) {
  const id = params.id ?? "";
  const place = { policyId: id };
  const arn = inDirectory(`policy/${id}`);
  const loaded = useLoad(`policy ${id}`, (signal) =>
    api("GET /auth/policies/{policyId}", place, { signal }),
  );
  const may = useRights([
    ["auth:UpdatePolicy", arn],
    ["auth:DeletePolicy", arn],
  ]);
  const [deleting, setDeleting] = useState(false);
  const close = () => change({ edit: undefined }, { replace: true });
  return (
    <Page
      title={`Policy ${id}`}
      heading={visible(id)}
      command={sh`graveler policy show ${id}`}
      actions={
        <>
          <Button off={may("auth:UpdatePolicy")} onClick={() => change({ edit: true })}>
            Edit
          </Button>
          <Button
            kind="danger"
            icon="trash"
            off={may("auth:DeletePolicy")}
            onClick={() => setDeleting(true)}
          >
            Delete
          </Button>
        </>
      }
    >
      <AccessSections at="Policies" />
      <Show of={loaded}>
        {(found) => (
          <>
            <p class="lead">
              Created <Time at={found.creation_date} />{" "}
              <Copy
                text={JSON.stringify({ id, statement: found.statement }, undefined, 2)}
                label="Copy as JSON"
              />
            </p>
            <ol class="stack">
              {found.statement.map((statement, at) => (
                <li key={at}>
                  <StatementText of={statement} />
                </li>
              ))}
            </ol>
            {query.value.get("edit") && (
              <Dialog title={`Edit ${visible(id)}`} wide onClose={close}>
                <PolicyForm
                  action="Save the policy"
                  id={id}
                  statement={found.statement}
                  onCancel={close}
                  submit={async (_, statement) => {
                    await api("PUT /auth/policies/{policyId}", place, { body: { id, statement } });
                    say(`Policy ${id} is changed, for everybody who has it.`);
                    close();
                    loaded.reload();
                  }}
                />
              </Dialog>
            )}
          </>
        )}
      </Show>
      {deleting && (
        <Confirm
          title={`Delete ${visible(id)}`}
          action="Delete the policy"
          onClose={() => setDeleting(false)}
          act={async () => {
            await api("DELETE /auth/policies/{policyId}", place);
            say(`Policy ${id} is deleted.`);
            go(href("/auth/policies"), { replace: true });
          }}
        >
          <p>Everybody who has it loses what it allows, and what it denies.</p>
        </Confirm>
      )}
    </Page>
  );
}
