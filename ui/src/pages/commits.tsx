/** The commits that one or several refs lead to, with the graph; or those of a path. */
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { asError, useLoad } from "../api/load";
import { change, go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { Button } from "../parts/button";
import { CommitLink, Time } from "../parts/facts";
import { Icon } from "../parts/icons";
import { Page } from "../parts/page";
import { RefPicker } from "../parts/refs";
import { Empty, ErrorBox, Show, Skeleton } from "../parts/states";
import { firstLine, sh, visible } from "../parts/text";
import { Graph, ROW, widthOf } from "../pictures/graph";
import { lanes } from "../pictures/lanes";

const AMOUNT = 200;

interface Line {
  readonly id: string;
  readonly parents: readonly string[];
  readonly time: number;
  readonly author: string;
  readonly subject: string;
}

interface Names {
  readonly branches: ReadonlyMap<string, readonly string[]>;
  readonly tags: ReadonlyMap<string, readonly string[]>;
}

export function Commits({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const asked = query.value.get("ref") ?? "";
  const path = query.value.get("path") ?? "";
  const about = useLoad(asked ? "" : `repository ${repo}`, (signal) =>
    api("GET /repositories/{repository}", { repository: repo }, { signal }),
  );
  const ref = asked || about.data?.default_branch || "";
  const heads = ref.split(",").filter(Boolean);
  return (
    <Page
      title={path ? `History of ${path}` : "Commits"}
      heading={path ? <>History of {visible(path)}</> : "Commits"}
      command={sh`graveler log ${repo}/${heads[0] ?? ""}` + (path ? sh` ${path}` : " --graph")}
    >
      <div class="toolbar">
        <RefPicker
          repo={repo}
          value={heads[0] ?? ""}
          label="Ref"
          onPick={(to) => change({ ref: to })}
        />
        {!path && heads.length > 0 && (
          <RefPicker
            repo={repo}
            value={heads.slice(1).join(", ") || "add one"}
            label="And"
            onPick={(to) => change({ ref: [...new Set([...heads, to])].join(",") })}
          />
        )}
        {heads.length > 1 && (
          <Button kind="quiet" icon="close" onClick={() => change({ ref: heads[0] })}>
            Only {visible(heads[0] ?? "")}
          </Button>
        )}
        {path && (
          <Button kind="quiet" icon="close" onClick={() => change({ path: undefined })}>
            All paths
          </Button>
        )}
      </div>
      {about.error && <Show of={about}>{() => null}</Show>}
      {ref && path && (
        <OfPath key={`${ref} ${path}`} repo={repo} ref_={heads[0] ?? ""} path={path} />
      )}
      {ref && !path && <Log key={ref} repo={repo} heads={heads} />}
    </Page>
  );
}

function useNames(repo: string): Names | undefined {
  const loaded = useLoad(`names ${repo}`, async (signal) => {
    const options = { query: { amount: 200 }, signal };
    const [branches, tags] = await Promise.all([
      api("GET /repositories/{repository}/branches", { repository: repo }, options),
      api("GET /repositories/{repository}/tags", { repository: repo }, options),
    ]);
    return { branches: grouped(branches.results), tags: grouped(tags.results) };
  });
  return loaded.data;
}

function grouped(refs: ReadonlyArray<{ id: string; commit_id: string }>) {
  const found = new Map<string, string[]>();
  for (const { id, commit_id } of refs) found.set(commit_id, [...(found.get(commit_id) ?? []), id]);
  return found;
}

function Log({ repo, heads }: { repo: string; heads: readonly string[] }) {
  const [lines, setLines] = useState<readonly Line[]>([]);
  const [after, setAfter] = useState("");
  const names = useNames(repo);
  const loaded = useLoad(`graph ${repo} ${heads.join()} ${after}`, (signal) =>
    api(
      "GET /repositories/{repository}/graph",
      { repository: repo },
      {
        query: { heads: [...heads], after, amount: AMOUNT },
        signal,
      },
    ),
  );
  useEffect(() => {
    const page = loaded.data;
    if (!page || loaded.busy) return;
    const { ids, parents, times, authors, subjects } = page.commits;
    const added = ids.map((id, at) => ({
      id,
      parents: parents[at] ?? [],
      time: times[at] ?? 0,
      author: authors[at] ?? "",
      subject: firstLine(subjects[at] ?? ""),
    }));
    setLines((old) => (after ? [...old, ...added] : added));
  }, [loaded.data, loaded.busy, after]);
  if (loaded.error && !lines.length)
    return <ErrorBox error={asError(loaded.error)} retry={loaded.reload} />;
  if (!lines.length) return <Skeleton rows={10} />;
  const next = loaded.data?.pagination.has_more ? loaded.data.pagination.next_offset : "";
  return (
    <>
      <Rows repo={repo} lines={lines} names={names} />
      {next && !loaded.busy && (
        <div class="pager">
          <Button onClick={() => setAfter(next)}>Older commits</Button>
        </div>
      )}
    </>
  );
}

function Rows(props: { repo: string; lines: readonly Line[]; names: Names | undefined }) {
  const { repo, lines, names } = props;
  const drawn = lanes(lines);
  const width = widthOf(drawn);
  return (
    <div class="log" style={{ paddingLeft: `${width}px` }}>
      <Graph rows={drawn} width={width} />
      <ol>
        {lines.map((line) => (
          <li key={line.id} data-row style={{ height: `${ROW}px` }}>
            <a class="subject cut" href={inRepository(repo, `commits/${line.id}`)}>
              {visible(line.subject)}
            </a>
            {names && <Refs repo={repo} id={line.id} names={names} />}
            <span class="space" />
            <span class="faint cut author wide-only">{visible(line.author)}</span>
            <span class="faint nowrap time">
              <Time at={line.time} />
            </span>
            <span class="wide-only">
              <CommitLink repo={repo} id={line.id} />
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function Refs({ repo, id, names }: { repo: string; id: string; names: Names }) {
  const branches = names.branches.get(id) ?? [];
  const tags = names.tags.get(id) ?? [];
  const link = (ref: string) => inRepository(repo, "objects", { ref });
  return (
    <span class="refs">
      {branches.slice(0, 3).map((name) => (
        <a key={name} class="ref" href={link(name)}>
          <Icon name="branch" />
          {visible(name)}
        </a>
      ))}
      {tags.slice(0, 2).map((name) => (
        <a key={`tag ${name}`} class="ref tag" href={link(name)}>
          <Icon name="tag" />
          {visible(name)}
        </a>
      ))}
    </span>
  );
}

function OfPath({ repo, ref_: ref, path }: { repo: string; ref_: string; path: string }) {
  const isFolder = path.endsWith("/");
  const after = query.value.get("after") ?? "";
  const loaded = useLoad(`log ${repo} ${ref} ${path} ${after}`, (signal) =>
    api(
      "GET /repositories/{repository}/refs/{ref}/commits",
      { repository: repo, ref },
      {
        query: { ...(isFolder ? { prefixes: [path] } : { objects: [path] }), after, amount: 50 },
        signal,
      },
    ),
  );
  return (
    <Show of={loaded}>
      {(page) =>
        page.results.length ? (
          <>
            <table class="list">
              <tbody>
                {page.results.map((commit) => (
                  <tr key={commit.id} data-row>
                    <td>
                      <a href={inRepository(repo, `commits/${commit.id}`)}>
                        {visible(firstLine(commit.message))}
                      </a>
                    </td>
                    <td class="faint wide-only">{visible(commit.committer)}</td>
                    <td class="faint nowrap">
                      <Time at={commit.creation_date} />
                    </td>
                    <td class="right nowrap">
                      {!isFolder && (
                        <a
                          class="button"
                          href={inRepository(repo, "compare", {
                            ref: commit.parents[0],
                            compare: commit.id,
                            file: path,
                          })}
                        >
                          Differences
                        </a>
                      )}{" "}
                      <a
                        class="button"
                        href={inRepository(repo, isFolder ? "objects" : "object", {
                          ref: commit.id,
                          path,
                        })}
                      >
                        Open
                      </a>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {page.pagination.has_more && (
              <div class="pager">
                <Button
                  onClick={() =>
                    go(
                      inRepository(repo, "commits", {
                        ref,
                        path,
                        after: page.pagination.next_offset,
                      }),
                    )
                  }
                >
                  Older commits
                </Button>
              </div>
            )}
          </>
        ) : (
          <Empty icon="history" title="No commit changed this path" />
        )
      }
    </Show>
  );
}
