/** The groups: list, create. */
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

export function Groups() {
  const prefix = query.value.get("search") ?? "";
  const after = query.value.get("after") ?? "";
  const loaded = useLoad(`groups ${prefix} ${after}`, (signal) =>
    api("GET /auth/groups", {}, { query: { prefix, after, amount: 100 }, signal }),
  );
  const may = useRights([["auth:CreateGroup", inDirectory("group/"), "some"]]);
  const close = () => change({ create: undefined }, { replace: true });
  const create = async ({ id = "", description = "" }) => {
    await api("POST /auth/groups", {}, { body: { id, description } });
    say(`Group ${id} is created.`);
    go(href(fill("/auth/groups/{id}", { id })));
  };
  return (
    <Page
      title="Groups"
      command="graveler group list"
      actions={
        <>
          <PrefixFilter />
          <Button
            kind="primary"
            icon="plus"
            off={may("auth:CreateGroup")}
            onClick={() => change({ create: true })}
          >
            New group
          </Button>
        </>
      }
    >
      <AccessSections at="Groups" />
      <Show of={loaded}>
        {(page) =>
          page.results.length ? (
            <>
              <table class="list">
                <thead>
                  <tr>
                    <th scope="col">Group</th>
                    <th scope="col">Description</th>
                    <th scope="col" class="right">
                      Created
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {page.results.map((group) => (
                    <tr key={group.id} data-row>
                      <td>
                        <a class="name" href={href(fill("/auth/groups/{id}", { id: group.id }))}>
                          <Icon name="user" />
                          <span>{visible(group.id)}</span>
                        </a>
                      </td>
                      <td>{visible(group.description)}</td>
                      <td class="right faint nowrap">
                        <Time at={group.creation_date} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <NextPage of={page.pagination} />
            </>
          ) : (
            <Empty icon="search" title={`No group begins with “${visible(prefix)}”`} />
          )
        }
      </Show>
      {query.value.get("create") && (
        <Dialog title="New group" onClose={close}>
          <Form action="Create the group" submit={create} onCancel={close}>
            <Field label="Name" name="id" required focus />
            <Field label="Description" name="description" />
          </Form>
        </Dialog>
      )}
    </Page>
  );
}
