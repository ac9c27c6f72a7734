/** Commits of a year: a square a day, a column a week. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { count } from "../parts/text";

const DAY = 86_400;
const WEEKS = 53;
const SIDE = 12;
const STEP = SIDE + 3;
const LEFT = 34;
const TOP = 18;
const LEVELS = 4;

/** The first day that is shown, in seconds: a Monday. */
export function firstDay(now: number): number {
  const today = Math.floor(now / DAY);
  return (today - weekday(today) - (WEEKS - 1) * 7) * DAY;
}

/** 0: Monday.  The first day of all was a Thursday. */
const weekday = (day: number): number => (day + 3) % 7;

const dateOf = (day: number): Date => new Date(day * DAY * 1000);

export function Activity({ times, now }: { times: readonly number[]; now: number }) {
  const box = useRef<HTMLDivElement>(null);
  // In a narrow window the newest weeks are those in sight.
  useLayoutEffect(() => box.current?.scrollTo({ left: box.current.scrollWidth }), []);
  const first = firstDay(now) / DAY;
  const today = Math.floor(now / DAY);
  const counts = new Map<number, number>();
  for (const time of times) {
    const day = Math.floor(time / DAY);
    if (day >= first && day <= today) counts.set(day, (counts.get(day) ?? 0) + 1);
  }
  const most = Math.max(1, ...counts.values());
  const total = [...counts.values()].reduce((sum, each) => sum + each, 0);
  const days = Array.from({ length: today - first + 1 }, (_, at) => first + at);
  const x = (day: number) => LEFT + Math.floor((day - first) / 7) * STEP;
  const months = days.filter((day) => dateOf(day).getUTCDate() === 1 && day < today - 7);
  const text = `${count(total, "commit")} in a year, on ${count(counts.size, "day")}`;
  return (
    <figure class="activity">
      <figcaption>{text}</figcaption>
      <div
        ref={box}
        class="activity-scroll"
        tabIndex={0}
        role="region"
        aria-label="Commits per day"
      >
        <svg
          width={LEFT + WEEKS * STEP}
          height={TOP + 7 * STEP}
          role="img"
          aria-label={`Commits per day: ${text}, at most ${most}`}
        >
          {months.map((day) => (
            <text key={day} x={x(day)} y="11">
              {dateOf(day).toLocaleString("en", { month: "short", timeZone: "UTC" })}
            </text>
          ))}
          {["Mon", "Wed", "Fri", "Sun"].map((name, at) => (
            <text key={name} x="0" y={TOP + at * 2 * STEP + 10}>
              {name}
            </text>
          ))}
          {days.map((day) => {
            const here = counts.get(day) ?? 0;
            return (
              <rect
                key={day}
                class={`level-${Math.ceil((here * LEVELS) / most)}`}
                x={x(day)}
                y={TOP + weekday(day) * STEP}
                width={SIDE}
                height={SIDE}
                rx="2"
              >
                <title>{`${dateOf(day).toISOString().slice(0, 10)}: ${count(here, "commit")}`}</title>
              </rect>
            );
          })}
        </svg>
      </div>
    </figure>
  );
}
