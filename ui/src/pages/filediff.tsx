/** One file at two refs: what is known of both, and the rows or the lines that differ. */
import { diffLines } from "diff";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, api, type ObjectStats } from "../api/client";
import { asError, useLoad } from "../api/load";
import { type Place, readBytes } from "../api/objects";
import { changed, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { ButtonLink } from "../parts/button";
import { Comments, useComments } from "../parts/comments";
import { ReadsRefused } from "../parts/cors";
import { Time } from "../parts/facts";
import { Page } from "../parts/page";
import { Empty, ErrorBox, Show, Skeleton } from "../parts/states";
import { lastName, sh, short, size, visible } from "../parts/text";
import { kindOf } from "../viewers/kinds";
import type { RowsDiff } from "../viewers/rowsdiff";

const MOST = 512 * 1024;
const AROUND = 3;

interface Sides {
  readonly left: ObjectStats | undefined;
  readonly right: ObjectStats | undefined;
}

export function FileDiff({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const base = query.value.get("ref") ?? "";
  const compare = query.value.get("compare") ?? "";
  const path = query.value.get("file") ?? "";
  const pull = query.value.get("pull") ?? "";
  const comments = useComments(repo, pull);
  const branch = branchOf(base, compare);
  const names = branch
    ? ([`${branch}, last commit`, `${branch}, uncommitted`] as const)
    : ([base, compare] as const);
  const loaded = useLoad(`sides ${repo} ${base} ${compare} ${path}`, async (signal) => {
    const [left, right] = await Promise.all(
      [base, compare].map((ref) => stat({ repo, ref, path }, signal)),
    );
    return { left, right };
  });
  return (
    <Page
      title={`Differences of ${lastName(path)}`}
      heading={<>Differences of {visible(path)}</>}
      command={sh`graveler diff --rows ${repo}/${base}..${compare} -- ${path}`}
      actions={<Back repo={repo} refs={[base, compare]} pull={pull} />}
    >
      <Show of={loaded}>
        {(sides) => (
          <>
            <div class="two-sides">
              <Side name={names[0]} of={sides.left} place={{ repo, ref: base, path }} />
              <Side name={names[1]} of={sides.right} place={{ repo, ref: compare, path }} />
            </div>
            <Content sides={sides} repo={repo} refs={[base, compare]} path={path} />
          </>
        )}
      </Show>
      <ReadsRefused />
      {pull && <Comments repo={repo} pull={pull} ref_={compare} path={path} of={comments} />}
    </Page>
  );
}

/** The branch whose uncommitted changes are compared with its last commit; else empty. */
const branchOf = (base: string, compare: string): string => (base === `${compare}@` ? compare : "");

/** Where the list of files is. */
function Back({ repo, refs, pull }: { repo: string; refs: readonly string[]; pull: string }) {
  const [base = "", compare = ""] = refs;
  const branch = branchOf(base, compare);
  if (pull) {
    return (
      <ButtonLink icon="pull" href={inRepository(repo, `pulls/${pull}`)}>
        Pull request
      </ButtonLink>
    );
  }
  return (
    <ButtonLink
      icon="up"
      href={
        branch
          ? inRepository(repo, "objects", { ref: branch, showChanges: true })
          : inRepository(repo, "compare", { ref: base, compare })
      }
    >
      All files
    </ButtonLink>
  );
}

async function stat(
  { repo, ref, path }: Place,
  signal: AbortSignal,
): Promise<ObjectStats | undefined> {
  try {
    const place = { repository: repo, ref };
    return await api("GET /repositories/{repository}/refs/{ref}/objects/stat", place, {
      query: { path },
      signal,
    });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

function Side({ name, of, place }: { name: string; of: ObjectStats | undefined; place: Place }) {
  const shown = /^[0-9a-f]{40,}$/.test(name) ? short(name) : visible(name);
  return (
    <div class="card side">
      <strong class="cut">{shown}</strong>
      {of ? (
        <>
          <span class="faint">
            {size(of.size_bytes)}, <Time at={of.mtime} />
          </span>
          <ButtonLink
            href={inRepository(place.repo, "object", { ref: place.ref, path: place.path })}
          >
            Open
          </ButtonLink>
        </>
      ) : (
        <span class="faint">not there</span>
      )}
    </div>
  );
}

interface ContentProps {
  readonly sides: Sides;
  readonly repo: string;
  readonly refs: readonly [string, string];
  readonly path: string;
}

function Content(props: ContentProps) {
  const { sides, path } = props;
  const { left, right } = sides;
  const known = left ?? right;
  const kind = kindOf(path, known?.content_type);
  if (!known) return <Empty icon="file" title="The file is at neither ref" />;
  if (left?.checksum === right?.checksum) {
    return <Empty icon="check" title="Both versions have the same content" />;
  }
  const isTable = left !== undefined && right !== undefined && /^(csv|parquet)$/.test(kind);
  if (!isTable) return <Lines {...props} kind={kind} />;
  if (kind === "parquet") return <Rows {...props} left={left} right={right} />;
  const asLines = query.value.get("as") === "lines";
  return (
    <>
      <div class="viewer-switch">
        <nav class="views" aria-label="Compare by">
          <a href={changed({ as: undefined })} aria-current={asLines ? undefined : "true"}>
            Rows
          </a>
          <a href={changed({ as: "lines" })} aria-current={asLines ? "true" : undefined}>
            Lines
          </a>
        </nav>
      </div>
      {asLines ? <Lines {...props} kind={kind} /> : <Rows {...props} left={left} right={right} />}
    </>
  );
}

/** The rows; their viewer is loaded when a file needs it. */
function Rows(props: ContentProps & { left: ObjectStats; right: ObjectStats }) {
  const { left, right, repo, refs, path } = props;
  const [viewer, setViewer] = useState<{
    View: typeof RowsDiff;
    format: "csv" | "tsv" | "parquet";
  }>();
  const [failed, setFailed] = useState<unknown>();
  useEffect(() => {
    import("../viewers/rowsdiff").then(
      (module) => setViewer({ View: module.RowsDiff, format: module.formatOf(path) }),
      setFailed,
    );
  }, [path]);
  if (failed) return <ErrorBox error={asError(failed)} />;
  if (!viewer) return <Skeleton />;
  const { View, format } = viewer;
  const version = (ref: string, of: ObjectStats) => ({
    place: { repo, ref, path, checksum: of.checksum },
    size: of.size_bytes ?? 0,
  });
  return (
    <View
      key={`${left.checksum} ${right.checksum} ${path}`}
      format={format}
      versions={[version(refs[0], left), version(refs[1], right)]}
    />
  );
}

function Lines(props: ContentProps & { kind: string }) {
  const { sides, repo, refs, path, kind } = props;
  const { left, right } = sides;
  const isText =
    ["text", "json", "csv", "markdown", "notebook"].includes(kind) || path.endsWith(".svg");
  const most = Math.max(left?.size_bytes ?? 0, right?.size_bytes ?? 0);
  const loads = isText && most <= MOST;
  const texts = useLoad(loads ? `texts ${repo} ${refs.join()} ${path}` : "", (signal) =>
    Promise.all(
      [left, right].map(async (side, at) => {
        if (!side) return "";
        const place = { repo, ref: refs[at] ?? "", path, checksum: side.checksum };
        return new TextDecoder().decode(await readBytes(place, 0, side.size_bytes ?? 0, signal));
      }),
    ),
  );
  if (!loads) {
    const reason = isText ? `larger than ${size(MOST)}` : "no text";
    return <Empty icon="file" title={`The lines are not compared: the file is ${reason}`} />;
  }
  return (
    <Show of={texts}>
      {([before = "", after = ""]) => <LineDiff before={before} after={after} />}
    </Show>
  );
}

interface Line {
  readonly sign: "+" | "−" | " " | "…";
  readonly text: string;
}

/** The lines that differ, with some around them. */
function linesOf(before: string, after: string): Line[] {
  const found: Line[] = [];
  const pieces = diffLines(before, after, { maxEditLength: 20_000, timeout: 1_000 }) ?? [
    { value: before, removed: true, added: false },
    { value: after, removed: false, added: true },
  ];
  for (const [at, piece] of pieces.entries()) {
    const lines = piece.value.replace(/\n$/, "").split("\n");
    if (piece.added || piece.removed) {
      for (const text of lines) found.push({ sign: piece.added ? "+" : "−", text });
    } else {
      found.push(...around(lines, at === 0, at === pieces.length - 1));
    }
  }
  return found.slice(0, 5_000);
}

/** Equal lines between two changes: the first and the last ones. */
function around(lines: readonly string[], isFirst: boolean, isLast: boolean): Line[] {
  const head = isFirst ? [] : lines.slice(0, AROUND);
  const tail = isLast ? [] : lines.slice(Math.max(head.length, lines.length - AROUND));
  const equal = (text: string): Line => ({ sign: " ", text });
  const left = lines.length - head.length - tail.length;
  const gap: Line[] = left > 0 ? [{ sign: "…", text: `${left} equal lines` }] : [];
  return [...head.map(equal), ...gap, ...tail.map(equal)];
}

function LineDiff({ before, after }: { before: string; after: string }) {
  const lines = useMemo(() => linesOf(before, after), [before, after]);
  return (
    <div class="code diff" tabIndex={0} role="region" aria-label="Lines that differ">
      <pre>
        {lines.map((line, at) => (
          <span key={`${at}`} class={`diff-line ${KINDS[line.sign]}`}>
            {line.sign} {line.text.split("\t").map(visible).join("\t")}
          </span>
        ))}
      </pre>
    </div>
  );
}

const KINDS = { "+": "added", "−": "removed", " ": "", "…": "faint" } as const;
