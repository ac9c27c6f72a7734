/** Parquet: schema and statistics from the footer, then rows, 100 at a time. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { asError } from "../api/load";
import { type Place, readBytes } from "../api/objects";
import { Button } from "../parts/button";
import { ErrorBox, Skeleton } from "../parts/states";
import { count, size as sizeText, visible } from "../parts/text";
import type { Reply, Request, Summary } from "../workers/parquet";
import parquetUrl from "../workers/parquet?worker&url";
import { startWorker } from "../workers/start";
import { cellText, DataTable } from "./table";
import type { ViewerProps } from "./viewer";

const ROWS = 100;
/** More than this is read only after the reader has agreed. */
const UNASKED_MAX = 8 * 1024 * 1024;
const SILENT_MS = 10_000;

interface State {
  readonly summary?: Summary;
  readonly rows?: { readonly start: number; readonly rows: unknown[][] };
  readonly error?: ApiError;
  readonly asks?: number;
}

export function ParquetViewer({ place, size }: ViewerProps) {
  const [state, setState] = useState<State>({});
  const [start, setStart] = useState(0);
  const file = useRef<ParquetFile | undefined>(undefined);
  useEffect(() => {
    const opened = new ParquetFile(place, size, (change) =>
      setState((old) => ({ ...old, ...change })),
    );
    file.current = opened;
    opened.open();
    return () => opened.close();
  }, [place.repo, place.ref, place.path, size]);
  const { summary, rows, error, asks } = state;
  const known = summary !== undefined;
  useEffect(() => {
    if (known) file.current?.rows(start, start + ROWS);
  }, [known, start]);
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
          <span>These rows need {sizeText(asks)} of the file, which has no smaller parts.</span>
          <Button onClick={() => file.current?.agree()}>Read them</Button>
        </div>
      )}
      {rows ? (
        <DataTable
          label="Rows of the file"
          columns={summary.names}
          rows={rows.rows}
          first={rows.start + 1}
        />
      ) : (
        !error && asks === undefined && <Skeleton />
      )}
      <nav class="pager" aria-label="Rows">
        {start > 0 && (
          <Button onClick={() => setStart(Math.max(0, start - ROWS))}>Previous 100</Button>
        )}
        {start + ROWS < summary.rows && (
          <Button onClick={() => setStart(start + ROWS)}>Next 100</Button>
        )}
      </nav>
      <section class="section">
        <h2>Columns</h2>
        <Columns of={summary} />
      </section>
    </>
  );
}

function Columns({ of }: { of: Summary }) {
  const short = (value: unknown) =>
    value === undefined ? "" : visible(cellText(value).slice(0, 60));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Columns of the file">
      <table class="data">
        <thead>
          <tr>
            {["Column", "Type", "Nulls", "Least", "Greatest", "Stored", "Codec"].map((title) => (
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

  rows(start: number, end: number): void {
    this.tell({ error: undefined, asks: undefined });
    this.send({ kind: "rows", start, end });
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
    else if (reply.kind === "failed") this.tell({ error: new ApiError(400, reply.error) });
    else if (reply.end - reply.start > UNASKED_MAX && !this.agreed) {
      this.held.push(reply);
      this.tell({ asks: this.held.reduce((sum, each) => sum + each.end - each.start, 0) });
    } else void this.read(reply);
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
