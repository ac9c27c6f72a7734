/** What a page loads: it is shown at once if it is known, and asked for again. */
import { useCallback, useLayoutEffect, useRef, useState } from "preact/hooks";
import { restoreScroll } from "../app/router";
import { ApiError } from "./client";

export interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: ApiError | undefined;
  readonly busy: boolean;
  reload(): void;
}

const KEPT = 40;
const known = new Map<string, unknown>();

function keep(key: string, value: unknown): void {
  known.delete(key);
  known.set(key, value);
  const [oldest] = known.keys();
  if (known.size > KEPT && oldest !== undefined) known.delete(oldest);
}

/** Forget all that was loaded, for example at a logout. */
export function forget(): void {
  known.clear();
}

/** Load what `key` names.  An empty key loads nothing.  A new key aborts the load before. */
export function useLoad<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState<{ key: string; data?: T; error?: ApiError; busy: boolean }>({
    key: "",
    busy: true,
  });
  const latest = useRef(load);
  latest.current = load;
  // Before the first paint, so that the request is on its way while the browser paints.
  useLayoutEffect(() => {
    if (!key) return;
    const stop = new AbortController();
    setState((old) => ({ ...(old.key === key ? old : { key }), key, busy: true }));
    latest.current(stop.signal).then(
      (data) => {
        if (stop.signal.aborted) return;
        keep(key, data);
        setState({ key, data, busy: false });
        restoreScroll();
      },
      (error: unknown) => {
        if (stop.signal.aborted) return;
        setState({ key, error: asError(error), busy: false });
      },
    );
    return () => stop.abort();
  }, [key, turn]);
  const reload = useCallback(() => setTurn((value) => value + 1), []);
  const current = state.key === key ? state : { key, busy: true };
  const data = "data" in current && current.data !== undefined ? current.data : known.get(key);
  const error = "error" in current ? current.error : undefined;
  return { data: error ? undefined : (data as T | undefined), error, busy: current.busy, reload };
}

export function asError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(0, error instanceof Error ? error.message : String(error));
}
