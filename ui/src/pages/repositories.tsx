/** The list of repositories, and the creation of one. */
import { useRef, useState } from "preact/hooks";
import { api, type Repository } from "../api/client";
import { useLoad } from "../api/load";
import { change, changed, go, inRepository, query } from "../app/router";
import { say } from "../app/toasts";
import { Button } from "../parts/button";
import { Dialog } from "../parts/dialog";
import { Time } from "../parts/facts";
import { Check, Field, Form } from "../parts/form";
import { Icon } from "../parts/icons";
import { isOver } from "../parts/jobs";
import { Page } from "../parts/page";
import { repositoryArn, useRights } from "../parts/rights";
import { useInSight } from "../parts/sight";
import { Empty, Show } from "../parts/states";
import { count, firstLine, visible } from "../parts/text";

export function Repositories() {
  const search = query.value.get("search") ?? "";
  const after = query.value.get("after") ?? "";
  const loaded = useLoad(`repositories ${search} ${after}`, (signal) =>
    api("GET /repositories", {}, { query: { search, after, amount: 100 }, signal }),
  );
  const may = useRights([["fs:CreateRepository", repositoryArn(""), "some"]]);
  const creating = query.value.get("create") === "true";
  const close = () => change({ create: undefined }, { replace: true });
  return (
    <Page
      title="Repositories"
      command="graveler repo list"
      actions={
        <>
          <input
            type="search"
            data-filter
            aria-label="Find a repository"
            placeholder="Find a repository"
            value={search}
            onInput={(event) =>
              change({ search: event.currentTarget.value, after: undefined }, { replace: true })
            }
          />
          <Button
            kind="primary"
            icon="plus"
            off={may("fs:CreateRepository")}
            onClick={() => change({ create: true })}
          >
            New repository
          </Button>
        </>
      }
    >
      <Show of={loaded}>
        {(found) =>
          found.results.length ? (
            <>
              <List of={found.results} />
              {found.pagination.has_more && (
                <p>
                  <a class="button" href={changed({ after: found.pagination.next_offset })}>
                    Next page
                  </a>
                </p>
              )}
            </>
          ) : (
            <NoRepository search={search} />
          )
        }
      </Show>
      {creating && <Create onClose={close} />}
    </Page>
  );
}

function List({ of }: { of: readonly Repository[] }) {
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Default branch</th>
          <th scope="col" class="wide-only">
            Last commit
          </th>
          <th scope="col" class="wide-only">
            Storage
          </th>
          <th scope="col" class="right">
            Created
          </th>
        </tr>
      </thead>
      <tbody>
        {of.map((repository) => (
          <tr key={repository.id} data-row>
            <td>
              <a
                class="name"
                href={inRepository(repository.id, "objects", { ref: repository.default_branch })}
              >
                <Icon name="repository" />
                {visible(repository.id)}
              </a>
              {repository.read_only && <span class="badge">read-only</span>}
            </td>
            <td>{visible(repository.default_branch)}</td>
            <td class="wide-only">
              <Latest of={repository} />
            </td>
            <td class="wide-only faint cut">{visible(repository.storage_namespace)}</td>
            <td class="right faint">
              <Time at={repository.creation_date} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const JOBS = 10;

/** The last commit of the default branch, and jobs that run; asked for when the row is in sight. */
function Latest({ of: { id, default_branch } }: { of: Repository }) {
  const element = useRef<HTMLDivElement>(null);
  const isSeen = useInSight(element, { once: true });
  const place = { repository: id, ref: default_branch };
  const loaded = useLoad(isSeen ? `latest ${id}` : "", async (signal) => {
    const [log, jobs] = await Promise.all([
      api("GET /repositories/{repository}/refs/{ref}/commits", place, {
        query: { amount: 1, limit: true },
        signal,
      }),
      api("GET /repositories/{repository}/jobs", place, { query: { amount: JOBS }, signal }),
    ]);
    const running = jobs.results.filter((job) => !isOver(job)).length;
    return { commit: log.results[0], running };
  });
  const { commit, running = 0 } = loaded.data ?? {};
  return (
    <div ref={element} class="latest">
      {commit && (
        <a class="cut" href={inRepository(id, `commits/${commit.id}`)}>
          {visible(firstLine(commit.message))}
        </a>
      )}
      {commit && (
        <span class="faint nowrap">
          <Time at={commit.creation_date} />
        </span>
      )}
      {running > 0 && (
        <a class="badge" href={inRepository(id, "jobs")}>
          {running === JOBS ? `${JOBS} jobs or more` : count(running, "job")}
        </a>
      )}
    </div>
  );
}

function NoRepository({ search }: { search: string }) {
  if (search)
    return <Empty icon="search" title={`No repository has “${visible(search)}” in its name`} />;
  return (
    <Empty
      icon="repository"
      title="No repository yet"
      command="graveler repo create lake local://lake"
    >
      <p>A repository holds branches of a data lake. Its objects stay in your storage.</p>
      <Button kind="primary" icon="plus" onClick={() => change({ create: true })}>
        Create the first repository
      </Button>
    </Empty>
  );
}

function Create({ onClose }: { onClose(): void }) {
  const storage = useLoad("config", (signal) => api("GET /config/storage", {}, { signal }));
  const [name, setName] = useState("");
  const [chosen, setChosen] = useState<string | undefined>();
  const prefix = storage.data?.default_namespace_prefix || exampleRoot(storage.data);
  const namespace = chosen ?? (name ? `${prefix.replace(/\/?$/, "/")}${name}` : "");
  const submit = async (fields: Record<string, string>) => {
    const made = await api(
      "POST /repositories",
      {},
      {
        body: {
          name: fields.name ?? "",
          storage_namespace: fields.namespace ?? "",
          default_branch: fields.branch || "main",
          sample_data: fields.sample === "on",
        },
      },
    );
    say(`Repository ${made.id} is created.`);
    go(inRepository(made.id, "objects", { ref: made.default_branch }));
  };
  return (
    <Dialog title="New repository" onClose={onClose}>
      <Form action="Create the repository" submit={submit} onCancel={onClose}>
        <Field
          label="Name"
          name="name"
          hint="3 to 63 small letters, digits and hyphens"
          pattern="[a-z0-9][a-z0-9\-]{2,62}"
          value={name}
          onInput={setName}
          required
          focus
        />
        <Field
          label="Storage namespace"
          name="namespace"
          hint={`Where the objects are kept, for example ${
            storage.data?.blockstore_namespace_example ?? "s3://bucket/folder"
          }`}
          value={namespace}
          onInput={setChosen}
          required
        />
        <Field label="Default branch" name="branch" value="main" required />
        <Check label="Add sample data" name="sample" hint="A few small files to look at" />
      </Form>
    </Dialog>
  );
}

function exampleRoot(config: { blockstore_type: string } | undefined): string {
  return config?.blockstore_type === "s3" ? "s3://" : "local://";
}
