/** Calls of the API, typed by the OpenAPI document. */
import { signal } from "@preact/signals";
import { fill, path as pathShown, root } from "../app/router";
import type { Operations } from "./types";

export type * from "./types";
export type Operation = keyof Operations;
type Path<K extends Operation> = Operations[K]["path"];

export interface Options<K extends Operation> {
  query?: Operations[K]["query"];
  body?: Operations[K]["body"];
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** How many bytes of an object the answer has. */
  bytes?: number;
}

/** A call that failed.  `status` is 0 if no answer came. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly requestId = "",
    readonly retryAfter = 0,
    /** The call, for example `GET /repositories/lake`. */
    readonly call = "",
  ) {
    super(message);
  }
}

/** What the service says of its cost: a request that reads, one that writes, a byte.  An embedded
 * store says nothing. */
const [ofRead = 0, ofWrite = 0, ofByte = 0] = (
  document.querySelector<HTMLMetaElement>('meta[name="dollars"]')?.content.split(" ") ?? []
).map(Number);
const spent = signal({ path: "", count: 0, dollars: 0 });

/** How many requests the page that is shown has sent, and what they cost; no dollars: nothing. */
export function spending(): { readonly count: number; readonly dollars: number } {
  const now = spent.value;
  return now.path === pathShown.value ? now : { count: 0, dollars: 0 };
}

/** Count a request, with the bytes of an object that it reads. */
export function counted(isRead: boolean, bytes = 0): void {
  const path = pathShown.peek();
  const { count, dollars } = spent.peek().path === path ? spent.peek() : { count: 0, dollars: 0 };
  const price = (isRead ? ofRead : ofWrite) + bytes * ofByte;
  spent.value = { path, count: count + 1, dollars: dollars + price };
}

let onRefused = (): void => {};

/** What happens when the session has ended. */
export function whenRefused(act: () => void): void {
  onRefused = act;
}

/** The URL of an operation, for links and for uploads. */
export function urlOf<K extends Operation>(
  operation: K,
  path: Path<K>,
  query: Operations[K]["query"] = {},
): string {
  const template = operation.slice(operation.indexOf(" ") + 1);
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== "") search.append(name, String(each));
    }
  }
  const text = search.toString();
  const filled = fill(template, path as Record<string, string>);
  return `${root.pathname}api/v1${filled}${text ? `?${text}` : ""}`;
}

/** The answer of an operation.  Throws `ApiError`. */
export async function api<K extends Operation>(
  operation: K,
  path: Path<K>,
  options: Options<K> = {},
): Promise<Operations[K]["answer"]> {
  const response = await send(operation, path, options);
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  // A gateway names JSON as the type of an answer without a body.
  return (isJson && text ? JSON.parse(text) : text) as Operations[K]["answer"];
}

/** The response of an operation, whose body was not read.  Throws `ApiError`. */
export async function send<K extends Operation>(
  operation: K,
  path: Path<K>,
  { query, body, signal, headers, bytes = 0 }: Options<K> = {},
): Promise<Response> {
  const method = operation.slice(0, operation.indexOf(" "));
  const request: RequestInit = { method, credentials: "same-origin", ...(signal && { signal }) };
  if (method !== "GET" && method !== "HEAD") {
    // A page of another site cannot send this header without a preflight, which is refused.
    request.headers = { "X-Graveler-Page": "1", "Content-Type": "application/json", ...headers };
    if (body !== undefined) request.body = JSON.stringify(body);
  } else if (headers) {
    request.headers = headers;
  }
  const url = urlOf(operation, path, query);
  return checked(await fetched(url, request, bytes), `${method} ${url.split("api/v1")[1] ?? url}`);
}

const OUTAGES = [0, 429, 500, 502, 503, 504];
/** What failed after this time would only fail after it again: a function may run for half a minute. */
const REPEATED_WITHIN_MS = 15_000;
const PAUSE_MAX_MS = 5_000;

/** Whether a status says that the next try may succeed: no answer, too many requests, or a service
 * or its gateway that failed. */
export function isOutage(status: number): boolean {
  return OUTAGES.includes(status);
}

/** The answer to a request.  A read is repeated: once if none came, twice after an outage. */
async function fetched(url: string, request: RequestInit, bytes: number): Promise<Response> {
  const isRead = request.method === "GET";
  const begun = performance.now();
  for (let attempt = 0; ; attempt += 1) {
    const isLast = !isRead || attempt >= 2;
    let pause = 300 * 2 ** attempt;
    try {
      request.signal?.throwIfAborted();
      counted(isRead, bytes);
      const response = await fetch(url, request);
      const asked = 1000 * Number(response.headers.get("retry-after") ?? 0) || 0;
      const isLate = performance.now() - begun > REPEATED_WITHIN_MS;
      if (isLast || isLate || asked > PAUSE_MAX_MS || !isOutage(response.status)) return response;
      await response.text(); // else the browser keeps the connection
      pause = Math.max(pause, asked);
    } catch (error) {
      if (request.signal?.aborted) throw error;
      if (isLast || attempt >= 1) throw new ApiError(0, "The service does not answer.");
    }
    // The jitter spreads what was refused together.
    await new Promise((done) => setTimeout(done, pause * (1 + 0.3 * Math.random())));
  }
}

async function checked(response: Response, call: string): Promise<Response> {
  if (response.ok || response.status === 304) return response;
  if (response.status === 401) onRefused();
  throw await failure(response, call);
}

/** The error that a response stands for. */
export async function failure(response: Response, call = ""): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  let message = text;
  try {
    message = (JSON.parse(text) as { message?: string }).message ?? text;
  } catch {
    // An answer of a proxy, not of the service.
  }
  return new ApiError(
    response.status,
    message.slice(0, 2000) || `The service answered ${response.status}.`,
    response.headers.get("x-request-id") ?? "",
    Number(response.headers.get("retry-after") ?? 0),
    call,
  );
}
