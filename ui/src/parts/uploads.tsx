/** Uploads: three at a time, with progress; they go on while the reader looks at other pages. */
import { signal } from "@preact/signals";
import { api, failure, urlOf } from "../api/client";
import { signsUrls } from "../api/objects";
import { say } from "../app/toasts";
import { Button } from "./button";
import { NoCors } from "./cors";
import { size, visible } from "./text";

interface Upload {
  readonly id: number;
  readonly repo: string;
  readonly branch: string;
  readonly path: string;
  readonly file: File;
  readonly sent: number;
  readonly state: "waiting" | "sending" | "done" | "failed" | "cancelled";
  readonly error: string;
  /** The bucket that refused it: it has no rule for this page. */
  readonly bucket: string;
}

const PARALLEL = 3;
/** How long the panel stays when all is done: it covers what is below it. */
const CLOSE_MS = 1_500;
/** Larger bodies go to the storage itself, if the service signs URLs. */
const DIRECT_MAX = 4 * 1024 * 1024;
const uploads = signal<readonly Upload[]>([]);
const stops = new Map<number, () => void>();
/** Rises when an upload is done: lists load again. */
export const uploaded = signal(0);
let count = 0;

function set(id: number, fields: Partial<Upload>): void {
  uploads.value = uploads.value.map((each) => (each.id === id ? { ...each, ...fields } : each));
}

export function upload(
  repo: string,
  branch: string,
  files: ReadonlyArray<{ path: string; file: File }>,
): void {
  const added = files.map(({ path, file }): Upload => {
    count += 1;
    return {
      id: count,
      repo,
      branch,
      path,
      file,
      sent: 0,
      state: "waiting",
      error: "",
      bucket: "",
    };
  });
  const isOver = uploads.value.every((each) => !isActive(each));
  uploads.value = [...(isOver ? [] : uploads.value), ...added];
  pump();
}

const isActive = (each: Upload): boolean => each.state === "waiting" || each.state === "sending";

function pump(): void {
  const sending = uploads.value.filter((each) => each.state === "sending").length;
  const waiting = uploads.value.filter((each) => each.state === "waiting");
  for (const each of waiting.slice(0, Math.max(0, PARALLEL - sending))) void run(each);
}

async function run(each: Upload): Promise<void> {
  set(each.id, { state: "sending" });
  try {
    await transfer(each);
    set(each.id, { state: "done", sent: each.file.size });
  } catch (error) {
    const isStopped = error instanceof DOMException;
    const text = error instanceof Error ? error.message : String(error);
    set(each.id, isStopped ? { state: "cancelled" } : { state: "failed", error: text });
  }
  stops.delete(each.id);
  pump();
  if (uploads.value.some(isActive)) return;
  uploaded.value += 1;
  const done = uploads.value.filter((one) => one.state === "done").length;
  if (done) say(done === 1 ? `${each.path} is uploaded.` : `${done} files are uploaded.`);
  if (done === uploads.value.length) setTimeout(closeIfDone, CLOSE_MS);
}

function closeIfDone(): void {
  if (uploads.value.every((each) => each.state === "done")) uploads.value = [];
}

async function transfer(each: Upload): Promise<void> {
  const { repo, branch, path, file } = each;
  const place = { repository: repo, branch };
  const type = file.type || "application/octet-stream";
  if (file.size > DIRECT_MAX) {
    if (await signsUrls()) {
      const where = await api(
        "GET /repositories/{repository}/branches/{branch}/staging/backing",
        place,
        {
          query: { path, presign: true },
        },
      );
      const bucket = /^s3:\/\/([^/]+)/.exec(where.physical_address ?? "")?.[1] ?? "";
      const answer = await put("PUT", where.presigned_url, each, type, () =>
        set(each.id, { bucket }),
      );
      const checksum = (answer.getResponseHeader("etag") ?? "").replaceAll('"', "");
      await api("PUT /repositories/{repository}/branches/{branch}/staging/backing", place, {
        query: { path },
        body: {
          staging: { physical_address: where.physical_address },
          checksum,
          size_bytes: file.size,
          content_type: type,
        },
      });
      return;
    }
  }
  const url = urlOf("POST /repositories/{repository}/branches/{branch}/objects", place, { path });
  await put("POST", url, each, type);
}

/** Send a file; `fetch` reports no progress of what it sends. */
function put(
  method: string,
  url: string,
  each: Upload,
  type: string,
  onBroken?: () => void,
): Promise<XMLHttpRequest> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    stops.set(each.id, () => request.abort());
    request.open(method, url);
    request.setRequestHeader("Content-Type", type);
    if (new URL(url, location.href).origin === location.origin && method === "POST") {
      request.setRequestHeader("X-Graveler-Page", "1");
    }
    request.upload.onprogress = (event) => set(each.id, { sent: event.loaded });
    request.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    request.onerror = () => {
      onBroken?.();
      reject(new Error("The connection broke."));
    };
    request.onload = async () => {
      if (request.status < 300) return resolve(request);
      reject(await failure(new Response(request.responseText, { status: request.status })));
    };
    request.send(each.file);
  });
}

function stop(id: number): void {
  const act = stops.get(id);
  if (act) act();
  else set(id, { state: "cancelled" });
}

/** What is being uploaded. */
export function UploadPanel() {
  const all = uploads.value;
  if (!all.length) return null;
  const active = all.filter(isActive).length;
  const total = all.reduce((sum, each) => sum + each.file.size, 0);
  const sent = all.reduce((sum, each) => sum + each.sent, 0);
  return (
    <section class="uploads" aria-label="Uploads">
      <header>
        <strong>{active ? `Uploading ${active} of ${all.length}` : "Uploads"}</strong>
        <span class="faint">
          {size(sent)} of {size(total)}
        </span>
        {active > 0 && (
          <Button
            kind="quiet"
            onClick={() =>
              all.filter(isActive).forEach((each) => {
                stop(each.id);
              })
            }
          >
            Cancel all
          </Button>
        )}
        {!active && (
          <Button kind="quiet" icon="close" label="Close" onClick={() => (uploads.value = [])} />
        )}
      </header>
      <progress max={total || 1} value={sent} aria-label="Progress of all uploads" />
      <ul>
        {all.slice(-50).map((each) => (
          <li key={each.id}>
            <span class="cut">{visible(each.path)}</span>
            <span class={each.state === "failed" ? "bad-text" : "faint"}>{stateOf(each)}</span>
            {isActive(each) && (
              <Button
                kind="quiet"
                icon="close"
                label={`Cancel ${each.path}`}
                onClick={() => stop(each.id)}
              />
            )}
          </li>
        ))}
      </ul>
      {[...new Set(all.map(({ bucket }) => bucket).filter(Boolean))].map((bucket) => (
        <NoCors key={bucket} bucket={bucket}>
          Large files go straight to the bucket {visible(bucket)}, which refuses them if it has no
          CORS rule for this page. This sets one:
        </NoCors>
      ))}
    </section>
  );
}

function stateOf(each: Upload): string {
  if (each.state === "failed") return each.error;
  if (each.state !== "sending") return each.state;
  return `${Math.floor((100 * each.sent) / (each.file.size || 1))} %`;
}

/** The files of a drop, those of folders too, with their paths. */
export async function dropped(data: DataTransfer): Promise<Array<{ path: string; file: File }>> {
  const entries = [...data.items]
    .map((item) => item.webkitGetAsEntry())
    .filter((entry) => entry !== null);
  if (!entries.length) return [...data.files].map((file) => ({ path: file.name, file }));
  const found: Array<{ path: string; file: File }> = [];
  for (const entry of entries) await collect(entry, found);
  return found;
}

async function collect(
  entry: FileSystemEntry,
  found: Array<{ path: string; file: File }>,
): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((done, failed) =>
      (entry as FileSystemFileEntry).file(done, failed),
    );
    found.push({ path: entry.fullPath.replace(/^\//, ""), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const inside = await new Promise<FileSystemEntry[]>((done, failed) =>
      reader.readEntries(done, failed),
    );
    if (!inside.length) return;
    for (const each of inside) await collect(each, found);
  }
}
