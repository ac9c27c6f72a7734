/** Parquet: schema and statistics from the footer, then rows, 100 at a time. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { asError } from "../api/load";
import { type Place, readBytes } from "../api/objects";
import { change, changed, query } from "../app/router";
import { Button, ButtonLink } from "../parts/button";
import { Empty, ErrorBox, Skeleton } from "../parts/states";
import { count, size as sizeText, visible } from "../parts/text";
import { Histogram, valueText } from "../pictures/histogram";
import type { Reply, Request, Sample, Summary, Where } from "../workers/parquet";
import parquetUrl from "../workers/parquet?worker&url";
import { startWorker } from "../workers/start";
import { ColumnPicker, chosenColumns, readNames } from "./columns";
import { Export } from "./export";
import { cellText, DataTable } from "./table";
import type { ViewerProps } from "./viewer";

const ROWS = 100;
/** More than this is read only after the reader has agreed. */
const UNASKED_MAX = 8 * 1024 * 1024;
const SILENT_MS = 10_000;

interface State {
  readonly summary?: Summary;
  readonly rows?: Extract<Reply, { kind: "rows" }>;
  readonly sample?: Sample;
  readonly error?: ApiError;
  readonly asks?: number;
}

/** Content, or only the schema: `view=schema`, which reads the end of the file and no row. */
export function ParquetViewer({ place, size }: ViewerProps) {
  const [state, setState] = useState<State>({});
  const file = useRef<ParquetFile | undefined>(undefined);
  const isSchema = query.value.get("view") === "schema";
  useEffect(() => {
    const opened = new ParquetFile(place, size, (change) =>
      setState((old) => ({ ...old, ...change })),
    );
    file.current = opened;
    opened.open();
    return () => opened.close();
  }, [place.repo, place.ref, place.path, size]);
  const { summary, error, asks } = state;
  if (!summary) return error ? <ErrorBox error={error} /> : <Skeleton />;
  return (
    <>
      <p class="faint more-note">
        {count(summary.rows, "row")}, {count(summary.names.length, "column")},{" "}
        {count(summary.groups, "row group")} · {visible(summary.writer)}
      </p>
      {error && <ErrorBox error={error} />}
      {asks !== undefined && (
        <div class="banner">
          <span>This needs {sizeText(asks)} or more of the file, which has no smaller parts.</span>
          <Button onClick={() => file.current?.agree()}>Read it</Button>
        </div>
      )}
      {!isSchema && <Rows of={summary} place={place} state={state} file={file} />}
      <section class="section">
        <div class="heading">
          <h2>Columns</h2>
          {isSchema && !state.sample && (
            <Button onClick={() => file.current?.sample()}>Histograms of a sample</Button>
          )}
        </div>
        {state.sample && (
          <p class="faint">
            Histograms of {count(state.sample.rows, "row")} of{" "}
            {count(state.sample.groups, "row group")}: a sample.
          </p>
        )}
        <Columns of={summary} sample={state.sample} />
      </section>
    </>
  );
}

/** In the URL: the name, a colon, a number, two dots, and a number or nothing. */
const writeWhere = ({ name, from, to }: Where): string =>
  `${encodeURIComponent(name)}:${from}..${to ?? ""}`;

function readWhere(text: string | null): Where | undefined {
  const [, escaped = "", from, to] = /^([^:]+):(.+)\.\.(.*)$/.exec(text ?? "") ?? [];
  const name = readNames(escaped)?.[0];
  const isGood = name !== undefined && Number.isFinite(Number(from)) && !Number.isNaN(Number(to));
  return isGood ? { name, from: Number(from), to: to ? Number(to) : undefined } : undefined;
}

/** 100 rows: `row` in the URL is the first of them, `cols` names the columns. */
function Rows(props: {
  readonly of: Summary;
  readonly place: Place;
  readonly state: State;
  readonly file: RefObject<ParquetFile | undefined>;
}) {
  const { of, place, state, file } = props;
  const { rows, error, asks } = state;
  const names = chosenColumns(of.names);
  const asked = Number(query.value.get("row") ?? 1) - 1;
  const start = asked > 0 && asked < of.rows ? Math.floor(asked) : 0;
  const where = readWhere(query.value.get("where"));
  const key = JSON.stringify([names, where]);
  useEffect(() => file.current?.rows(start, start + ROWS, names, where), [file, start, key]);
  const to = (row: number) => change({ row: row > 0 ? row + 1 : "" });
  return (
    <>
      {where && <Condition of={where} summary={of} />}
      {rows?.rows.length === 0 ? (
        <Empty icon="search" title={where ? "No row is in this range" : "This file has no rows"} />
      ) : rows ? (
        <DataTable
          label="Rows of the file"
          columns={rows.names}
          rows={rows.rows}
          first={rows.start + 1}
        />
      ) : (
        !error && asks === undefined && <Skeleton />
      )}
      <nav class="pager" aria-label="Rows">
        {start > 0 && <Button onClick={() => to(start - ROWS)}>Previous 100</Button>}
        {rows?.more && <Button onClick={() => to(start + ROWS)}>Next 100</Button>}
        <ColumnPicker of={of.names} />
        {rows && <Export path={place.path} columns={rows.names} rows={rows.rows} />}
      </nav>
    </>
  );
}

function Condition({ of: { name, from, to }, summary }: { of: Where; summary: Summary }) {
  const type = summary.columns.find((column) => column.name === name)?.type ?? "";
  const text = (value: number) => valueText(value, /^(timestamp|date)/.test(type));
  return (
    <div class="banner calm">
      <span>
        Only rows with {visible(name)} from {text(from)}
        {to !== undefined && ` to ${text(to)}`}
      </span>
      <ButtonLink href={changed({ where: "", row: "" })}>All rows</ButtonLink>
    </div>
  );
}

function Columns({ of, sample }: { of: Summary; sample: Sample | undefined }) {
  const short = (value: unknown) =>
    value === undefined ? "" : visible(cellText(value).slice(0, 60));
  const histograms = new Map(sample?.histograms.map((each) => [each.name, each]));
  const titles = ["Column", "Type", "Nulls", "Least", "Greatest", "Stored", "Codec"];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Columns of the file">
      <table class="data">
        <thead>
          <tr>
            {[...titles, ...(sample ? ["Sample"] : [])].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {of.columns.map((column) => (
            <tr key={column.name}>
              <th scope="row">{visible(column.name)}</th>
              <td>{column.type}</td>
              <td class="right">{column.nulls?.toLocaleString("en") ?? "unknown"}</td>
              <td>{short(column.min)}</td>
              <td>{short(column.max)}</td>
              <td class="right">{sizeText(column.packed)}</td>
              <td>{column.codec}</td>
              {sample && (
                <td>
                  <Histogram
                    of={histograms.get(column.name)}
                    linkOf={(where) => changed({ view: "", row: "", where: writeWhere(where) })}
                  />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A file in a worker, which asks for bytes.  A worker that is silent for too long is killed. */
class ParquetFile {
  private worker: Worker | undefined;
  private timer = 0;
  private agreed = false;
  /** Bytes that were read for what was asked last. */
  private bytes = 0;
  private held: Array<Extract<Reply, { kind: "read" }>> = [];
  private readonly stop = new AbortController();

  constructor(
    private readonly place: Place,
    private readonly size: number,
    private readonly tell: (change: State) => void,
  ) {}

  open(): void {
    this.worker = startWorker(parquetUrl);
    this.worker.onmessage = ({ data }: MessageEvent<Reply>) => this.hear(data);
    this.worker.onerror = (event) => this.fail(event.message || "the reader of Parquet failed");
    this.send({ kind: "open", size: this.size });
  }

  rows(start: number, end: number, names: readonly string[], where: Where | undefined): void {
    this.begin();
    this.send({ kind: "rows", start, end, names, where });
  }

  sample(): void {
    this.begin();
    this.send({ kind: "sample" });
  }

  private begin(): void {
    this.bytes = 0;
    this.tell({ error: undefined, asks: undefined });
  }

  /** Read what was too large to be read unasked. */
  agree(): void {
    this.agreed = true;
    this.tell({ asks: undefined });
    for (const request of this.held.splice(0)) void this.read(request);
  }

  close(): void {
    clearTimeout(this.timer);
    this.stop.abort();
    this.worker?.terminate();
    this.worker = undefined;
  }

  private send(message: Request, transfer: Transferable[] = []): void {
    this.watch();
    this.worker?.postMessage(message, transfer);
  }

  private watch(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(
      () => this.fail(`the file was not decoded within ${SILENT_MS / 1000} seconds`),
      SILENT_MS,
    );
  }

  private fail(text: string): void {
    this.close();
    this.tell({ error: new ApiError(400, text) });
  }

  private hear(reply: Reply): void {
    clearTimeout(this.timer);
    if (reply.kind === "summary") this.tell({ summary: reply.summary });
    else if (reply.kind === "rows") this.tell({ rows: reply });
    else if (reply.kind === "sample") this.tell({ sample: reply.sample });
    else if (reply.kind === "failed") this.tell({ error: new ApiError(400, reply.error) });
    else if (this.bytes + reply.end - reply.start > UNASKED_MAX && !this.agreed) {
      this.held.push(reply);
      this.tell({ asks: this.held.reduce((sum, each) => sum + each.end - each.start, 0) });
    } else {
      this.bytes += reply.end - reply.start;
      void this.read(reply);
    }
  }

  private async read({ id, start, end }: Extract<Reply, { kind: "read" }>): Promise<void> {
    try {
      const bytes = await readBytes(this.place, start, end, this.stop.signal);
      this.send({ kind: "bytes", id, bytes }, [bytes]);
    } catch (error) {
      if (!this.stop.signal.aborted)
        this.send({ kind: "bytes", id, error: asError(error).message });
    }
  }
}
