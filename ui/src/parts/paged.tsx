/** A list in pages: its filter by prefix, the link to the next page. */
import type { Pagination } from "../api/client";
import { change, changed, query } from "../app/router";

export function PrefixFilter() {
  return (
    <input
      type="search"
      data-filter
      aria-label="Filter by prefix"
      placeholder="Filter by prefix"
      value={query.value.get("search") ?? ""}
      onInput={(event) =>
        change({ search: event.currentTarget.value, after: "" }, { replace: true })
      }
    />
  );
}

export function NextPage({ of }: { of: Pagination }) {
  if (!of.has_more) return null;
  return (
    <nav class="pager" aria-label="Pages of the list">
      <a class="button" href={changed({ after: of.next_offset })}>
        Next page
      </a>
    </nav>
  );
}
