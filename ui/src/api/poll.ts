/** A load that is repeated until it ends: after 1, 2, then every 5 seconds, with jitter, and not
 * while nobody looks. */
import { useEffect, useRef } from "preact/hooks";
import { type Loaded, useLoad } from "./load";

const SECONDS = [1, 2, 5];

export function usePolled<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  hasEnded: (data: T) => boolean,
): Loaded<T> {
  const loaded = useLoad(key, load);
  const turn = useRef({ key, count: 0 });
  if (turn.current.key !== key) turn.current = { key, count: 0 };
  const waits = Boolean(key) && !loaded.busy && !!loaded.data && !hasEnded(loaded.data);
  useEffect(() => {
    if (!waits) return;
    const seconds = SECONDS[Math.min(turn.current.count, SECONDS.length - 1)] ?? 5;
    turn.current.count += 1;
    const again = () => {
      if (!document.hidden) loaded.reload();
    };
    const timer = setTimeout(again, seconds * 1000 * (0.9 + Math.random() / 5));
    document.addEventListener("visibilitychange", again);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }, [waits, loaded.reload]);
  return loaded;
}
