/** Objects: addresses, bytes, and verbs over many of them. */
import { api, type ObjectError, send, urlOf } from "./client";

export interface Place {
  readonly repo: string;
  readonly ref: string;
  readonly path: string;
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

/** An answer of the function on AWS has at most 6 MB. */
const PART = 4 * 1024 * 1024;

/** Bytes of an object, from `start` to before `end`. */
export async function readBytes(
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
  { repo, ref, path }: Place,
  start: number,
  end: number,
  signal?: AbortSignal,
): Promise<ArrayBuffer> {
  if (end <= start) return new ArrayBuffer(0);
  const response = await send(
    "GET /repositories/{repository}/refs/{ref}/objects",
    { repository: repo, ref },
    { query: { path }, headers: { Range: `bytes=${start}-${end - 1}` }, ...(signal && { signal }) },
  );
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
