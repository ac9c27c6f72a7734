/** The policies: list, create. */
import { api } from "../../api/client";
import { useLoad } from "../../api/load";
import { change, fill, go, href, query } from "../../app/router";
import { say } from "../../app/toasts";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { Page } from "../../parts/page";
import { NextPage, PrefixFilter } from "../../parts/paged";
import { statementOf } from "../../parts/policies";
import { PolicyForm } from "../../parts/policyform";
import { inDirectory, useRights } from "../../parts/rights";
import { AccessSections } from "../../parts/sections";
import { Empty, Show } from "../../parts/states";
import { visible } from "../../parts/text";

export function Policies() {
  const prefix = query.value.get("search") ?? "";
  const after = query.value.get("after") ?? "";
  const loaded = useLoad(`policies ${prefix} ${after}`, (signal) =>
    api("GET /auth/policies", {}, { query: { prefix, after, amount: 100 }, signal }),
  );
  const may = useRights([["auth:CreatePolicy", inDirectory("policy/"), "some"]]);
  const close = () => change({ create: undefined }, { replace: true });
  return (
    <Page
      title="Policies"
      command="graveler policy list"
      actions={
        <>
          <PrefixFilter />
          <Button
            kind="primary"
            icon="plus"
            off={may("auth:CreatePolicy")}
            onClick={() => change({ create: true })}
          >
            New policy
          </Button>
        </>
      }
    >
      <AccessSections at="Policies" />
      <Show of={loaded}>
        {(page) =>
          page.results.length ? (
            <>
              <table class="list">
                <thead>
                  <tr>
                    <th scope="col">Policy</th>
                    <th scope="col">Says</th>
                  </tr>
                </thead>
                <tbody>
                  {page.results.map((policy) => (
                    <tr key={policy.id} data-row>
                      <td>
                        <a class="name" href={href(fill("/auth/policies/{id}", { id: policy.id }))}>
                          <Icon name="key" />
                          <span>{visible(policy.id)}</span>
                        </a>
                      </td>
                      <td class="faint">{policy.statement.map(inWords).join("; ")}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <NextPage of={page.pagination} />
            </>
          ) : (
            <Empty icon="search" title={`No policy begins with “${visible(prefix)}”`} />
          )
        }
      </Show>
      {query.value.get("create") && (
        <Dialog title="New policy" wide onClose={close}>
          <PolicyForm
            action="Create the policy"
            onCancel={close}
            submit={async (id, statement) => {
              await api("POST /auth/policies", {}, { body: { id, statement } });
              say(`Policy ${id} is created. It works once it is attached.`);
              go(href(fill("/auth/policies/{id}", { id })));
            }}
          />
        </Dialog>
      )}
    </Page>
  );
}

const WORDS_MAX = 3;

/** A statement in a few words. */
function inWords(text: unknown): string {
  const statement = statementOf(text);
  if (!statement) return "cannot be read";
  const { effect, action } = statement;
  const shown = action.slice(0, WORDS_MAX).map(visible).join(", ");
  const more = action.length > WORDS_MAX ? ` and ${action.length - WORDS_MAX} more` : "";
  return `${effect}s ${shown}${more}`;
}
