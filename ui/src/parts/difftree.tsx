/** What differs, as a tree: each folder has its totals and opens in place. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import {
  api,
  type Diff,
  type DiffList,
  type DiffSummary,
  type DiffSummaryPage,
} from "../api/client";
import { useLoad } from "../api/load";
import { change, inRepository, query } from "../app/router";
import { Button } from "./button";
import { Bar, type Change, Mark, Totals } from "./facts";
import { Icon } from "./icons";
import { useInSight } from "./sight";
import { Empty, Show } from "./states";
import { lastName, size, visible } from "./text";

export interface Source {
  /** Names what is compared; another key loads anew. */
  readonly key: string;
  list(prefix: string, after: string, amount: number, signal: AbortSignal): Promise<DiffList>;
  summary(
    prefix: string,
    after: string,
    amount: number,
    signal: AbortSignal,
  ): Promise<DiffSummaryPage>;
  /** The page of an object; undefined: there is none. */
  link?(path: string, type: Change): string | undefined;
  /** Buttons at the end of a row. */
  actions?(path: string, type: Change): ComponentChildren;
}

/** Lines of the first page of a folder, and of the others, which somebody asks for. */
const FIRST = 100;
const AMOUNT = 1_000;
/** So many lines leave the document together when they are as far away as this, in pixels. */
const BLOCK = 100;
const FAR = 1_500;
const LINE_HEIGHT = 37;

/** What is not committed on a branch. */
export function uncommitted(repo: string, branch: string, turn = 0): Source {
  const place = { repository: repo, branch };
  return {
    key: `uncommitted ${repo} ${branch} ${turn}`,
    list: (prefix, after, amount, signal) =>
      api("GET /repositories/{repository}/branches/{branch}/diff", place, {
        query: { prefix, after, amount, delimiter: "/" },
        signal,
      }),
    summary: (prefix, after, amount, signal) =>
      api("GET /repositories/{repository}/branches/{branch}/diff/summary", place, {
        query: { prefix, after, amount },
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
    list: (prefix, after, amount, signal) =>
      api("GET /repositories/{repository}/refs/{leftRef}/diff/{rightRef}", place, {
        query: { prefix, after, amount, delimiter: "/", type },
        signal,
      }),
    summary: (prefix, after, amount, signal) =>
      api("GET /repositories/{repository}/refs/{leftRef}/diff/{rightRef}/summary", place, {
        query: { prefix, after, amount, type },
        signal,
      }),
    link: (file) => inRepository(repo, "compare", { ref: left, compare: right, file }),
  };
}

export interface DiffTreeProps {
  readonly of: Source;
  readonly empty: ComponentChildren;
  /** Without a filter by path, which is in the URL. */
  readonly isPlain?: boolean;
}

export function DiffTree({ of, empty, isPlain = false }: DiffTreeProps) {
  const prefix = isPlain ? "" : (query.value.get("prefix") ?? "");
  const none = <Empty icon="search" title={`No change begins with “${visible(prefix)}”`} />;
  return (
    <div class="difftree">
      {!isPlain && (
        <input
          type="search"
          data-filter
          aria-label="Only paths that begin with"
          placeholder="Only paths that begin with"
          value={prefix}
          onInput={(event) => change({ prefix: event.currentTarget.value }, { replace: true })}
        />
      )}
      <div class="tree" role="list">
        <Level key={prefix} of={of} prefix={prefix} depth={0} empty={prefix ? none : empty} />
      </div>
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
  const amount = after ? AMOUNT : FIRST;
  const loaded = useLoad(`diff ${of.key} ${prefix} ${after}`, (signal) =>
    of.list(prefix, after, amount, signal),
  );
  const summary = useLoad(`summary ${of.key} ${prefix} ${after}`, (signal) =>
    // One line more: what is left of the folder that ended the page before.
    of.summary(prefix, after, Math.min(amount + 1, AMOUNT), signal),
  );
  const totals = new Map((summary.data?.results ?? []).map((line) => [line.path, line]));
  return (
    <Show of={loaded} rows={3}>
      {(page) => (
        <>
          <Lines of={of} lines={page.results} totals={totals} depth={depth} />
          {!page.results.length && props.empty}
          {props.isLast && page.pagination.has_more && (
            <More
              isWanted={after !== ""}
              onMore={() => props.onMore(page.pagination.next_offset)}
            />
          )}
        </>
      )}
    </Show>
  );
}

/** Who has asked for more gets what follows as it comes into sight. */
function More({ isWanted, onMore }: { isWanted: boolean; onMore(): void }) {
  const element = useRef<HTMLDivElement>(null);
  const isSeen = useInSight(element);
  const isDue = isWanted && isSeen;
  useEffect(() => {
    if (isDue) onMore();
  }, [isDue]);
  return (
    <div role="listitem" class="tree-more" ref={element}>
      <Button onClick={onMore}>More</Button>
    </div>
  );
}

interface LinesProps {
  readonly of: Source;
  readonly lines: readonly Diff[];
  readonly totals: ReadonlyMap<string, DiffSummary>;
  readonly depth: number;
}

function Lines(props: LinesProps) {
  const { lines } = props;
  const blocks = Array.from({ length: Math.ceil(lines.length / BLOCK) }, (_, at) =>
    lines.slice(at * BLOCK, (at + 1) * BLOCK),
  );
  return (
    <>
      {blocks.map((block, at) => (
        <Block key={block[0]?.path} {...props} lines={block} isFirst={at === 0} />
      ))}
    </>
  );
}

/** Lines that leave the document while they are far away, unless a folder is open; their height
 * stays. */
function Block({ of, lines, totals, depth, isFirst }: LinesProps & { isFirst: boolean }) {
  const element = useRef<HTMLDivElement>(null);
  const height = useRef(lines.length * LINE_HEIGHT);
  const [open, setOpen] = useState<readonly string[]>([]);
  const isNear = useInSight(element, { margin: FAR, initial: isFirst }) || open.length > 0;
  useLayoutEffect(() => {
    if (isNear && element.current) height.current = element.current.offsetHeight;
  });
  const turn = (path: string) =>
    setOpen(open.includes(path) ? open.filter((each) => each !== path) : [...open, path]);
  return (
    <div ref={element} style={isNear ? undefined : { height: `${height.current}px` }}>
      {isNear &&
        lines.map((line) => (
          <Line
            key={line.path}
            {...{ of, line, depth }}
            total={totals.get(line.path)}
            isOpen={open.includes(line.path)}
            onTurn={() => turn(line.path)}
          />
        ))}
    </div>
  );
}

function Line(props: {
  readonly of: Source;
  readonly line: Diff;
  readonly total: DiffSummary | undefined;
  readonly depth: number;
  readonly isOpen: boolean;
  onTurn(): void;
}) {
  const { of, line, total, depth, isOpen } = props;
  const isFolder = line.path_type === "common_prefix";
  const { type } = line;
  const name = visible(lastName(line.path));
  const link = isFolder ? undefined : of.link?.(line.path, type);
  return (
    <>
      <div role="listitem" class="tree-line" data-row style={{ paddingLeft: `${depth * 20}px` }}>
        {isFolder ? (
          <button type="button" class="name folder" aria-expanded={isOpen} onClick={props.onTurn}>
            <Icon name={isOpen ? "down" : "right"} />
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
      {isOpen && <Level of={of} prefix={line.path} depth={depth + 1} />}
    </>
  );
}

function bytes(line: DiffSummary): string {
  const parts: string[] = [];
  if (line.bytes_added) parts.push(`+${size(line.bytes_added)}`);
  if (line.bytes_removed) parts.push(`−${size(line.bytes_removed)}`);
  return parts.join(" ");
}
