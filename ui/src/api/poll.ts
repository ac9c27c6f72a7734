/** Ask again while something goes on: after 1, 2, then 5 seconds; not while the page is hidden. */
import { useEffect, useRef } from "preact/hooks";

const STEPS = [1_000, 2_000, 5_000];

/** Call `again` while `active`; a fresh `active` begins with the short waits. */
export function usePoll(active: boolean, again: () => void): void {
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    if (!active) return;
    let timer = 0;
    let turn = 0;
    const next = () => {
      const wait = STEPS[Math.min(turn, STEPS.length - 1)] ?? 5_000;
      turn += 1;
      timer = window.setTimeout(
        () => {
          if (!document.hidden) latest.current();
          next();
        },
        wait * (0.9 + Math.random() / 5),
      );
    };
    next();
    return () => clearTimeout(timer);
  }, [active]);
}
