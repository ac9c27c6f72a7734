/** Objects: addresses, bytes, and verbs over many of them. */
import { signal } from "@preact/signals";
import { ApiError, api, counted, type ObjectError, send, urlOf } from "./client";

export interface Place {
  readonly repo: string;
  readonly ref: string;
  readonly path: string;
  /** That of the version to read, if one is shown already: parts of two are no file. */
  readonly checksum?: string | undefined;
}

export const addressOf = ({ repo, ref, path }: Place): string => `lakefs://${repo}/${ref}/${path}`;

/** The link by which a browser downloads an object. */
export function downloadOf({ repo, ref, path }: Place): string {
  return urlOf(
    "GET /repositories/{repository}/refs/{ref}/objects",
    { repository: repo, ref },
    { path },
  );
}

let asked: Promise<boolean> | undefined;

/** Whether the service signs URLs, by which the storage itself answers. */
export function signsUrls(): Promise<boolean> {
  asked ??= api("GET /config/storage", {}).then(
    (config) => config.pre_sign_support === true,
    () => {
      asked = undefined; // a later answer counts
      return false;
    },
  );
  return asked;
}

/** An answer of the function on AWS has at most 6 MB. */
const PART = 4 * 1024 * 1024;
/** Larger ranges are read from the storage itself.  The function would send each byte twice. */
const DIRECT_MIN = 256 * 1024;
/** The signed URL of an object, as long as its reader lives and it has not expired. */
const signed = new WeakMap<Place, Promise<string>>();
/** The bucket that refuses to be read: it has no CORS rule for this page. */
export const refusing = signal("");

/** Bytes of an object, from `start` to before `end`. */
export async function readBytes(
  place: Place,
  start: number,
  end: number,
  signal?: AbortSignal,
): Promise<ArrayBuffer> {
  let refused = "";
  if (!refusing.peek() && (end - start > DIRECT_MIN || signed.has(place))) {
    const answer = await readDirect(place, start, end, signal);
    if (typeof answer !== "string") return answer;
    refused = answer;
  }
  const bytes = await readByService(place, start, end, signal);
  // Now it was not the network.
  if (refused) refusing.value = refused;
  return bytes;
}

/** Bytes of an object by its signed URL.  If there is none, or none that works: the bucket that did
 * not answer, or an empty text. */
async function readDirect(
  place: Place,
  start: number,
  end: number,
  signal?: AbortSignal,
): Promise<ArrayBuffer | string> {
  if (!(await signsUrls())) return "";
  for (let attempt = 0; attempt < 2; attempt += 1) {
    if (!signed.has(place)) signed.set(place, signedUrl(place));
    let url = "";
    let response: Response | undefined;
    try {
      url = await (signed.get(place) as Promise<string>);
      counted(true, end - start);
      const headers = { Range: `bytes=${start}-${end - 1}` };
      response = await fetch(url, {
        headers,
        credentials: "omit",
        ...(signal && { signal }),
      });
      if (response.status === 206) return await response.arrayBuffer();
    } catch (error) {
      if (signal?.aborted || isChanged(error)) throw error;
      signed.delete(place);
      return response ? "" : bucketOf(url); // an answer that broke off is no refusal
    }
    signed.delete(place); // the URL has expired
  }
  return "";
}

async function signedUrl({ repo, ref, path, checksum }: Place): Promise<string> {
  const stats = await api(
    "GET /repositories/{repository}/refs/{ref}/objects/stat",
    { repository: repo, ref },
    { query: { path, presign: true } },
  );
  if (checksum && stats.checksum !== checksum) throw changed();
  return stats.physical_address;
}

const changed = (): ApiError =>
  new ApiError(412, "The file has changed since it was opened here.  Load the page again.");

const isChanged = (error: unknown): boolean => error instanceof ApiError && error.status === 412;

/** The bucket that a URL leads to: https://BUCKET.s3.REGION… or https://HOST/BUCKET/… */
function bucketOf(url: string): string {
  if (!url) return "";
  const { hostname, pathname } = new URL(url, location.href);
  return /^(.+?)\.s3[.-]/.exec(hostname)?.[1] ?? pathname.split("/")[1] ?? "";
}

async function readByService(
  place: Place,
  start: number,
  end: number,
  signal?: AbortSignal,
): Promise<ArrayBuffer> {
  if (end - start <= PART) return readPart(place, start, end, signal);
  const bytes = new Uint8Array(end - start);
  for (let from = start; from < end; from += PART) {
    const part = await readPart(place, from, Math.min(from + PART, end), signal);
    bytes.set(new Uint8Array(part), from - start);
  }
  return bytes.buffer;
}

async function readPart(
  { repo, ref, path, checksum }: Place,
  start: number,
  end: number,
  signal?: AbortSignal,
): Promise<ArrayBuffer> {
  if (end <= start) return new ArrayBuffer(0);
  const response = await send(
    "GET /repositories/{repository}/refs/{ref}/objects",
    { repository: repo, ref },
    {
      query: { path },
      headers: {
        Range: `bytes=${start}-${end - 1}`,
        ...(checksum && { "If-Match": `"${checksum}"` }),
      },
      bytes: end - start,
      ...(signal && { signal }),
    },
  ).catch((error: unknown) => {
    throw isChanged(error) ? changed() : error;
  });
  return response.arrayBuffer();
}

const AT_ONCE = 1000;

/** Delete objects and everything in folders.  The result: how many there were, and what failed. */
export async function deleteAll(
  repo: string,
  branch: string,
  chosen: readonly string[],
  progress: (done: number) => void,
): Promise<{ done: number; errors: readonly ObjectError[] }> {
  let done = 0;
  const errors: ObjectError[] = [];
  const remove = async (paths: string[]) => {
    if (!paths.length) return;
    const answer = await api(
      "POST /repositories/{repository}/branches/{branch}/objects/delete",
      { repository: repo, branch },
      { body: { paths } },
    );
    errors.push(...answer.errors);
    done += paths.length;
    progress(done);
  };
  await remove(chosen.filter((path) => !path.endsWith("/")));
  for (const folder of chosen.filter((path) => path.endsWith("/"))) {
    for (let after = "", more = true; more; ) {
      const page = await api(
        "GET /repositories/{repository}/refs/{ref}/objects/ls",
        { repository: repo, ref: branch },
        { query: { prefix: folder, after, amount: AT_ONCE, user_metadata: false } },
      );
      await remove(page.results.map((each) => each.path));
      after = page.pagination.next_offset;
      more = page.pagination.has_more;
    }
  }
  return { done, errors };
}
