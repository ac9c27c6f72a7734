/** Small parts of many pages: names and values, times, commits, marks of changes. */
import type { ComponentChildren } from "preact";
import { inRepository } from "../app/router";
import { ago, exact, short } from "./text";

/** Names and values side by side. */
export function Facts({ of }: { of: ReadonlyArray<readonly [string, ComponentChildren]> }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Time({ at }: { at: number }) {
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exact(at)}>
      {ago(at)}
    </time>
  );
}

export function CommitLink({ repo, id }: { repo: string; id: string }) {
  return (
    <a class="id" href={inRepository(repo, `commits/${id}`)}>
      {short(id)}
    </a>
  );
}

const MARKS = {
  added: ["+", "added"],
  removed: ["−", "removed"],
  changed: ["~", "changed"],
  conflict: ["!", "conflict"],
  prefix_changed: ["~", "changes inside"],
} as const;

export type Change = keyof typeof MARKS;

/** A sign beside the colour, so that nobody has to see the colour. */
export function Mark({ type }: { type: Change }) {
  const [sign, text] = MARKS[type];
  return (
    <span class={`mark ${type}`} title={text}>
      <span aria-hidden="true">{sign}</span>
      <span class="hidden">{text}</span>
    </span>
  );
}

/** Totals of a comparison: +3 ~1 −2. */
export function Totals(props: {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly conflict?: number;
}) {
  const parts: Array<[Change, number]> = [
    ["added", props.added],
    ["changed", props.changed],
    ["removed", props.removed],
    ["conflict", props.conflict ?? 0],
  ];
  const shown = parts.filter(([, count]) => count > 0);
  if (!shown.length) return <span class="faint">no changes</span>;
  return (
    <span class="totals">
      {shown.map(([type, count]) => (
        <span key={type} class={`mark ${type}`} title={MARKS[type][1]}>
          <span aria-hidden="true">{MARKS[type][0]}</span>
          {count.toLocaleString("en")}
          <span class="hidden"> {MARKS[type][1]}</span>
        </span>
      ))}
    </span>
  );
}

/** A bar with the parts of a comparison. */
export function Bar(props: {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly conflict?: number;
}) {
  const { added, changed, removed, conflict = 0 } = props;
  const all = added + changed + removed + conflict || 1;
  let left = 0;
  const piece = (kind: Change, value: number) => {
    const x = left;
    left += (100 * value) / all;
    return <rect class={kind} x={x} width={(100 * value) / all} y="0" height="8" />;
  };
  return (
    <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      {piece("added", added)}
      {piece("changed", changed)}
      {piece("removed", removed)}
      {piece("conflict", conflict)}
    </svg>
  );
}
