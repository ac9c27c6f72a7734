/** The rows that differ between two versions of a Parquet or CSV file, compared in a worker. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, api } from "../api/client";
import { asError, useLoad } from "../api/load";
import { type Place, readBytes } from "../api/objects";
import { change, changed, query } from "../app/router";
import { Button } from "../parts/button";
import { type Change, Mark } from "../parts/facts";
import { Icon } from "../parts/icons";
import { repositoryArn, useRights } from "../parts/rights";
import { Command, Empty, ErrorBox, Skeleton } from "../parts/states";
import { count, shell, size as sizeText, visible } from "../parts/text";
import type { Format, Reply, Request } from "../workers/rowsdiff";
import rowsDiffUrl from "../workers/rowsdiff?worker&url";
import { startWorker } from "../workers/start";
import { readNames, writeNames } from "./columns";
import {
  type Cell,
  type ColumnDiff,
  KINDS,
  type RowDiff,
  type RowKind,
  type TableDiff,
} from "./tablediff";

/** Larger versions are not read. */
const BYTES_MAX = 32 * 1024 * 1024;
const SILENT_MS = 20_000;
const ROWS = 100;
const KEYS_MAX = 200;

export interface Version {
  readonly place: Place;
  readonly size: number;
}
type Versions = readonly [Version, Version];
type Outcome = Exclude<Reply, { kind: "failed" }> | { kind: "failed"; error: ApiError };

export function formatOf(path: string): Format {
  const ending = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  return ending === "parquet" || ending === "tsv" ? ending : "csv";
}

export function RowsDiff({ versions, format }: { versions: Versions; format: Format }) {
  const largest = Math.max(...versions.map(({ size }) => size));
  if (largest > BYTES_MAX) {
    const reason = `a version is larger than ${sizeText(BYTES_MAX)}`;
    return <TooLarge {...{ versions, format, reason }} />;
  }
  return <Compared {...{ versions, format }} />;
}

const METADATA = "/repositories/{repository}/metadata";

/** The key that the team has kept for files of such a name: a pair of the repository's metadata. */
interface Kept {
  readonly key: string | undefined;
  /** The names of the files: numbers are `*`, so that the file of the next day has the key too. */
  readonly pattern: string;
  readonly off: string;
  keep(key: string): Promise<void>;
  forget(): Promise<void>;
}

/** Undefined: it is being looked up. */
function useKept({ repo, path }: Place): Kept | undefined {
  const place = { repository: repo };
  const loaded = useLoad(`metadata ${repo}`, (signal) => api(`GET ${METADATA}`, place, { signal }));
  const off = useRights([["fs:UpdateRepository", repositoryArn(repo)]])("fs:UpdateRepository");
  const pattern = path.replace(/\d+/g, "*");
  const name = `graveler.rows.key ${pattern}`;
  if (!loaded.data && !loaded.error) return undefined;
  return {
    key: loaded.data?.[name],
    pattern,
    off,
    keep: async (key) => {
      await api(`POST ${METADATA}`, place, { body: { metadata: { [name]: key } } });
      loaded.reload();
    },
    forget: async () => {
      await api(`DELETE ${METADATA}`, place, { body: { keys: [name] } });
      loaded.reload();
    },
  };
}

function Compared({ versions, format }: { versions: Versions; format: Format }) {
  const kept = useKept(versions[1].place);
  return kept ? <WithKey {...{ versions, format, kept }} /> : <Skeleton />;
}

function WithKey(props: { versions: Versions; format: Format; kept: Kept }) {
  const { versions, format, kept } = props;
  const asked = query.value.get("key") ?? kept.key ?? null;
  const { outcome, busy } = useComparison(versions, format, asked);
  if (!outcome) return <Skeleton />;
  if (outcome.kind === "failed") return <ErrorBox error={outcome.error} />;
  if (outcome.kind === "too large") {
    return <TooLarge {...{ versions, format, reason: outcome.reason }} />;
  }
  return (
    <div class={busy ? "stack stale" : "stack"} aria-busy={busy}>
      <Result of={outcome.diff} asked={readNames(asked)} kept={kept} />
    </div>
  );
}

/** A worker reads both versions once, and compares them by each key that the URL names. */
function useComparison(versions: Versions, format: Format, asked: string | null) {
  const [state, setState] = useState<{ outcome?: Outcome; busy: boolean }>({ busy: true });
  const ask = useRef<((request: Request, moved?: Transferable[]) => void) | undefined>(undefined);
  const first = useRef(true);
  const latest = useRef(asked);
  latest.current = asked;
  useEffect(() => {
    const stop = new AbortController();
    const worker = startWorker(rowsDiffUrl);
    let timer = 0;
    const end = (outcome: Outcome) => {
      clearTimeout(timer);
      if (stop.signal.aborted) return;
      if (outcome.kind === "failed") worker.terminate();
      setState({ outcome, busy: false });
    };
    const fail = (text: string) => end({ kind: "failed", error: new ApiError(400, text) });
    worker.onmessage = ({ data }: MessageEvent<Reply>) =>
      data.kind === "failed" ? fail(data.error) : end(data);
    worker.onerror = (event) => fail(event.message || "the comparison failed");
    ask.current = (request, moved = []) => {
      clearTimeout(timer);
      const seconds = SILENT_MS / 1000;
      timer = window.setTimeout(
        () => fail(`the versions were not compared within ${seconds} seconds`),
        SILENT_MS,
      );
      worker.postMessage(request, moved);
    };
    Promise.all(versions.map(({ place, size }) => readBytes(place, 0, size, stop.signal))).then(
      ([before, after]) => {
        if (stop.signal.aborted || !before || !after) return;
        const key = readNames(latest.current);
        const pair = [before, after] as const;
        ask.current?.({ kind: "open", format, versions: pair, key }, [...pair]);
      },
      (error: unknown) => end({ kind: "failed", error: asError(error) }),
    );
    return () => {
      clearTimeout(timer);
      stop.abort();
      worker.terminate();
    };
  }, []);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    setState((old) => ({ ...old, busy: true }));
    ask.current?.({ kind: "compare", key: readNames(asked) });
  }, [asked]);
  return state;
}

function TooLarge(props: { versions: Versions; format: Format; reason: string }) {
  const { versions, format, reason } = props;
  const [before, after] = versions.map(({ place: { repo, ref, path } }) => {
    const address = `s3://${repo}/${ref}/${path}`.replaceAll("'", "''");
    return `FROM read_${format === "parquet" ? "parquet" : "csv"}('${address}')`;
  });
  return (
    <Empty icon="file" title={`The rows are not compared: ${reason}`}>
      <p>DuckDB lists the rows that only the new version has, through the S3 gateway:</p>
      <Command text={`duckdb -c ${shell(`${after} EXCEPT ALL ${before}`)}`} />
    </Empty>
  );
}

interface ResultProps {
  readonly of: TableDiff;
  readonly asked: readonly string[] | undefined;
  readonly kept: Kept;
}

function Result({ of, asked, kept }: ResultProps) {
  const { counts, rows, key, repeated } = of;
  const differs = KINDS.some((kind) => counts[kind] > 0);
  return (
    <>
      <div class="banner calm">
        <span>
          <strong>{count(counts.added, "row")} added</strong>,{" "}
          <strong>{counts.removed.toLocaleString("en")} removed</strong>
          {key.length > 0 && (
            <>
              , <strong>{counts.changed.toLocaleString("en")} changed</strong>
            </>
          )}{" "}
          <span class="faint">
            ({count(rows[0], "row")} before, {rows[1].toLocaleString("en")} after)
          </span>
        </span>
        <KeyPicker of={of} asked={asked} kept={kept} />
      </div>
      {repeated > 0 && (
        <p class="note">
          The key is not unique: {count(repeated, "key")} on several rows, which are paired in their
          order.
        </p>
      )}
      <Schema of={of.columns} />
      {differs ? <Rows of={of} /> : <p class="faint">No row differs in the columns of both.</p>}
      <ColumnTotals of={of} />
    </>
  );
}

function KeyPicker({ of, asked, kept }: ResultProps) {
  const { shared } = of;
  // What was asked for, before its result is there; else a second click would undo the first.
  const chosen = asked?.every((name) => shared.includes(name)) ? asked : undefined;
  const key = chosen ?? of.key;
  const guessed = chosen === undefined;
  const isKept = kept.key === writeNames(key);
  const text = key.length ? key.map(visible).join(", ") : "none, whole rows";
  const choose = (names: readonly string[]) => change({ key: writeNames(names) });
  const toggled = (name: string) =>
    shared.filter((each) => (each === name ? !key.includes(each) : key.includes(each)));
  return (
    <details class="menu key-picker">
      <summary class="button">
        <span class="cut">
          Key: {text}
          {guessed ? " (guessed)" : isKept && " (kept)"}
        </span>
        <Icon name="down" />
      </summary>
      <fieldset class="menu-list">
        <legend class="hidden">Columns of the key</legend>
        {shared.slice(0, KEYS_MAX).map((name) => (
          <label key={name} class="check">
            <input
              type="checkbox"
              checked={key.includes(name)}
              onChange={() => choose(toggled(name))}
            />
            <span>{visible(name)}</span>
          </label>
        ))}
        {query.value.has("key") && (
          <button type="button" onClick={() => change({ key: undefined })}>
            {kept.key ? "Take the kept key" : "Guess the key"}
          </button>
        )}
        {!isKept && (
          <Button kind="quiet" off={kept.off} onClick={() => kept.keep(writeNames(key))}>
            {`Keep it for ${visible(kept.pattern)}`}
          </Button>
        )}
        {isKept && (
          <Button kind="quiet" off={kept.off} onClick={() => kept.forget()}>
            Forget the kept key
          </Button>
        )}
      </fieldset>
    </details>
  );
}

const isShared = ({ before, after }: ColumnDiff): boolean =>
  before !== undefined && after !== undefined;

function changeOf({ before, after }: ColumnDiff): Change {
  if (before === undefined) return "added";
  return after === undefined ? "removed" : "changed";
}

function Schema({ of }: { of: readonly ColumnDiff[] }) {
  const differing = of.filter(({ before, after }) => before !== after);
  if (!differing.length) return null;
  return (
    <section aria-label="Columns that differ">
      <ul class="schema-diff">
        {differing.map((column) => (
          <li key={column.name}>
            <Mark type={changeOf(column)} /> Column <strong>{visible(column.name)}</strong>{" "}
            {isShared(column) ? (
              <>
                <del>{visible(column.before ?? "")}</del> <ins>{visible(column.after ?? "")}</ins>
              </>
            ) : (
              <span class="faint">{visible(column.before ?? column.after ?? "")}</span>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Rows({ of }: { of: TableDiff }) {
  const { counts, found } = of;
  const only = KINDS.find((kind) => kind === query.value.get("rows") && counts[kind] > 0);
  const [most, setMost] = useState(ROWS);
  const kinds: readonly RowKind[] = only ? [only] : KINDS;
  const place = ({ before, after }: RowDiff) => (after ?? before)?.number ?? 0;
  const rows = kinds.flatMap((kind) => found[kind]).sort((a, b) => place(a) - place(b));
  const total = kinds.reduce((sum, kind) => sum + counts[kind], 0);
  return (
    <div>
      <div class="toolbar">
        <nav class="views" aria-label="Kinds of rows">
          <a href={changed({ rows: undefined })} aria-current={only ? undefined : "true"}>
            All
          </a>
          {KINDS.filter((kind) => counts[kind] > 0).map((kind) => (
            <a
              key={kind}
              href={changed({ rows: kind })}
              aria-current={only === kind ? "true" : undefined}
            >
              {kind[0]?.toUpperCase()}
              {kind.slice(1)}
            </a>
          ))}
        </nav>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Rows that differ">
        <table class="data rows-diff">
          <thead>
            <tr>
              <th scope="col" class="number">
                <span class="hidden">Change and row</span>
              </th>
              {of.columns.map((column) => (
                <th key={column.name} scope="col">
                  {visible(column.name)}
                  {isShared(column) || <Mark type={changeOf(column)} />}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, most).map((row) => (
              <Row
                key={`${row.kind} ${place(row)}`}
                of={row}
                columns={of.columns}
                name={nameOf(row, of)}
              />
            ))}
          </tbody>
        </table>
      </div>
      <p class="faint more-note">
        {Math.min(most, rows.length).toLocaleString("en")} of{" "}
        {count(total, "row that differs", "rows that differ")}{" "}
        {most < rows.length && <Button onClick={() => setMost(most + ROWS)}>More rows</Button>}
        {most >= rows.length && rows.length < total && "are listed: the first of each kind"}
      </p>
    </div>
  );
}

const NAME_LENGTH = 200;

/** How a comment names a row: by its key, else by its number. */
function nameOf({ before, after }: RowDiff, { key, columns }: TableDiff): string {
  const row = after ?? before;
  const cells = key.map((name) => {
    const cell = row?.cells[columns.findIndex((column) => column.name === name)] ?? "null";
    return `${name} ${cell}`;
  });
  return (cells.join(", ") || `${row?.number ?? 0}`).slice(0, NAME_LENGTH);
}

function Row(props: { of: RowDiff; columns: readonly ColumnDiff[]; name: string }) {
  const { of, columns, name } = props;
  const { kind, before, after } = of;
  return (
    <tr class={kind}>
      <td class="number">
        {query.value.get("pull") && (
          <Button
            kind="quiet"
            icon="comment"
            label={`Comment on row ${visible(name)}`}
            onClick={() => commentOn(name)}
          />
        )}
        {(after ?? before)?.number.toLocaleString("en")} <Mark type={kind} />
      </td>
      {columns.map((column, at) => {
        const [old, now] = [before?.cells[at] ?? null, after?.cells[at] ?? null];
        const both = isShared(column);
        if (kind === "changed" && both && old !== now) {
          return <ChangedCell key={column.name} before={old} after={now} />;
        }
        if (kind !== "changed" && !both && changeOf(column) !== kind)
          return <td key={column.name} />;
        const cell = after && column.after !== undefined ? now : old;
        return (
          <td key={column.name} class={cell === null ? "faint" : undefined}>
            {shown(cell)}
          </td>
        );
      })}
    </tr>
  );
}

/** The form below the rows asks for the text. */
function commentOn(row: string): void {
  change({ row }, { replace: true });
  document.querySelector<HTMLElement>(".comments > .form textarea")?.focus();
}

function ChangedCell({ before, after }: { before: Cell; after: Cell }) {
  let from = 0;
  if (before !== null && after !== null && Math.max(before.length, after.length) > LENGTH) {
    while (before[from] === after[from]) from += 1;
    from = Math.max(0, from - AROUND); // the difference must be in what is shown
  }
  const isLong = (before?.length ?? 0) + (after?.length ?? 0) > 40;
  return (
    <td class={isLong ? "changed-cell long" : "changed-cell"}>
      <del>{shown(before, from)}</del> <ins>{shown(after, from)}</ins>
    </td>
  );
}

const LENGTH = 120;
const AROUND = 20;

function shown(cell: Cell, from = 0): string {
  if (cell === null) return "null";
  if (cell === "") return '""';
  const rest = cell.slice(from, from + LENGTH);
  return `${from ? "…" : ""}${visible(rest)}${from + LENGTH < cell.length ? "…" : ""}`;
}

function ColumnTotals({ of }: { of: TableDiff }) {
  const columns = of.columns.filter(({ cells }) => cells > 0);
  if (!columns.length) return null;
  const hasMeans = columns.some(({ means }) => means);
  return (
    <section class="section">
      <h2>Changed cells per column</h2>
      <table class="data" aria-label="Changed cells per column">
        <thead>
          <tr>
            <th scope="col">Column</th>
            <th scope="col">Changed cells</th>
            {hasMeans && <th scope="col">Mean</th>}
          </tr>
        </thead>
        <tbody>
          {columns.map(({ name, cells, means }) => (
            <tr key={name}>
              <th scope="row">{visible(name)}</th>
              <td class="right">{cells.toLocaleString("en")}</td>
              {hasMeans && <td>{means && meansText(means)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Both means, and the change in percent. */
function meansText([before, after]: readonly [number, number]): string {
  const text = (value: number) => value.toLocaleString("en", { maximumSignificantDigits: 6 });
  const percent = (100 * (after - before)) / Math.abs(before);
  if (!Number.isFinite(percent)) return `${text(before)} → ${text(after)}`;
  const sign = percent < 0 ? "−" : "+";
  const size = Math.abs(percent);
  const shown =
    size >= 0.1 ? size.toFixed(1) : size.toLocaleString("en", { maximumSignificantDigits: 1 });
  return `${text(before)} → ${text(after)} (${sign}${shown} %)`;
}
