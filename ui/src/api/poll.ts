/** What changes by itself: it is loaded again after 1, 2, then every 5 seconds. */
import { useEffect, useRef } from "preact/hooks";
import { type ApiError, isOutage } from "./client";
import { type Loaded, useLoad } from "./load";

const SECONDS = [1, 2, 5] as const;

/** Load until `isOver`.  Nothing is asked for while the page is hidden.  Of an outage, what was
 * loaded before stays, with the error in `late`. */
export function usePolled<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  isOver: (data: T) => boolean,
): Loaded<T> & { readonly late: ApiError | undefined } {
  const loaded = useLoad(key, load);
  const last = useRef<{ key: string; data?: T; turns: number }>({ key, turns: 0 });
  if (last.current.key !== key) last.current = { key, turns: 0 };
  if (loaded.data !== undefined) last.current.data = loaded.data;
  const { data } = last.current;
  const { error, busy, reload } = loaded;
  const isLate = error !== undefined && isOutage(error.status);
  const ends = (error && !isLate) || (data !== undefined && !error && isOver(data));
  useEffect(() => {
    if (!key || busy || ends) return;
    const seconds = SECONDS[Math.min(last.current.turns, SECONDS.length - 1)] ?? 5;
    last.current.turns += 1;
    return later(seconds * 1000, reload);
  }, [key, busy, ends, reload]);
  const late = isLate && data !== undefined ? error : undefined;
  // A load that repeats itself must not make the page flicker.
  return {
    data: late ? data : (loaded.data ?? data),
    error: late ? undefined : error,
    busy: false,
    late,
    reload,
  };
}

/** Act after a time; a page that is hidden acts when it is shown again. */
function later(milliseconds: number, act: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = (time: number) => {
    clearTimeout(timer);
    // The jitter spreads the requests of many pages.
    if (!document.hidden) timer = setTimeout(act, time * (0.85 + 0.3 * Math.random()));
  };
  const shown = () => wait(0);
  wait(milliseconds);
  document.addEventListener("visibilitychange", shown);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", shown);
  };
}

/** Call `again` while `active`, in the same rhythm. */
export function usePoll(active: boolean, again: () => void): void {
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    if (!active) return;
    let stop = () => {};
    const next = (turn: number) => {
      stop();
      stop = later((SECONDS[Math.min(turn, SECONDS.length - 1)] ?? 5) * 1000, () => {
        latest.current();
        next(turn + 1);
      });
    };
    next(0);
    return () => stop();
  }, [active]);
}
