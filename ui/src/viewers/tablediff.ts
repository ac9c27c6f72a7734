/**
 * The rows that differ between two versions of a table: the algorithm alone.
 *
 * Columns are matched by name, rows by the cells of the key columns.  Two rows with the same key are
 * equal, or the row is changed.  Without a key, the versions are multisets of whole rows: a row is
 * added or removed, never changed.  A column that only one version has changes no row.
 * Cells are compared as text (`textOf`), so 1 of INT32 equals 1 of INT64; null equals only null.
 */
export type Cell = string | null;

export interface Column {
  readonly name: string;
  readonly type: string;
}

/** One version.  Names of columns are unique. */
export interface Table {
  readonly columns: readonly Column[];
  readonly rows: ReadonlyArray<readonly Cell[]>;
}

export interface ColumnDiff {
  readonly name: string;
  /** The type in each version; undefined: the version lacks the column. */
  readonly before: string | undefined;
  readonly after: string | undefined;
  /** Cells that differ in rows with the same key. */
  readonly cells: number;
  /** Of a column of numbers with such cells: the mean of each version. */
  readonly means: readonly [before: number, after: number] | undefined;
}

export const KINDS = ["added", "removed", "changed"] as const;
export type RowKind = (typeof KINDS)[number];

/** A row that differs.  Its cells are in the order of `TableDiff.columns`; numbers begin at 1. */
export interface RowDiff {
  readonly kind: RowKind;
  readonly before?: { readonly number: number; readonly cells: readonly Cell[] };
  readonly after?: { readonly number: number; readonly cells: readonly Cell[] };
}

export interface TableDiff {
  readonly rows: readonly [before: number, after: number];
  readonly key: readonly string[];
  /** Columns of both versions: those that can be a key. */
  readonly shared: readonly string[];
  /** Keys that several rows of one version have: such rows are paired in their order. */
  readonly repeated: number;
  /** Key columns, then columns with changed cells, then the others. */
  readonly columns: readonly ColumnDiff[];
  readonly counts: Readonly<Record<RowKind, number>>;
  /** The first rows of each kind, at most as many as asked for. */
  readonly found: Readonly<Record<RowKind, readonly RowDiff[]>>;
}

type Row = readonly Cell[];
type Group = { readonly left: number[]; readonly right: number[] };

/** Compare two versions by a key; `[]`: without one; undefined: a key is guessed. */
export function compareTables(
  left: Table,
  right: Table,
  asked: readonly string[] | undefined,
  most: number,
): TableDiff {
  const [atLeft, atRight] = [places(left), places(right)];
  const shared = right.columns.map(({ name }) => name).filter((name) => atLeft.has(name));
  const sides = (names: readonly string[], at: ReadonlyMap<string, number>) =>
    names.map((name) => at.get(name) ?? -1);
  const known = asked?.filter((name) => shared.includes(name));
  const isUsable = known !== undefined && known.length === asked?.length;
  const key = isUsable ? known : guessKey(left, right, shared);
  const matched = key.length ? key : shared;
  // Without a common column no row equals another one.
  const [keysLeft, keysRight] = shared.length
    ? [keysOf(left.rows, sides(matched, atLeft)), keysOf(right.rows, sides(matched, atRight))]
    : [left.rows.map(() => "left"), right.rows.map(() => "right")];
  const groups = grouped(keysLeft, keysRight);
  const [sharedLeft, sharedRight] = [sides(shared, atLeft), sides(shared, atRight)];
  const cells = shared.map(() => 0);
  const all: Record<RowKind, Array<readonly [number, number]>> = {
    added: [],
    removed: [],
    changed: [],
  };
  let repeated = 0;
  for (const group of groups.values()) {
    if (key.length && (group.left.length > 1 || group.right.length > 1)) repeated += 1;
    for (const [l, r] of pairs(group, left.rows, right.rows, sharedLeft, sharedRight)) {
      if (l < 0) all.added.push([l, r]);
      else if (r < 0) all.removed.push([l, r]);
      else if (countCells(left.rows[l], right.rows[r], sharedLeft, sharedRight, cells)) {
        all.changed.push([l, r]);
      }
    }
  }
  all.added.sort((a, b) => a[1] - b[1]);
  all.removed.sort((a, b) => a[0] - b[0]);
  all.changed.sort((a, b) => a[1] - b[1]);
  const means = shared.map((_, at) => {
    if (!cells[at]) return undefined;
    const [before, after] = [
      meanOf(left.rows, sharedLeft[at] ?? -1),
      meanOf(right.rows, sharedRight[at] ?? -1),
    ];
    return before !== undefined && after !== undefined ? ([before, after] as const) : undefined;
  });
  const changes = new Map(
    shared.map((name, at) => [name, { cells: cells[at] ?? 0, means: means[at] }] as const),
  );
  const columns = columnsOf(left, right, key, changes);
  const names = columns.map(({ name }) => name);
  const side = (rows: readonly Row[], number: number, order: readonly number[]) => ({
    number: number + 1,
    cells: order.map((at) => rows[number]?.[at] ?? null),
  });
  const [orderLeft, orderRight] = [sides(names, atLeft), sides(names, atRight)];
  const first = (kind: RowKind): RowDiff[] =>
    all[kind].slice(0, most).map(([l, r]) => ({
      kind,
      ...(l >= 0 && { before: side(left.rows, l, orderLeft) }),
      ...(r >= 0 && { after: side(right.rows, r, orderRight) }),
    }));
  return {
    rows: [left.rows.length, right.rows.length],
    key,
    shared,
    repeated,
    columns,
    counts: {
      added: all.added.length,
      removed: all.removed.length,
      changed: all.changed.length,
    },
    found: { added: first("added"), removed: first("removed"), changed: first("changed") },
  };
}

function places(table: Table): Map<string, number> {
  return new Map(table.columns.map(({ name }, at) => [name, at]));
}

/** The cells of some columns as one text; different cells never give the same text. */
function keyOf(row: Row | undefined, at: readonly number[]): string {
  let text = "";
  for (const place of at) {
    const cell = row?.[place] ?? null;
    text += cell === null ? "-" : `${cell.length}:${cell}`;
  }
  return text;
}

function keysOf(rows: readonly Row[], at: readonly number[]): string[] {
  return rows.map((row) => keyOf(row, at));
}

function grouped(left: readonly string[], right: readonly string[]): Map<string, Group> {
  const groups = new Map<string, Group>();
  for (const [side, keys] of [["left", left] as const, ["right", right] as const]) {
    for (const [number, key] of keys.entries()) {
      const group = groups.get(key);
      if (group) group[side].push(number);
      else groups.set(key, { left: [], right: [], [side]: [number] });
    }
  }
  return groups;
}

/** Pairs of rows with one key, -1 for no row: equal rows first, the others in their order. */
function* pairs(
  { left, right }: Group,
  leftRows: readonly Row[],
  rightRows: readonly Row[],
  atLeft: readonly number[],
  atRight: readonly number[],
): Generator<readonly [number, number]> {
  let [l, r]: [readonly number[], readonly number[]] = [left, right];
  if (l.length && r.length && l.length + r.length > 2) {
    const open = new Map<string, number[]>();
    for (const number of [...l].reverse()) {
      const text = keyOf(leftRows[number], atLeft);
      const same = open.get(text);
      if (same) same.push(number);
      else open.set(text, [number]);
    }
    const paired = new Set<number>();
    r = r.filter((number) => {
      const same = open.get(keyOf(rightRows[number], atRight))?.pop();
      if (same !== undefined) paired.add(same);
      return same === undefined;
    });
    l = l.filter((number) => !paired.has(number));
  }
  for (let at = 0; at < Math.max(l.length, r.length); at += 1) yield [l[at] ?? -1, r[at] ?? -1];
}

/** Add the cells that differ to the totals of their columns; true: one differs. */
function countCells(
  left: Row | undefined,
  right: Row | undefined,
  atLeft: readonly number[],
  atRight: readonly number[],
  totals: number[],
): boolean {
  let differs = false;
  for (let at = 0; at < totals.length; at += 1) {
    const [before, after] = [left?.[atLeft[at] ?? -1] ?? null, right?.[atRight[at] ?? -1] ?? null];
    if (before === after) continue;
    differs = true;
    totals[at] = (totals[at] ?? 0) + 1;
  }
  return differs;
}

function columnsOf(
  left: Table,
  right: Table,
  key: readonly string[],
  changes: ReadonlyMap<string, Pick<ColumnDiff, "cells" | "means">>,
): ColumnDiff[] {
  const [before, after] = [left, right].map(
    (table) => new Map(table.columns.map(({ name, type }) => [name, type])),
  ) as [Map<string, string>, Map<string, string>];
  const names = [...new Set([...after.keys(), ...before.keys()])];
  const rank = ({ name, cells: changed }: ColumnDiff) =>
    key.includes(name) ? 0 : changed > 0 ? 1 : 2;
  return names
    .map((name) => ({
      name,
      before: before.get(name),
      after: after.get(name),
      ...(changes.get(name) ?? { cells: 0, means: undefined }),
    }))
    .sort((a, b) => rank(a) - rank(b)); // a stable sort: else the order of the file
}

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

/** The mean of a column; undefined: it has a cell that is no number, or none that is one. */
function meanOf(rows: readonly Row[], at: number): number | undefined {
  let [sum, count] = [0, 0];
  for (const row of rows) {
    const cell = row[at] ?? null;
    if (cell === null || cell === "") continue;
    if (!NUMBER.test(cell)) return undefined;
    sum += Number(cell);
    count += 1;
  }
  return count ? sum / count : undefined;
}

const ID_LIKE =
  /^(id|key|pk|uuid|guid)$|[_\-. ](id|key|pk|uuid|guid|code|no|number)$|[a-z](Id|ID|Key|Uuid)$/;

/**
 * The key that the names and the values suggest; empty: none does.
 *
 * The first id-like column that is unique in both versions, else all id-like columns together, else
 * the first column.  A key must be unique and never null, and the versions must share half of it.
 */
function guessKey(left: Table, right: Table, shared: readonly string[]): readonly string[] {
  const [atLeft, atRight] = [places(left), places(right)];
  const idLike = shared.filter((name) => ID_LIKE.test(name) || /^(id|key)$/i.test(name));
  const candidates = [...idLike.map((name) => [name]), idLike, shared.slice(0, 1)];
  const isKey = (names: readonly string[]): boolean => {
    if (!names.length) return false;
    const [before, after] = [unique(left.rows, names, atLeft), unique(right.rows, names, atRight)];
    if (!before || !after) return false;
    let both = 0;
    for (const key of after) if (before.has(key)) both += 1;
    return both * 2 >= Math.min(before.size, after.size);
  };
  return candidates.find(isKey) ?? [];
}

/** The keys of all rows; undefined: one has a null, or two rows have the same key. */
function unique(
  rows: readonly Row[],
  names: readonly string[],
  at: ReadonlyMap<string, number>,
): Set<string> | undefined {
  const where = names.map((name) => at.get(name) ?? -1);
  const keys = new Set<string>();
  for (const row of rows) {
    if (where.some((place) => (row[place] ?? null) === null)) return undefined;
    const key = keyOf(row, where);
    if (keys.has(key)) return undefined;
    keys.add(key);
  }
  return keys;
}

/** A value of a file as the text that is compared and shown. */
export function textOf(value: unknown): Cell {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return value;
  if (value instanceof Date) {
    return Number.isNaN(value.getTime()) ? "invalid date" : value.toISOString();
  }
  if (value instanceof Uint8Array) return `0x${hex(value)}`;
  if (typeof value !== "object") return String(value);
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner === "bigint") return String(inner);
    return inner instanceof Uint8Array ? `0x${hex(inner)}` : inner;
  });
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Names made unique: the second `a` becomes `a (2)`. */
export function distinct(names: readonly string[]): string[] {
  const used = new Set<string>();
  return names.map((name) => {
    let own = name;
    for (let turn = 2; used.has(own); turn += 1) own = `${name} (${turn})`;
    used.add(own);
    return own;
  });
}
