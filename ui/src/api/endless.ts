/** A list without an end: its pages are loaded as they come into sight, and some are held. */
import { signal } from "@preact/signals";
import { useLayoutEffect, useMemo } from "preact/hooks";
import { restoreScroll } from "../app/router";
import type { ApiError, Pagination } from "./client";
import { asError } from "./load";

interface Answer<T> {
  readonly results: readonly T[];
  readonly pagination: Pagination;
}

type Load<T> = (after: string, amount: number, signal: AbortSignal) => Promise<Answer<T>>;

interface Chunk<T> {
  readonly after: string;
  /** As many lines as it has, or had before it was dropped. */
  count: number;
  rows: readonly T[] | undefined;
  /** The turn in which it was loaded. */
  turn: number;
}

/** The size of the first page, and how many pages are held. */
interface Bounds {
  readonly first: number;
  readonly held: number;
}

/** The first page is small, since it is waited for; the service names it in its shell. */
const BOUNDS: Bounds = { first: 60, held: 20 };
const AMOUNT = 1_000;
const LISTS_MAX = 5;

export class Endless<T> {
  /** Changes with everything that is shown. */
  private readonly version = signal(0);
  private readonly chunks: Chunk<T>[];
  private readonly busy = new Map<Chunk<T>, AbortController>();
  private turn = 0;
  private next: string | undefined;
  private failed: ApiError | undefined;
  load: Load<T>;

  constructor(
    after: string,
    load: Load<T>,
    private readonly bounds: Bounds,
  ) {
    this.load = load;
    this.chunks = [{ after, count: 0, rows: undefined, turn: -1 }];
  }

  /** The pages; who reads them while it renders is rendered again when they change. */
  private get pages(): readonly Chunk<T>[] {
    void this.version.value;
    return this.chunks;
  }

  /** Whether the first page has come. */
  get begun(): boolean {
    return (this.pages[0]?.turn ?? -1) >= 0;
  }

  get error(): ApiError | undefined {
    void this.version.value;
    return this.failed;
  }

  /** How many lines are known. */
  get count(): number {
    return this.pages.reduce((sum, chunk) => sum + chunk.count, 0);
  }

  /** Whether there are more lines than are known. */
  get hasMore(): boolean {
    return (this.pages.at(-1)?.turn ?? -1) < 0 || this.next !== undefined;
  }

  /** Lines, as far as they are held. */
  slice(from: number, to: number): Array<T | undefined> {
    return this.within(from, to).flatMap(({ chunk, at }) => {
      const start = Math.max(0, from - at);
      const length = Math.min(chunk.count, to - at) - start;
      return Array.from({ length }, (_, number) => chunk.rows?.[start + number]);
    });
  }

  held(): T[] {
    return this.pages.flatMap(({ rows }) => rows ?? []);
  }

  /** Load what these lines lack; behind the last one, the next page. */
  need(from: number, to: number): void {
    if (this.failed) return;
    const first = this.chunks[0];
    for (const { chunk } of this.within(from, to)) this.fetch(chunk);
    if (first && (first.turn < 0 || first.count === 0)) this.fetch(first);
    if (to < this.count || this.next === undefined) return;
    const chunk = { after: this.next, count: 0, rows: undefined, turn: -1 };
    this.next = undefined;
    this.chunks.push(chunk);
    this.fetch(chunk);
  }

  /** What is shown may be out of date, or has failed: load it again. */
  renew(): void {
    this.turn += 1;
    this.failed = undefined;
    this.version.value += 1;
    if (this.count === 0) this.need(0, 1);
  }

  stop(): void {
    for (const controller of this.busy.values()) controller.abort();
    this.busy.clear();
    this.takeBack();
  }

  /** A next page that did not come is asked for again. */
  private takeBack(): void {
    const last = this.chunks.at(-1);
    if (this.chunks.length < 2 || !last || last.turn >= 0) return;
    this.chunks.pop();
    this.next = last.after;
  }

  private within(from: number, to: number): Array<{ chunk: Chunk<T>; at: number }> {
    let at = 0;
    const found = [];
    for (const chunk of this.pages) {
      if (at < to && at + chunk.count > from) found.push({ chunk, at });
      at += chunk.count;
    }
    return found;
  }

  private fetch(chunk: Chunk<T>): void {
    const { turn } = this;
    if (this.busy.has(chunk) || (chunk.rows && chunk.turn === turn)) return;
    const stop = new AbortController();
    this.busy.set(chunk, stop);
    const isFirst = chunk === this.chunks[0];
    this.load(chunk.after, isFirst ? this.bounds.first : AMOUNT, stop.signal).then(
      (page) => {
        if (stop.signal.aborted) return;
        this.busy.delete(chunk);
        this.keep(chunk, turn, page);
        this.version.value += 1;
        restoreScroll();
      },
      (error: unknown) => {
        if (stop.signal.aborted) return;
        this.busy.delete(chunk);
        this.failed = asError(error);
        this.takeBack();
        this.version.value += 1;
      },
    );
  }

  private keep(chunk: Chunk<T>, turn: number, { results, pagination }: Answer<T>): void {
    const at = this.chunks.indexOf(chunk);
    if (at < 0) return;
    chunk.rows = results;
    chunk.count = results.length;
    chunk.turn = turn;
    const next = pagination.has_more ? pagination.next_offset : undefined;
    const following = this.chunks[at + 1];
    if (following?.after !== next) {
      // The end of this page has moved: what follows begins elsewhere now.
      for (const gone of this.chunks.splice(at + 1)) this.busy.get(gone)?.abort();
    }
    if (at === this.chunks.length - 1) this.next = next;
    const held = this.chunks.filter(({ rows }) => rows);
    const isTooMuch = held.length > this.bounds.held;
    const farthest = held.indexOf(chunk) > held.length / 2 ? held[0] : held.at(-1);
    if (isTooMuch && farthest) farthest.rows = undefined;
  }
}

const lists = new Map<string, Endless<unknown>>();

/** The list that `key` names, as it was left; `turn`: another one loads anew what is shown. */
export function useEndless<T>(
  key: string,
  turn: unknown,
  after: string,
  load: Load<T>,
  bounds = BOUNDS,
): Endless<T> {
  const list = useMemo(() => {
    const known = lists.get(key) as Endless<T> | undefined;
    const found = known ?? new Endless<T>(after, load, bounds);
    lists.delete(key);
    lists.set(key, found as Endless<unknown>);
    const [oldest] = lists.keys();
    if (lists.size > LISTS_MAX && oldest !== undefined) lists.delete(oldest);
    return found;
  }, [key]);
  list.load = load;
  useLayoutEffect(() => {
    list.renew();
  }, [list, turn]);
  useLayoutEffect(() => () => list.stop(), [list]);
  return list;
}

/** Forget all lists, for example at a logout. */
export function forgetLists(): void {
  lists.clear();
}
