/** The commits that one or several refs lead to, with the graph; or those of a path. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { api } from "../api/client";
import { type Endless, useEndless } from "../api/endless";
import { useLoad } from "../api/load";
import { change, changed, go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { Button } from "../parts/button";
import { CommitLink, Time } from "../parts/facts";
import { Icon } from "../parts/icons";
import { Moved } from "../parts/moved";
import { Page } from "../parts/page";
import { RefPicker, useRefOrDefault } from "../parts/refs";
import { useNarrow, useSight } from "../parts/sight";
import { Empty, ErrorBox, Failure, Show, Skeleton } from "../parts/states";
import { count, firstLine, sh, visible } from "../parts/text";
import { Activity, firstDay } from "../pictures/activity";
import { Graph, ROW, widthOf } from "../pictures/graph";
import { lanes } from "../pictures/lanes";

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
  const [ref, about] = useRefOrDefault(repo, asked);
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
      <Failure of={about} />
      {ref && path && (
        <OfPath key={`${ref} ${path}`} repo={repo} ref_={heads[0] ?? ""} path={path} />
      )}
      {ref && !path && <Whole key={ref} repo={repo} heads={heads} />}
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

const VIEWS = [
  ["", "History"],
  ["first", "First parents"],
  ["activity", "Activity"],
] as const;

/** All commits: as a list, those made on the branch itself, or by day and author. */
function Whole({ repo, heads }: { repo: string; heads: readonly string[] }) {
  const view = query.value.get("view") ?? "";
  const isFirst = view === "first";
  const of = isFirst ? heads.slice(0, 1) : heads;
  return (
    <>
      <div class="toolbar">
        <nav class="views" aria-label="Views of the commits">
          {VIEWS.map(([name, text]) => (
            <a
              key={name}
              href={changed({ view: name })}
              aria-current={view === name ? "page" : undefined}
            >
              {text}
            </a>
          ))}
        </nav>
      </div>
      {view === "activity" ? (
        <OfYear repo={repo} heads={of} />
      ) : (
        <Log key={`${isFirst}`} repo={repo} heads={of} isFirst={isFirst} />
      )}
    </>
  );
}

/** A graph needs every commit before those that it shows. */
const BOUNDS = { first: 60, held: Number.POSITIVE_INFINITY };

function Log(props: { repo: string; heads: readonly string[]; isFirst: boolean }) {
  const { repo, heads, isFirst } = props;
  const names = useNames(repo);
  const key = `graph ${repo} ${heads.join()}`;
  const load = async (after: string, amount: number, signal: AbortSignal) => {
    const query = { heads: [...heads], after, amount };
    const place = { repository: repo };
    const page = await api("GET /repositories/{repository}/graph", place, { query, signal });
    const { ids, parents, times, authors, subjects } = page.commits;
    const results = ids.map(
      (id, at): Line => ({
        id,
        parents: parents[at] ?? [],
        time: times[at] ?? 0,
        author: authors[at] ?? "",
        subject: firstLine(subjects[at] ?? ""),
      }),
    );
    return { results, pagination: page.pagination };
  };
  const list = useEndless(key, "", "", load, BOUNDS);
  return (
    <>
      {heads.length === 1 && (
        <Moved
          repo={repo}
          ref_={heads[0] ?? ""}
          shown={list.held()[0]?.id}
          onShow={() => {
            scrollTo(0, 0);
            list.renew();
          }}
        />
      )}
      {list.count > 0 && <Rows repo={repo} of={list} names={names} isFirst={isFirst} />}
      {list.error ? (
        <ErrorBox error={list.error} retry={() => list.renew()} />
      ) : (
        !list.begun && <Skeleton rows={10} />
      )}
    </>
  );
}

/** The newest commit, its first parent, and so on: what was merged is not among them. */
function firstParents(lines: readonly Line[]): Line[] {
  let next = lines[0]?.id;
  return lines.flatMap((line) => {
    if (line.id !== next) return [];
    next = line.parents[0];
    return [{ ...line, parents: line.parents.slice(0, 1) }];
  });
}

function Rows(props: {
  repo: string;
  of: Endless<Line>;
  names: Names | undefined;
  isFirst: boolean;
}) {
  const { repo, of, names, isFirst } = props;
  const body = useRef<HTMLOListElement>(null);
  const held = of.held();
  const lines = isFirst ? firstParents(held) : held;
  const { length } = lines;
  const { from, to } = useSight(body, length, ROW);
  useEffect(() => of.need(from, to < length ? to : held.length));
  const drawn = useMemo(() => lanes(lines), [length, lines[0]?.id]);
  const seen = drawn.slice(from, to);
  const isNarrow = useNarrow();
  const width = useMemo(() => widthOf(drawn, isNarrow), [drawn, isNarrow]);
  const top = from * ROW;
  return (
    <>
      <div class="commits" style={{ paddingLeft: `${width}px` }}>
        <Graph rows={seen} width={width} top={top} isNarrow={isNarrow} />
        <ol ref={body} style={{ paddingTop: `${top}px`, minHeight: `${length * ROW}px` }}>
          {lines.slice(from, to).map((line, at) => (
            <li
              key={line.id}
              data-row
              style={{ height: `${ROW}px` }}
              aria-setsize={of.hasMore ? -1 : length}
              aria-posinset={from + at + 1}
            >
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
      <p class="faint more-note" role="status">
        {count(length, "commit")}
        {of.hasMore && " so far; more come as you scroll"}
      </p>
    </>
  );
}

const YEAR_PAGES = 10;
const YEAR_AMOUNT = 2_000;
const AUTHORS = 20;

/** Who committed when, in the last year. */
function OfYear({ repo, heads }: { repo: string; heads: readonly string[] }) {
  const loaded = useLoad(`activity ${repo} ${heads.join()}`, async (signal) => {
    const now = Date.now() / 1000;
    const since = firstDay(now);
    const times: number[] = [];
    const authors = new Map<string, number>();
    let after = "";
    for (let number = 0; number < YEAR_PAGES; number += 1) {
      const query = { heads: [...heads], after, amount: YEAR_AMOUNT };
      const place = { repository: repo };
      const page = await api("GET /repositories/{repository}/graph", place, { query, signal });
      for (const [at, time] of page.commits.times.entries()) {
        const author = page.commits.authors[at] ?? "";
        if (time < since || !author) continue; // a repository begins with a commit of nobody
        times.push(time);
        authors.set(author, (authors.get(author) ?? 0) + 1);
      }
      after = page.pagination.next_offset;
      const isOver = page.commits.times.every((time) => time < since);
      if (!after || isOver) return { now, times, authors, isAll: true };
    }
    return { now, times, authors, isAll: false };
  });
  return (
    <Show of={loaded}>
      {({ now, times, authors, isAll }) => (
        <div class="stack">
          <Activity times={times} now={now} />
          {!isAll && (
            <p class="faint">
              Of the newest {(YEAR_PAGES * YEAR_AMOUNT).toLocaleString("en")} commits.
            </p>
          )}
          {authors.size > 0 && (
            <table class="data" aria-label="Commits per author">
              <thead>
                <tr>
                  <th scope="col">Author</th>
                  <th scope="col">Commits</th>
                </tr>
              </thead>
              <tbody>
                {[...authors]
                  .sort((one, other) => other[1] - one[1])
                  .slice(0, AUTHORS)
                  .map(([author, number]) => (
                    <tr key={author}>
                      <th scope="row">{visible(author)}</th>
                      <td class="right">{number.toLocaleString("en")}</td>
                    </tr>
                  ))}
              </tbody>
            </table>
          )}
        </div>
      )}
    </Show>
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
          <span class="cut">{visible(name)}</span>
        </a>
      ))}
      {tags.slice(0, 2).map((name) => (
        <a key={`tag ${name}`} class="ref tag" href={link(name)}>
          <Icon name="tag" />
          <span class="cut">{visible(name)}</span>
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
                      <span class="name">
                        <a href={inRepository(repo, `commits/${commit.id}`)}>
                          {visible(firstLine(commit.message))}
                        </a>
                      </span>
                    </td>
                    <td class="faint wide-only">{visible(commit.committer)}</td>
                    <td class="faint">
                      <Time at={commit.creation_date} />
                    </td>
                    <td>
                      <div class="actions right-aligned wraps">
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
                        )}
                        <a
                          class="button"
                          href={inRepository(repo, isFolder ? "objects" : "object", {
                            ref: commit.id,
                            path,
                          })}
                        >
                          Open
                        </a>
                      </div>
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
