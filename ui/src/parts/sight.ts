/** Which rows of a long list are in sight: only these are in the document. */
import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

const BESIDE = 12; // rows above and below that are there already
const STEP = 6; // so many rows pass by without work

export interface Sight {
  readonly from: number;
  readonly to: number;
}

/** `count` rows of `height` pixels, the first one at the top of `element`. */
export function useSight(
  element: RefObject<HTMLElement | null>,
  count: number,
  height: number,
): Sight {
  const [seen, setSeen] = useState<Sight>({ from: 0, to: BESIDE * 4 });
  useLayoutEffect(() => {
    const look = () => {
      const top = element.current?.getBoundingClientRect().top ?? 0;
      const from = Math.floor(-top / height / STEP) * STEP - BESIDE;
      const to = Math.ceil((innerHeight - top) / height / STEP) * STEP + BESIDE;
      setSeen((old) => (old.from === from && old.to === to ? old : { from, to }));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [element, height, count]);
  const from = Math.max(0, Math.min(seen.from, count - 1));
  return { from, to: Math.max(from, Math.min(seen.to, count)) };
}
