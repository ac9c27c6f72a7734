/** The place of the page: everything that it shows can be read from its URL. */
import { computed, signal } from "@preact/signals";

export type Query = Record<string, string | number | boolean | undefined>;

/** Where the service is mounted; ends with a slash. */
export const root = new URL(".", document.baseURI);

const place = signal(new URL(location.href));
const scrolls = new Map<number, number>();
let position = 0;
let wanted: number | undefined;

/** The path below the root, with a leading slash. */
export const path = computed(() => `/${place.value.pathname.slice(root.pathname.length)}`);
export const query = computed(() => place.value.searchParams);

/** A link to a page.  Fields that are empty or false are left out. */
export function href(to: string, fields: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined && value !== "" && value !== false) search.set(name, String(value));
  }
  const text = search.toString();
  return `${root.pathname}${to.replace(/^\//, "")}${text ? `?${text}` : ""}`;
}

/** A path from a template: each `{name}` becomes the escaped value. */
export function fill(template: string, values: Record<string, string>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(values[name] ?? ""),
  );
}

/** The page of a repository: `inRepository("lake", "objects", { ref: "main" })`. */
export function inRepository(repo: string, page = "", fields: Query = {}): string {
  const folder = `/repositories/${encodeURIComponent(repo)}`;
  return href(page ? `${folder}/${page}` : folder, fields);
}

/** Go to a page.  `replace`: without a step in the history. */
export function go(target: string, { replace = false } = {}): void {
  const url = new URL(target, place.value);
  if (url.origin !== root.origin) return;
  scrolls.set(position, scrollY);
  if (!replace) position += 1;
  history[replace ? "replaceState" : "pushState"]({ position }, "", url);
  const moved = url.pathname !== place.value.pathname;
  place.value = url;
  if (moved) scrollTo(0, 0);
}

/** Change fields of the query and stay on the page. */
export function change(fields: Query, options: { replace?: boolean } = {}): void {
  const url = new URL(place.value);
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === "" || value === false) url.searchParams.delete(name);
    else url.searchParams.set(name, String(value));
  }
  go(url.href, options);
}

/** The link of a page that differs from this one in fields of the query. */
export function changed(fields: Query): string {
  const own = Object.fromEntries(query.value.entries());
  return href(path.value, { ...own, ...fields });
}

/** After the content came: scroll to where the reader was before. */
export function restoreScroll(): void {
  if (wanted === undefined) return;
  const top = wanted;
  wanted = undefined;
  requestAnimationFrame(() => scrollTo(0, top));
}

/** Only a path of this page may be the target after a login. */
export function ownTarget(next: string | null): string {
  if (!next?.startsWith("/") || next.startsWith("//") || next.includes("\\")) return href("/");
  const url = new URL(next, root);
  const own = url.origin === root.origin && url.pathname.startsWith(root.pathname);
  // The parser joins dots, so what is left may begin with the name of a host.
  return own && !url.pathname.startsWith("//") ? url.pathname + url.search : href("/");
}

function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link?.href || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  const own = url.origin === root.origin && url.pathname.startsWith(root.pathname);
  const served = /^(api|_ui|docs|openapi\.json|_health|logout)(\/|$)/;
  if (!own || served.test(url.pathname.slice(root.pathname.length)) || url.hash) return;
  event.preventDefault();
  go(url.href);
}

/** Begin to follow links and the history. */
export function startRouter(): void {
  history.scrollRestoration = "manual";
  position = (history.state as { position?: number } | null)?.position ?? 0;
  history.replaceState({ position }, "");
  addEventListener("click", follow);
  addEventListener("popstate", () => {
    scrolls.set(position, scrollY);
    position = (history.state as { position?: number } | null)?.position ?? 0;
    wanted = scrolls.get(position) ?? 0;
    place.value = new URL(location.href);
  });
}
