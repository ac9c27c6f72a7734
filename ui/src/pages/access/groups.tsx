/** The groups: list, create. */
import { api } from "../../api/client";
import { fill, go, href } from "../../app/router";
import { say } from "../../app/toasts";
import { Time } from "../../parts/facts";
import { Field, Form } from "../../parts/form";
import { ListPage } from "../../parts/listpage";
import { inDirectory } from "../../parts/rights";
import { AccessSections } from "../../parts/sections";
import { visible } from "../../parts/text";

const linkOf = (id: string): string => href(fill("/auth/groups/{id}", { id }));

export function Groups() {
  const create = async ({ id = "", description = "" }) => {
    await api("POST /auth/groups", {}, { body: { id, description } });
    say(`Group ${id} is created.`);
    go(linkOf(id));
  };
  return (
    <ListPage
      title="Groups"
      one="group"
      icon="user"
      command="graveler group list"
      right={["auth:CreateGroup", inDirectory("group/"), "some"]}
      load={(paging, signal) => api("GET /auth/groups", {}, { query: { ...paging }, signal })}
      linkOf={linkOf}
      columns={[
        { title: "Description", cell: (group) => visible(group.description) },
        {
          title: "Created",
          class: "right faint nowrap",
          cell: (group) => <Time at={group.creation_date} />,
        },
      ]}
      form={(close) => (
        <Form action="Create the group" submit={create} onCancel={close}>
          <Field label="Name" name="id" required focus />
          <Field label="Description" name="description" />
        </Form>
      )}
    >
      <AccessSections at="Groups" />
    </ListPage>
  );
}
