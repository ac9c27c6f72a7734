/** A user: groups, policies, keys; disable, enable, delete. */
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import { useLoad } from "../../api/load";
import { fill, go, href } from "../../app/router";
import type { Params } from "../../app/routes";
import { user as current } from "../../app/session";
import { say } from "../../app/toasts";
import { Button, ButtonLink } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Facts, Time } from "../../parts/facts";
import { Keys } from "../../parts/keys";
import { Links } from "../../parts/links";
import { Page } from "../../parts/page";
import { inDirectory, type Pair, useRights } from "../../parts/rights";
import { AccessSections } from "../../parts/sections";
import { Show } from "../../parts/states";
import { sh, visible } from "../../parts/text";

const ALL = { amount: 1000 };

export function UserPage({ params }: { params: Params }) {
  const id = params.id ?? "";
  const place = { userId: id };
  const loaded = useLoad(`user ${id}`, (signal) =>
    api("GET /auth/users/{userId}", place, { signal }),
  );
  const own = inDirectory(`user/${id}`);
  const may = useRights([
    ["auth:DeleteUser", own],
    ["auth:AttachPolicy", own],
    ["auth:DetachPolicy", own],
  ]);
  const [deleting, setDeleting] = useState(false);
  const isSelf = current.value?.id === id;
  const off = isSelf ? "you cannot do this to yourself" : may("auth:DeleteUser");
  const change = async (operation: "disable" | "enable") => {
    await api(`POST /auth/users/{userId}/${operation}`, place);
    say(`User ${id} is ${operation}d.`);
    loaded.reload();
  };
  return (
    <Page
      title={`User ${id}`}
      heading={visible(id)}
      command={sh`graveler user show ${id}`}
      actions={
        <>
          <ButtonLink
            icon="search"
            href={href(fill("/auth/users/{id}/policies/effective", { id }))}
          >
            Effective rights
          </ButtonLink>
          <ButtonLink icon="history" href={href("/auth/audit", { user: id })}>
            Audit
          </ButtonLink>
          {loaded.data &&
            (loaded.data.disabled ? (
              <Button off={off} onClick={() => change("enable")}>
                Enable
              </Button>
            ) : (
              <Button off={off} onClick={() => change("disable")}>
                Disable
              </Button>
            ))}
          {loaded.data && (
            <Button kind="danger" icon="trash" off={off} onClick={() => setDeleting(true)}>
              Delete
            </Button>
          )}
        </>
      }
    >
      <AccessSections at="Users" />
      <Show of={loaded} rows={3}>
        {(found) => (
          <>
            {found.disabled && (
              <p class="banner">
                The keys, sessions and external principals of this user are refused. They are kept.
              </p>
            )}
            <Facts
              of={[
                ["Name", visible(found.friendly_name) || "–"],
                ["Email", visible(found.email) || "–"],
                ["Created", <Time at={found.creation_date} />],
              ]}
            />
            <Groups id={id} />
            <Policies id={id} may={may} />
            <Keys user={id} />
          </>
        )}
      </Show>
      {deleting && (
        <Confirm
          title={`Delete ${visible(id)}`}
          action="Delete the user"
          typed={id}
          onClose={() => setDeleting(false)}
          act={async () => {
            await api("DELETE /auth/users/{userId}", place);
            say(`User ${id} is deleted.`);
            go(href("/auth/users"), { replace: true });
          }}
        >
          <p>The keys go with the user. Commits and audit lines keep the name.</p>
        </Confirm>
      )}
    </Page>
  );
}

function Groups({ id }: { id: string }) {
  const loaded = useLoad(`groups of ${id}`, async (signal) => {
    const query = ALL;
    const page = await api("GET /auth/users/{userId}/groups", { userId: id }, { query, signal });
    return page.results.map((group) => group.id);
  });
  const arn = (group: string) => inDirectory(`group/${group}`);
  const removals = (loaded.data ?? []).map((name): Pair => ["auth:RemoveGroupMember", arn(name)]);
  const may = useRights([["auth:AddGroupMember", arn(""), "some"], ...removals]);
  return (
    <Links
      title="Groups"
      kind="groups"
      icon="user"
      of={loaded}
      none="In no group."
      add="Add to a group"
      addOff={may("auth:AddGroupMember")}
      removeOff={(name) => may("auth:RemoveGroupMember", arn(name))}
      link={(name) => href(fill("/auth/groups/{name}", { name }))}
      list={async (prefix, signal) => {
        const query = { prefix, amount: 100 };
        const page = await api("GET /auth/groups", {}, { query, signal });
        return page.results.map((group) => group.id);
      }}
      onAdd={async (groupId) => {
        await api("PUT /auth/groups/{groupId}/members/{userId}", { groupId, userId: id });
      }}
      onRemove={async (groupId) => {
        await api("DELETE /auth/groups/{groupId}/members/{userId}", { groupId, userId: id });
      }}
    />
  );
}

function Policies({ id, may }: { id: string; may(action: string): string }) {
  const place = { userId: id };
  const loaded = useLoad(`policies of user ${id}`, async (signal) => {
    const page = await api("GET /auth/users/{userId}/policies", place, { query: ALL, signal });
    return page.results.map((policy) => policy.id);
  });
  return (
    <Links
      title="Policies"
      kind="policies"
      icon="key"
      of={loaded}
      none="None of its own: rights come from groups."
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
        await api("PUT /auth/users/{userId}/policies/{policyId}", { ...place, policyId });
      }}
      onRemove={async (policyId) => {
        await api("DELETE /auth/users/{userId}/policies/{policyId}", { ...place, policyId });
      }}
    />
  );
}
