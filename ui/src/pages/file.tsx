/** A file at a ref: its content, what is known of it, its history, and how to use it. */
import { useEffect } from "preact/hooks";
import { api, type ObjectStats } from "../api/client";
import { useLoad } from "../api/load";
import { addressOf, downloadOf, type Place } from "../api/objects";
import { useKeys } from "../app/keyboard";
import { change, changed, go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { ButtonLink, Copy } from "../parts/button";
import { Crumbs } from "../parts/crumbs";
import { Facts, Time } from "../parts/facts";
import { Moved, pin } from "../parts/moved";
import { Page } from "../parts/page";
import { RefPicker } from "../parts/refs";
import { Failure, Show, Skeleton } from "../parts/states";
import { lastName, parentOf, sh, size, visible } from "../parts/text";
import { Uses } from "../parts/use";
import { isTextBeneath, kindOf } from "../viewers/kinds";
import { expectViewer, Viewer } from "../viewers/viewer";

export function File({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const ref = query.value.get("ref") ?? "main";
  const path = query.value.get("path") ?? "";
  const view = query.value.get("view") ?? "data";
  const place: Place = { repo, ref, path };
  const loaded = useLoad(`stat ${repo} ${ref} ${path}`, (signal) =>
    api(
      "GET /repositories/{repository}/refs/{ref}/objects/stat",
      { repository: repo, ref },
      {
        query: { path },
        signal,
      },
    ),
  );
  const named = useLoad(`ref ${repo} ${ref}`, (signal) =>
    api("GET /repositories/{repository}/refs/{ref}", { repository: repo, ref }, { signal }),
  );
  useEffect(() => {
    if (view === "data" || view === "schema") expectViewer(path);
  }, [path, view]);
  const folder = (to: string) => inRepository(repo, "objects", { ref, path: to });
  const pinned = { ...place, ref: named.data?.commit_id ?? ref };
  useKeys([
    { key: "u", text: "Up to the folder", act: () => go(folder(parentOf(path))) },
    {
      key: "y",
      text: "Pin the commit in the address",
      act: () => void pin(repo, ref, named.data?.commit_id),
    },
  ]);
  return (
    <Page
      title={lastName(path) || "File"}
      heading={<Crumbs root={repo} path={path} link={folder} />}
      command={sh`graveler cat ${addressOf(place)}`}
      actions={
        <>
          <ButtonLink icon="history" href={inRepository(repo, "commits", { ref, path })}>
            History
          </ButtonLink>
          <ButtonLink icon="download" href={downloadOf(place)} download>
            Download
          </ButtonLink>
        </>
      }
    >
      <div class="toolbar">
        <RefPicker repo={repo} value={ref} label="Ref" onPick={(to) => change({ ref: to })} />
        <nav class="views" aria-label="Views of the file">
          {viewsOf(path, loaded.data?.content_type).map(([name, text]) => (
            <a
              key={name}
              href={changed({ view: name === "data" ? "" : name, row: "" })}
              aria-current={view === name ? "page" : undefined}
            >
              {text}
            </a>
          ))}
        </nav>
        <span class="space" />
        {loaded.data && (
          <span class="faint">
            {size(loaded.data.size_bytes)} · <Time at={loaded.data.mtime} />
          </span>
        )}
      </div>
      <Moved
        repo={repo}
        ref_={ref}
        shown={named.data?.commit_id}
        onShow={() => {
          named.reload();
          loaded.reload();
        }}
      />
      <Show of={loaded}>
        {(stats) => {
          if (view === "details") return <Details of={stats} place={place} />;
          if (view === "use") return <Use place={place} pinned={pinned} of={stats} />;
          const isRaw = view === "raw";
          return <Viewer place={place} of={stats} isRaw={isRaw} key={`${ref} ${stats.checksum}`} />;
        }}
      </Show>
    </Page>
  );
}

function viewsOf(path: string, type: string | undefined): Array<readonly [string, string]> {
  const kind = kindOf(path, type);
  return [
    ["data", "Content"],
    ...(kind === "parquet" ? [["schema", "Schema"] as const] : []),
    ...(isTextBeneath(kind, path) ? [["raw", "As text"] as const] : []),
    ["details", "Details"],
    ["use", "Use this"],
  ];
}

function Details({ of, place }: { of: ObjectStats; place: Place }) {
  const own = Object.entries(of.metadata ?? {});
  return (
    <Facts
      of={[
        ["Address", <Text key="a" of={addressOf(place)} />],
        ["Size", `${size(of.size_bytes)} (${(of.size_bytes ?? 0).toLocaleString("en")} bytes)`],
        ["Content type", of.content_type || "unknown"],
        ["Modified", <Time key="t" at={of.mtime} />],
        ["Checksum", <Text key="c" of={of.checksum} />],
        ["Stored at", <Text key="p" of={of.physical_address} />],
        ...own.map(([name, value]) => [`Metadata: ${visible(name)}`, visible(value)] as const),
      ]}
    />
  );
}

function Text({ of }: { of: string }) {
  return (
    <span>
      <code>{visible(of)}</code>
      <Copy text={of} />
    </span>
  );
}

/** Lines that read this very file, pinned to the commit if the commit has it. */
function Use({ place, pinned, of }: { place: Place; pinned: Place; of: ObjectStats }) {
  const committed = useLoad(`stat ${pinned.repo} ${pinned.ref} ${pinned.path}`, (signal) =>
    api(
      "GET /repositories/{repository}/refs/{ref}/objects/stat",
      { repository: pinned.repo, ref: pinned.ref },
      { query: { path: pinned.path }, signal },
    ),
  );
  if (committed.busy && !committed.data) return <Skeleton />;
  if (committed.error && committed.error.status !== 404) return <Failure of={committed} />;
  const isCommitted = committed.data?.checksum === of.checksum;
  return <Uses place={isCommitted ? pinned : place} names={[of.path]} isCommitted={isCommitted} />;
}
