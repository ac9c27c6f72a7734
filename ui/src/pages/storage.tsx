/** What the objects of a ref take, by folder; what a branch adds to another. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, type DiffSummary, type ObjectSummary } from "../api/client";
import { useLoad } from "../api/load";
import { change, changed, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { Button, ButtonLink } from "../parts/button";
import { Crumbs } from "../parts/crumbs";
import { Totals } from "../parts/facts";
import { Icon } from "../parts/icons";
import { Page } from "../parts/page";
import { RefPicker, useRefOrDefault } from "../parts/refs";
import { Empty, Failure, Show } from "../parts/states";
import { count, lastName, sh, size, visible } from "../parts/text";
import { treemap } from "../pictures/treemap";

const AMOUNT = 1_000;
const ROWS = 100;
const HEIGHT = 360;
/** A tile without room for its text has none; its title says it. */
const ROOM = { width: 54, height: 26 };

export function Storage({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const asked = query.value.get("ref") ?? "";
  const [ref, about] = useRefOrDefault(repo, asked);
  const prefix = prefixShown();
  const base = query.value.get("compare") ?? "";
  const at = ref ? `storage ${repo} ${ref} ${prefix}` : "";
  const loaded = useLoad(at, (signal) =>
    api(
      "GET /repositories/{repository}/refs/{ref}/objects/summary",
      { repository: repo, ref },
      { query: { prefix, amount: AMOUNT }, signal },
    ),
  );
  const difference = useLoad(at && base ? `${at} ${base}` : "", (signal) =>
    api(
      "GET /repositories/{repository}/refs/{leftRef}/diff/{rightRef}/summary",
      { repository: repo, leftRef: base, rightRef: ref },
      { query: { prefix, amount: AMOUNT, type: "three_dot" }, signal },
    ),
  );
  const changes = new Map((difference.data?.results ?? []).map((line) => [line.path, line]));
  return (
    <Page
      title="Storage"
      command={sh`graveler ls ${repo}/${ref}/${prefix} --du`}
      actions={
        <>
          <RefPicker
            repo={repo}
            value={ref}
            label="Ref"
            onPick={(picked) => change({ ref: picked })}
          />
          <RefPicker
            repo={repo}
            value={base}
            label="Since"
            onPick={(picked) => change({ compare: picked })}
          />
          {base && (
            <Button
              kind="quiet"
              icon="close"
              label="Without comparison"
              onClick={() => change({ compare: undefined })}
            />
          )}
        </>
      }
    >
      <div class="toolbar">
        <Crumbs
          root={repo}
          path={prefix}
          link={(folder) => changed({ prefix: folder || undefined })}
        />
        <span class="space" />
        <ButtonLink icon="folder" href={inRepository(repo, "objects", { ref, path: prefix })}>
          Objects
        </ButtonLink>
      </div>
      <Failure of={about} />
      {ref && base && (
        <Show of={difference} rows={1}>
          {(page) => <Added of={page.results} complete={page.complete} refs={[ref, base]} />}
        </Show>
      )}
      {ref && (
        <Show of={loaded}>
          {(page) =>
            page.results.length ? (
              <>
                <p class="lead">{total(page.results, page.complete)}</p>
                {page.results.some(bytes) && (
                  <Picture repo={repo} at={ref} of={page.results} changes={changes} />
                )}
                <Rows repo={repo} at={ref} of={page.results} changes={base ? changes : undefined} />
              </>
            ) : (
              <Empty
                icon="storage"
                title="No object is here"
                command={sh`graveler ls ${repo}/${ref}`}
              >
                <p>Uploaded objects appear here, also before they are committed.</p>
              </Empty>
            )
          }
        </Show>
      )}
    </Page>
  );
}

const bytes = (line: ObjectSummary): number => line.size_bytes ?? 0;

function total(lines: readonly ObjectSummary[], complete: boolean): string {
  const all = lines.reduce((sum, line) => sum + bytes(line), 0);
  const objects = lines.reduce((sum, line) => sum + line.objects, 0);
  const text = `${size(all)} in ${count(objects, "object")}`;
  return complete ? text : `${text} of the first ${count(lines.length, "name")}: there are more`;
}

/** What one ref has more than another, in all. */
function Added(props: {
  readonly of: readonly DiffSummary[];
  readonly complete: boolean;
  readonly refs: readonly [string, string];
}) {
  const { of, complete } = props;
  const [ref, base] = props.refs.map(visible);
  const sum = (pick: (line: DiffSummary) => number | undefined) =>
    of.reduce((all, line) => all + (pick(line) ?? 0), 0);
  const counts = {
    added: sum((line) => line.added),
    changed: sum((line) => line.changed),
    removed: sum((line) => line.removed),
  };
  return (
    <p class="banner calm">
      <span>
        {ref} has {size(sum((line) => line.bytes_added))} that {base} had not when they parted
        {complete ? "" : ", and more"}. It lacks {size(sum((line) => line.bytes_removed))}.
      </span>
      <Totals {...counts} />
    </p>
  );
}

/** A line of a summary: a folder, or all objects that are in no folder below the prefix. */
function shownAs(line: ObjectSummary): string {
  return line.path.endsWith("/") && line.path !== prefixShown()
    ? visible(lastName(line.path))
    : "objects in no folder";
}

const prefixShown = (): string => query.value.get("prefix") ?? "";

/** Where a line leads: a folder opens here, objects in their list. */
function target(repo: string, ref: string, path: string): string {
  const prefix = prefixShown();
  if (path !== prefix) return changed({ prefix: path });
  return inRepository(repo, "objects", { ref, path: prefix });
}

/** How a name differs: the colour of its tile. */
function tone(line: DiffSummary | undefined): string {
  if (!line) return "";
  if (line.added && !line.changed && !line.removed) return "added";
  return "changed";
}

function Picture(props: {
  readonly repo: string;
  readonly at: string;
  readonly of: readonly ObjectSummary[];
  readonly changes: ReadonlyMap<string, DiffSummary>;
}) {
  const { repo, at, of, changes } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const tiles = treemap(of.map(bytes), width, HEIGHT).filter(
    (tile) => tile.width >= 3 && tile.height >= 3,
  );
  return (
    <div class="treemap" ref={box} role="group" aria-label="Shares of the folders">
      {tiles.map((tile) => {
        const line = of[tile.at];
        if (!line) return null;
        const hasRoom = tile.width >= ROOM.width && tile.height >= ROOM.height;
        const text = `${shownAs(line)}, ${size(line.size_bytes)}, ${count(line.objects, "object")}`;
        const place = {
          left: `${tile.left}px`,
          top: `${tile.top}px`,
          width: `${tile.width}px`,
          height: `${tile.height}px`,
        };
        return (
          <a
            key={line.path}
            class={`tile ${tone(changes.get(line.path))}`}
            href={target(repo, at, line.path)}
            style={place}
            title={text}
            aria-label={hasRoom ? undefined : text}
            tabIndex={hasRoom ? 0 : -1}
          >
            {hasRoom && <span>{shownAs(line)}</span>}
            {hasRoom && tile.height >= 44 && <small>{size(line.size_bytes)}</small>}
            {hasRoom && <span class="hidden">, {count(line.objects, "object")}</span>}
          </a>
        );
      })}
    </div>
  );
}

function Rows(props: {
  readonly repo: string;
  readonly at: string;
  readonly of: readonly ObjectSummary[];
  readonly changes: ReadonlyMap<string, DiffSummary> | undefined;
}) {
  const { repo, at, of, changes } = props;
  const [shown, setShown] = useState(ROWS);
  const all = of.reduce((sum, line) => sum + bytes(line), 0) || 1;
  const sorted = [...of].sort((one, other) => bytes(other) - bytes(one));
  return (
    <>
      <table class="list">
        <thead>
          <tr>
            <th scope="col">Name</th>
            {changes && <th scope="col">Changes</th>}
            <th scope="col" class="right wide-only">
              Objects
            </th>
            <th scope="col" class="right">
              Size
            </th>
            <th scope="col" class="right">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, shown).map((line) => {
            const changed = changes?.get(line.path);
            const isFolder = line.path !== prefixShown();
            return (
              <tr key={line.path} data-row>
                <td>
                  <a class={isFolder ? "name folder" : "name"} href={target(repo, at, line.path)}>
                    <Icon name={isFolder ? "folder" : "file"} />
                    <span>{shownAs(line)}</span>
                  </a>
                </td>
                {changes && <td>{changed ? <Totals {...changed} /> : ""}</td>}
                <td class="right wide-only">{line.objects.toLocaleString("en")}</td>
                <td class="right nowrap">{size(line.size_bytes)}</td>
                <td class="right faint nowrap">{((100 * bytes(line)) / all).toFixed(1)} %</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {sorted.length > shown && (
        <p class="pager">
          <Button onClick={() => setShown(shown + ROWS)}>More</Button>
        </p>
      )}
    </>
  );
}
