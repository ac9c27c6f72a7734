/** Tags: list, create, delete. */
import { useState } from "preact/hooks";
import { api, type Ref } from "../api/client";
import { useLoad } from "../api/load";
import { change, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { Button } from "../parts/button";
import { Dialog } from "../parts/dialog";
import { CommitLink } from "../parts/facts";
import { Field, Form } from "../parts/form";
import { List } from "../parts/list";
import { Page } from "../parts/page";
import { NextPage, PrefixFilter } from "../parts/paged";
import { RefPicker } from "../parts/refs";
import { type Pair, repositoryArn, useRights } from "../parts/rights";
import { Empty, Show } from "../parts/states";
import { sh } from "../parts/text";
import { UseLink } from "../parts/use";

export function Tags({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const after = query.value.get("after") ?? "";
  const prefix = query.value.get("search") ?? "";
  const listed = useLoad(`tags ${repo} ${prefix} ${after}`, (signal) =>
    api(
      "GET /repositories/{repository}/tags",
      { repository: repo },
      {
        query: { prefix, after, amount: 100 },
        signal,
      },
    ),
  );
  const arn = (tag: string) => repositoryArn(`${repo}/tag/${tag}`);
  const deletions = (listed.data?.results ?? []).map(({ id }): Pair => ["fs:DeleteTag", arn(id)]);
  const may = useRights(listed.data ? [["fs:CreateTag", arn(""), "some"], ...deletions] : []);
  const [deleting, setDeleting] = useState<Ref | undefined>();
  const creating = query.value.get("create") === "true";
  const close = () =>
    change({ create: undefined, name: undefined, source: undefined }, { replace: true });
  return (
    <Page
      title="Tags"
      command={sh`graveler tag list ${repo}`}
      actions={
        <>
          <PrefixFilter />
          <Button
            kind="primary"
            icon="plus"
            off={may("fs:CreateTag")}
            onClick={() => change({ create: true })}
          >
            New tag
          </Button>
        </>
      }
    >
      <Show of={listed}>
        {(page) =>
          page.results.length ? (
            <>
              <List
                of={page.results}
                icon="tag"
                linkOf={({ id }) => inRepository(repo, "objects", { ref: id })}
                columns={[
                  {
                    title: "Commit",
                    cell: (tag) => <CommitLink repo={repo} id={tag.commit_id} />,
                  },
                  {
                    title: "Actions",
                    hidden: true,
                    cell: (tag) => (
                      <div class="actions right-aligned">
                        <UseLink repo={repo} ref_={tag.id} />
                        <Button
                          kind="quiet"
                          icon="trash"
                          label={`Delete ${tag.id}`}
                          off={may("fs:DeleteTag", arn(tag.id))}
                          onClick={() => setDeleting(tag)}
                        />
                      </div>
                    ),
                  },
                ]}
              />
              <NextPage of={page.pagination} />
            </>
          ) : (
            <Empty icon="tag" title="No tag" command={sh`graveler tag create ${repo}/v1`}>
              <p>A tag names a commit for ever, for example the data of a report.</p>
            </Empty>
          )
        }
      </Show>
      {creating && <Create repo={repo} onClose={close} onDone={listed.reload} />}
      {deleting && (
        <Delete
          repo={repo}
          of={deleting}
          onClose={() => setDeleting(undefined)}
          onDone={() => {
            setDeleting(undefined);
            listed.reload();
          }}
        />
      )}
    </Page>
  );
}

function Create({ repo, onClose, onDone }: { repo: string; onClose(): void; onDone(): void }) {
  const [source, setSource] = useState(query.value.get("source") ?? "");
  const submit = async (fields: Record<string, string>) => {
    const id = fields.name ?? "";
    await api(
      "POST /repositories/{repository}/tags",
      { repository: repo },
      {
        body: { id, ref: source },
      },
    );
    say(`Tag ${id} is created.`);
    onClose();
    onDone();
  };
  return (
    <Dialog title="New tag" onClose={onClose}>
      <Form
        action="Create the tag"
        off={source ? "" : "choose what it names"}
        submit={submit}
        onCancel={onClose}
      >
        <Field label="Name" name="name" value={query.value.get("name") ?? ""} required focus />
        <div>
          <RefPicker repo={repo} value={source} label="Names" onPick={setSource} />
        </div>
      </Form>
    </Dialog>
  );
}

function Delete(props: { repo: string; of: Ref; onClose(): void; onDone(): void }) {
  const { repo } = props;
  const { id: tag, commit_id: source } = props.of;
  const submit = async () => {
    await api("DELETE /repositories/{repository}/tags/{tag}", { repository: repo, tag });
    say(`Tag ${tag} is deleted.`, {
      href: inRepository(repo, "tags", { create: true, name: tag, source }),
      text: "Bring it back",
    });
    props.onDone();
  };
  return (
    <Dialog title={`Delete ${tag}`} onClose={props.onClose}>
      <Form action="Delete the tag" danger submit={submit} onCancel={props.onClose}>
        <p>The commit stays while another branch or tag leads to it.</p>
      </Form>
    </Dialog>
  );
}
