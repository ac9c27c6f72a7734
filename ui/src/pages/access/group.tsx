/** A group: members and policies. */
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import { useLoad } from "../../api/load";
import { fill, go, href } from "../../app/router";
import type { Params } from "../../app/routes";
import { say } from "../../app/toasts";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Links } from "../../parts/links";
import { Page } from "../../parts/page";
import { inDirectory, useRights } from "../../parts/rights";
import { AccessSections } from "../../parts/sections";
import { Show } from "../../parts/states";
import { sh, visible } from "../../parts/text";

const ALL = { amount: 1000 };

export function GroupPage({ params }: { params: Params }) {
  const id = params.id ?? "";
  const place = { groupId: id };
  const arn = inDirectory(`group/${id}`);
  const loaded = useLoad(`group ${id}`, (signal) =>
    api("GET /auth/groups/{groupId}", place, { signal }),
  );
  const members = useLoad(`members ${id}`, async (signal) => {
    const page = await api("GET /auth/groups/{groupId}/members", place, { query: ALL, signal });
    return page.results.map((user) => user.id);
  });
  const policies = useLoad(`policies of group ${id}`, async (signal) => {
    const page = await api("GET /auth/groups/{groupId}/policies", place, { query: ALL, signal });
    return page.results.map((policy) => policy.id);
  });
  const may = useRights([
    ["auth:DeleteGroup", arn],
    ["auth:AddGroupMember", arn],
    ["auth:RemoveGroupMember", arn],
    ["auth:AttachPolicy", arn],
    ["auth:DetachPolicy", arn],
  ]);
  const [deleting, setDeleting] = useState(false);
  return (
    <Page
      title={`Group ${id}`}
      heading={visible(id)}
      command={sh`graveler group show ${id}`}
      actions={
        <Button
          kind="danger"
          icon="trash"
          off={may("auth:DeleteGroup")}
          onClick={() => setDeleting(true)}
        >
          Delete
        </Button>
      }
    >
      <AccessSections at="Groups" />
      <Show of={loaded} rows={1}>
        {(found) => (
          <>
            {found.description && <p class="lead">{visible(found.description)}</p>}
            <Links
              title="Members"
              kind="users"
              icon="user"
              of={members}
              none="No member."
              add="Add a member"
              addOff={may("auth:AddGroupMember")}
              removeOff={() => may("auth:RemoveGroupMember")}
              link={(name) => href(fill("/auth/users/{name}", { name }))}
              list={async (prefix, signal) => {
                const query = { prefix, amount: 100 };
                const page = await api("GET /auth/users", {}, { query, signal });
                return page.results.map((user) => user.id);
              }}
              onAdd={async (userId) => {
                await api("PUT /auth/groups/{groupId}/members/{userId}", { ...place, userId });
              }}
              onRemove={async (userId) => {
                await api("DELETE /auth/groups/{groupId}/members/{userId}", { ...place, userId });
              }}
            />
            <Links
              title="Policies"
              kind="policies"
              icon="key"
              of={policies}
              none="No policy: membership gives no right."
              add="Attach a policy"
              addOff={may("auth:AttachPolicy")}
              removeOff={() => may("auth:DetachPolicy")}
              link={(name) => href(fill("/auth/policies/{name}", { name }))}
              list={async (prefix, signal) => {
                const query = { prefix, amount: 100 };
                const page = await api("GET /auth/policies", {}, { query, signal });
                return page.results.map((policy) => policy.id);
              }}
              onAdd={async (policyId) => {
                await api("PUT /auth/groups/{groupId}/policies/{policyId}", { ...place, policyId });
              }}
              onRemove={async (policyId) => {
                await api("DELETE /auth/groups/{groupId}/policies/{policyId}", {
                  ...place,
                  policyId,
                });
              }}
            />
          </>
        )}
      </Show>
      {deleting && (
        <Confirm
          title={`Delete ${visible(id)}`}
          action="Delete the group"
          onClose={() => setDeleting(false)}
          act={async () => {
            await api("DELETE /auth/groups/{groupId}", place);
            say(`Group ${id} is deleted.`);
            go(href("/auth/groups"), { replace: true });
          }}
        >
          <p>Its members lose the rights that it gave, and the denials too.</p>
        </Confirm>
      )}
    </Page>
  );
}
