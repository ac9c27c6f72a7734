/** The users: list, create. */
import { api } from "../../api/client";
import { useLoad } from "../../api/load";
import { change, fill, go, href, query } from "../../app/router";
import { say } from "../../app/toasts";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { Time } from "../../parts/facts";
import { Field, Form } from "../../parts/form";
import { Icon } from "../../parts/icons";
import { Page } from "../../parts/page";
import { NextPage, PrefixFilter } from "../../parts/paged";
import { inDirectory, useRights } from "../../parts/rights";
import { AccessSections } from "../../parts/sections";
import { Empty, Show } from "../../parts/states";
import { visible } from "../../parts/text";

export function Users() {
  const prefix = query.value.get("search") ?? "";
  const after = query.value.get("after") ?? "";
  const loaded = useLoad(`users ${prefix} ${after}`, (signal) =>
    api("GET /auth/users", {}, { query: { prefix, after, amount: 100 }, signal }),
  );
  const may = useRights([["auth:CreateUser", inDirectory("user/"), "some"]]);
  const close = () => change({ create: undefined }, { replace: true });
  const create = async ({ id = "", name = "", email = "" }) => {
    await api("POST /auth/users", {}, { body: { id, friendly_name: name, email } });
    say(`User ${id} is created, without any right.`);
    go(href(fill("/auth/users/{id}", { id })));
  };
  return (
    <Page
      title="Users"
      command="graveler user list"
      actions={
        <>
          <PrefixFilter />
          <Button
            kind="primary"
            icon="plus"
            off={may("auth:CreateUser")}
            onClick={() => change({ create: true })}
          >
            New user
          </Button>
        </>
      }
    >
      <AccessSections at="Users" />
      <Show of={loaded}>
        {(page) =>
          page.results.length ? (
            <>
              <table class="list">
                <thead>
                  <tr>
                    <th scope="col">User</th>
                    <th scope="col" class="wide-only">
                      Name
                    </th>
                    <th scope="col">Email</th>
                    <th scope="col" class="right wide-only">
                      Created
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {page.results.map((user) => (
                    <tr key={user.id} data-row>
                      <td>
                        <a class="name" href={href(fill("/auth/users/{id}", { id: user.id }))}>
                          <Icon name="user" />
                          <span>{visible(user.id)}</span>
                        </a>
                        {user.disabled && <span class="badge bad">disabled</span>}
                      </td>
                      <td class="wide-only">{visible(user.friendly_name)}</td>
                      <td>{visible(user.email)}</td>
                      <td class="right faint nowrap wide-only">
                        <Time at={user.creation_date} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <NextPage of={page.pagination} />
            </>
          ) : (
            <Empty icon="search" title={`No user begins with “${visible(prefix)}”`} />
          )
        }
      </Show>
      {query.value.get("create") && (
        <Dialog title="New user" onClose={close}>
          <Form action="Create the user" submit={create} onCancel={close}>
            <Field label="User id" name="id" required focus hint="Nobody can change it later." />
            <Field label="Name" name="name" />
            <Field label="Email" name="email" type="email" />
          </Form>
        </Dialog>
      )}
    </Page>
  );
}
