/** The users: list, create. */
import { api } from "../../api/client";
import { fill, go, href } from "../../app/router";
import { say } from "../../app/toasts";
import { Time } from "../../parts/facts";
import { Field, Form } from "../../parts/form";
import { ListPage } from "../../parts/listpage";
import { inDirectory } from "../../parts/rights";
import { AccessSections } from "../../parts/sections";
import { visible } from "../../parts/text";

const linkOf = (id: string): string => href(fill("/auth/users/{id}", { id }));

export function Users() {
  const create = async ({ id = "", name = "", email = "" }) => {
    await api("POST /auth/users", {}, { body: { id, friendly_name: name, email } });
    say(`User ${id} is created, without any right.`);
    go(linkOf(id));
  };
  return (
    <ListPage
      title="Users"
      one="user"
      icon="user"
      command="graveler user list"
      right={["auth:CreateUser", inDirectory("user/"), "some"]}
      load={(paging, signal) => api("GET /auth/users", {}, { query: { ...paging }, signal })}
      linkOf={linkOf}
      badge={(user) => user.disabled && <span class="badge bad">disabled</span>}
      columns={[
        {
          title: "Full name",
          class: "wide-only",
          cell: (user) => visible(user.friendly_name),
        },
        { title: "Email", cell: (user) => visible(user.email) },
        {
          title: "Created",
          class: "right faint nowrap wide-only",
          cell: (user) => <Time at={user.creation_date} />,
        },
      ]}
      form={(close) => (
        <Form action="Create the user" submit={create} onCancel={close}>
          <Field label="User id" name="id" required focus hint="Nobody can change it later." />
          <Field label="Name" name="name" />
          <Field label="Email" name="email" type="email" />
        </Form>
      )}
    >
      <AccessSections at="Users" />
    </ListPage>
  );
}
