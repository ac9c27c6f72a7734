/** How often the values of a column are in each of some ranges of equal width. */
import { count } from "../parts/text";
import type { Histogram as Values, Where } from "../workers/parquet";

const HEIGHT = 24;

/** Each bar is a link, if `linkOf` has one. */
export function Histogram(props: { of: Values | undefined; linkOf(where: Where): string }) {
  const { of, linkOf } = props;
  if (!of) return <span class="faint">none</span>;
  const { name, bins, min, max, isTime } = of;
  const most = Math.max(...bins);
  const step = (max - min) / bins.length;
  const text = (value: number) => valueText(value, isTime);
  const total = bins.reduce((sum, each) => sum + each, 0);
  const label = `${count(total, "value")} from ${text(min)} to ${text(max)}`;
  return (
    <fieldset class="histogram" aria-label={label}>
      {bins.map((each, at) => {
        const [from, to] = [min + at * step, min + (at + 1) * step];
        const isLast = at + 1 === bins.length;
        const words = `${text(from)} to ${text(to)}: ${count(each, "value")}`;
        const height = `${(each * HEIGHT) / most}px`;
        return (
          <a
            key={at}
            href={linkOf({ name, from, to: isLast ? undefined : to })}
            aria-label={words}
            title={words}
          >
            <span style={{ height }} />
          </a>
        );
      })}
    </fieldset>
  );
}

export function valueText(value: number, isTime: boolean): string {
  if (!isTime) return String(Number(value.toPrecision(6)));
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? String(value) : date.toISOString();
}
