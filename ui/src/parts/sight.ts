/** What is in sight: rows of a long list, of which only these are in the document, and elements. */
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

const BESIDE = 12; // rows above and below that are there already
const STEP = 6; // so many rows pass by without work
const NARROW = matchMedia("(max-width: 640px)"); // as in the style

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

/** Whether an element is in sight, or less than `margin` pixels away.  `once`: or was it before. */
export function useInSight(
  element: RefObject<HTMLElement | null>,
  { margin = 0, once = false, initial = false } = {},
): boolean {
  const [isSeen, setSeen] = useState(initial);
  const isDone = once && isSeen;
  useEffect(() => {
    if (!element.current || isDone) return;
    const look = (entries: IntersectionObserverEntry[]) =>
      setSeen(entries.at(-1)?.isIntersecting ?? false);
    const observer = new IntersectionObserver(look, { rootMargin: `${margin}px` });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element, margin, isDone]);
  return isSeen;
}

/** Whether the window is as narrow as that of a phone. */
export function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => NARROW.matches);
  useEffect(() => {
    const look = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", look);
    return () => NARROW.removeEventListener("change", look);
  }, []);
  return isNarrow;
}
