/** The policies: list, create. */
import { api } from "../../api/client";
import { fill, go, href } from "../../app/router";
import { say } from "../../app/toasts";
import { ListPage } from "../../parts/listpage";
import { statementOf } from "../../parts/policies";
import { PolicyForm } from "../../parts/policyform";
import { inDirectory } from "../../parts/rights";
import { AccessSections } from "../../parts/sections";
import { visible } from "../../parts/text";

const linkOf = (id: string): string => href(fill("/auth/policies/{id}", { id }));

export function Policies() {
  return (
    <ListPage
      title="Policies"
      one="policy"
      icon="key"
      command="graveler policy list"
      wide
      right={["auth:CreatePolicy", inDirectory("policy/"), "some"]}
      load={(paging, signal) => api("GET /auth/policies", {}, { query: { ...paging }, signal })}
      linkOf={linkOf}
      columns={[
        {
          title: "Says",
          class: "faint",
          cell: (policy) => policy.statement.map(inWords).join("; "),
        },
      ]}
      form={(close) => (
        <PolicyForm
          action="Create the policy"
          onCancel={close}
          submit={async (id, statement) => {
            await api("POST /auth/policies", {}, { body: { id, statement } });
            say(`Policy ${id} is created. It works once it is attached.`);
            go(linkOf(id));
          }}
        />
      )}
    >
      <AccessSections at="Policies" />
    </ListPage>
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
