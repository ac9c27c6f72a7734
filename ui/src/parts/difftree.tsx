/** What differs, as a tree: each folder has its totals and opens in place. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import {
  api,
  type Diff,
  type DiffList,
  type DiffSummary,
  type DiffSummaryPage,
} from "../api/client";
import { useLoad } from "../api/load";
import { inRepository } from "../app/router";
import { Button } from "./button";
import { Bar, type Change, Mark, Totals } from "./facts";
import { Icon } from "./icons";
import { Show } from "./states";
import { lastName, size, visible } from "./text";

export interface Source {
  /** Names what is compared; another key loads anew. */
  readonly key: string;
  list(prefix: string, after: string, signal: AbortSignal): Promise<DiffList>;
  summary(prefix: string, after: string, signal: AbortSignal): Promise<DiffSummaryPage>;
  /** The page of an object; undefined: there is none. */
  link?(path: string, type: Change): string | undefined;
  /** Buttons at the end of a row. */
  actions?(path: string, type: Change): ComponentChildren;
}

const AMOUNT = 100;
/** Lines of totals: those of a page, and one for what is left of the folder that ended the last. */
const FOLDERS = AMOUNT + 1;

/** What is not committed on a branch. */
export function uncommitted(repo: string, branch: string, turn = 0): Source {
  const place = { repository: repo, branch };
  return {
    key: `uncommitted ${repo} ${branch} ${turn}`,
    list: (prefix, after, signal) =>
      api("GET /repositories/{repository}/branches/{branch}/diff", place, {
        query: { prefix, after, amount: AMOUNT, delimiter: "/" },
        signal,
      }),
    summary: (prefix, after, signal) =>
      api("GET /repositories/{repository}/branches/{branch}/diff/summary", place, {
        query: { prefix, after, amount: FOLDERS },
        signal,
      }),
  };
}

/** What differs between two refs.  `three_dot`: what the right one changed since their base. */
export function between(
  repo: string,
  left: string,
  right: string,
  type: "two_dot" | "three_dot",
): Source {
  const place = { repository: repo, leftRef: left, rightRef: right };
  return {
    key: `${type} ${repo} ${left} ${right}`,
    list: (prefix, after, signal) =>
      api("GET /repositories/{repository}/refs/{leftRef}/diff/{rightRef}", place, {
        query: { prefix, after, amount: AMOUNT, delimiter: "/", type },
        signal,
      }),
    summary: (prefix, after, signal) =>
      api("GET /repositories/{repository}/refs/{leftRef}/diff/{rightRef}/summary", place, {
        query: { prefix, after, amount: FOLDERS, type },
        signal,
      }),
    link: (file) => inRepository(repo, "compare", { ref: left, compare: right, file }),
  };
}

export function DiffTree(props: { of: Source; prefix?: string; empty: ComponentChildren }) {
  const { of, prefix = "", empty } = props;
  return (
    <div class="tree" role="list">
      <Level of={of} prefix={prefix} depth={0} empty={empty} />
    </div>
  );
}

function Level(props: {
  readonly of: Source;
  readonly prefix: string;
  readonly depth: number;
  readonly empty?: ComponentChildren;
}) {
  const { of, prefix, depth, empty } = props;
  const [marks, setMarks] = useState<readonly string[]>([""]);
  const last = marks[marks.length - 1] ?? "";
  return (
    <>
      {marks.map((after) => (
        <Part
          key={after}
          {...{ of, prefix, depth, after }}
          empty={after ? null : empty}
          isLast={after === last}
          onMore={(next) => setMarks([...marks, next])}
        />
      ))}
    </>
  );
}

function Part(props: {
  readonly of: Source;
  readonly prefix: string;
  readonly depth: number;
  readonly after: string;
  readonly isLast: boolean;
  readonly empty: ComponentChildren;
  onMore(after: string): void;
}) {
  const { of, prefix, depth, after } = props;
  const loaded = useLoad(`diff ${of.key} ${prefix} ${after}`, (signal) =>
    of.list(prefix, after, signal),
  );
  const summary = useLoad(`summary ${of.key} ${prefix} ${after}`, (signal) =>
    of.summary(prefix, after, signal),
  );
  const totals = new Map((summary.data?.results ?? []).map((line) => [line.path, line]));
  return (
    <Show of={loaded} rows={3}>
      {(page) => (
        <>
          {page.results.map((line) => (
            <Line key={line.path} of={of} line={line} total={totals.get(line.path)} depth={depth} />
          ))}
          {!page.results.length && props.empty}
          {props.isLast && page.pagination.has_more && (
            <div role="listitem" class="tree-more">
              <Button onClick={() => props.onMore(page.pagination.next_offset)}>More</Button>
            </div>
          )}
        </>
      )}
    </Show>
  );
}

function Line(props: {
  readonly of: Source;
  readonly line: Diff;
  readonly total: DiffSummary | undefined;
  readonly depth: number;
}) {
  const { of, line, total, depth } = props;
  const isFolder = line.path_type === "common_prefix";
  const [open, setOpen] = useState(false);
  const { type } = line;
  const name = visible(lastName(line.path));
  const link = isFolder ? undefined : of.link?.(line.path, type);
  return (
    <>
      <div role="listitem" class="tree-line" data-row style={{ paddingLeft: `${depth * 20}px` }}>
        {isFolder ? (
          <button
            type="button"
            class="name folder"
            aria-expanded={open}
            onClick={() => setOpen(!open)}
          >
            <Icon name={open ? "down" : "right"} />
            <Icon name="folder" />
            <span>{name}</span>
          </button>
        ) : (
          <span class="name">
            <Mark type={type} />
            <Icon name="file" />
            {link ? <a href={link}>{name}</a> : <span>{name}</span>}
          </span>
        )}
        <span class="space" />
        {total && (
          <>
            <Totals {...total} />
            <Bar {...total} />
          </>
        )}
        <span class="tree-size faint wide-only">
          {total ? bytes(total) : !isFolder && size(line.size_bytes)}
        </span>
        {of.actions?.(line.path, type)}
      </div>
      {open && <Level of={of} prefix={line.path} depth={depth + 1} />}
    </>
  );
}

function bytes(line: DiffSummary): string {
  const parts: string[] = [];
  if (line.bytes_added) parts.push(`+${size(line.bytes_added)}`);
  if (line.bytes_removed) parts.push(`−${size(line.bytes_removed)}`);
  return parts.join(" ");
}
