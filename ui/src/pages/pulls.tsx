/** Pull requests: the list, and a new one. */
import { api } from "../api/client";
import { useLoad } from "../api/load";
import { change, changed, go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { ButtonLink } from "../parts/button";
import { between, DiffTree } from "../parts/difftree";
import { Time } from "../parts/facts";
import { Field, Form } from "../parts/form";
import { List } from "../parts/list";
import { Page } from "../parts/page";
import { NextPage } from "../parts/paged";
import { RefPicker, useRefOrDefault } from "../parts/refs";
import { repositoryArn, useRights } from "../parts/rights";
import { Empty, Failure, Show } from "../parts/states";
import { sh, visible } from "../parts/text";

const STATES = ["open", "merged", "closed", "all"] as const;
type State = (typeof STATES)[number];

export function Pulls({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const asked = query.value.get("status") ?? "open";
  const status: State = STATES.find((each) => each === asked) ?? "open";
  const after = query.value.get("after") ?? "";
  const listed = useLoad(`pulls ${repo} ${status} ${after}`, (signal) =>
    api(
      "GET /repositories/{repository}/pulls",
      { repository: repo },
      {
        query: { status, after, amount: 50 },
        signal,
      },
    ),
  );
  return (
    <Page
      title="Pull requests"
      command={sh`graveler pr list ${repo}`}
      actions={
        <ButtonLink kind="primary" icon="plus" href={inRepository(repo, "pulls/create")}>
          New pull request
        </ButtonLink>
      }
    >
      <div class="toolbar">
        <nav class="views" aria-label="State of the pull requests">
          {STATES.map((each) => (
            <a
              key={each}
              href={changed({ status: each === "open" ? "" : each, after: "" })}
              aria-current={each === status ? "page" : undefined}
            >
              {each}
            </a>
          ))}
        </nav>
      </div>
      <Show of={listed}>
        {(page) =>
          page.results.length ? (
            <>
              <List
                of={page.results}
                icon="pull"
                title="Title"
                linkOf={({ id }) => inRepository(repo, `pulls/${id}`)}
                nameOf={(pull) => pull.title}
                badge={(pull) => status === "all" && <span class="badge">{pull.status}</span>}
                columns={[
                  {
                    title: "Branches",
                    class: "wide-only faint",
                    cell: (pull) =>
                      `${visible(pull.source_branch)} → ${visible(pull.destination_branch)}`,
                  },
                  {
                    title: "Author",
                    class: "wide-only faint",
                    cell: (pull) => visible(pull.author),
                  },
                  {
                    title: "Opened",
                    class: "right faint nowrap",
                    cell: (pull) => <Time at={Date.parse(pull.creation_date) / 1000} />,
                  },
                ]}
              />
              <NextPage of={page.pagination} />
            </>
          ) : (
            <Empty icon="pull" title={`No pull request${status === "all" ? "" : ` is ${status}`}`}>
              <p>A pull request asks for a merge, so that others look at the changes first.</p>
            </Empty>
          )
        }
      </Show>
    </Page>
  );
}

export function NewPull({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const asked = query.value.get("ref") ?? "";
  const [base, about] = useRefOrDefault(repo, asked);
  const source = query.value.get("compare") ?? "";
  const may = useRights([["pr:WritePullRequest", repositoryArn(repo)]]);
  const ready = Boolean(base && source && base !== source);
  const submit = async (fields: Record<string, string>) => {
    const made = await api(
      "POST /repositories/{repository}/pulls",
      { repository: repo },
      {
        body: {
          title: fields.title ?? "",
          description: fields.description ?? "",
          source_branch: source,
          destination_branch: base,
        },
      },
    );
    say("The pull request is open.");
    go(inRepository(repo, `pulls/${made.id}`));
  };
  return (
    <Page
      title="New pull request"
      command={sh`graveler pr create ${repo}/${source || "BRANCH"} ${base || "main"}`}
    >
      <div class="toolbar">
        <RefPicker
          repo={repo}
          value={base}
          label="Into"
          onlyBranches
          onPick={(ref) => change({ ref })}
        />
        <RefPicker
          repo={repo}
          value={source}
          label="From"
          onlyBranches
          onPick={(compare) => change({ compare })}
        />
      </div>
      <Failure of={about} />
      <div class="columns">
        {ready ? (
          <DiffTree
            key={`${base} ${source}`}
            of={between(repo, base, source, "three_dot")}
            empty={<Empty icon="check" title="There is nothing to merge" />}
          />
        ) : (
          <Empty icon="compare" title="Choose the branch to merge from" />
        )}
        <section class="card" aria-label="Pull request">
          <Form
            action="Open it"
            off={ready ? may("pr:WritePullRequest") : "choose two branches"}
            submit={submit}
          >
            <Field label="Title" name="title" required value={ready ? `Merge ${source}` : ""} />
            <Field label="Description (Markdown)" name="description" lines={6} />
          </Form>
        </section>
      </div>
    </Page>
  );
}
