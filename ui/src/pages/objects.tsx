/** The objects of a folder at a ref: list, filter, upload, delete, download. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type DiffList, type NamedRef, type ObjectStats } from "../api/client";
import { type Endless, useEndless } from "../api/endless";
import { type Loaded, useLoad } from "../api/load";
import { addressOf, deleteAll, downloadOf } from "../api/objects";
import { useKeys } from "../app/keyboard";
import { change, changed, go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { complain, say } from "../app/toasts";
import { Button, ButtonLink } from "../parts/button";
import { Crumbs } from "../parts/crumbs";
import { Dialog } from "../parts/dialog";
import { type Change, Mark, Time, Totals } from "../parts/facts";
import { Form } from "../parts/form";
import { Icon } from "../parts/icons";
import { ImportDialog } from "../parts/importing";
import { Moved, pin } from "../parts/moved";
import { Page } from "../parts/page";
import { RefPicker, useRefOrDefault } from "../parts/refs";
import { inLake, repositoryArn, useRights } from "../parts/rights";
import { Sheet } from "../parts/sheet";
import { useSight } from "../parts/sight";
import { Empty, ErrorBox, Show, Skeleton } from "../parts/states";
import { count, lastName, parentOf, sh, short, size, visible } from "../parts/text";
import { dropped, upload, uploaded } from "../parts/uploads";
import { UseDialog } from "../parts/use";

/** As many names are all in the document; of more only those in sight, in rows of one height. */
const SHORT = 100;
const ROW = 37;

export function Objects({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const ref = query.value.get("ref") ?? "";
  const [shown, about] = useRefOrDefault(repo, ref);
  useEffect(() => {
    if (!ref && shown) go(inRepository(repo, "objects", { ref: shown }), { replace: true });
  }, [ref, repo, shown]);
  if (ref) return <Folder repo={repo} ref_={ref} key={ref} />;
  return (
    <Page title={repo}>
      <Show of={about}>{() => null}</Show>
    </Page>
  );
}

function Folder({ repo, ref_: ref }: { repo: string; ref_: string }) {
  const path = query.value.get("path") ?? "";
  const after = query.value.get("after") ?? "";
  const folder = path.endsWith("/") ? path : parentOf(path);
  const place = { repository: repo, ref };
  const turn = uploaded.value;
  const key = `objects ${repo} ${ref} ${path} ${after}`;
  const listed = useEndless(key, turn, after, (after, amount, signal) =>
    api("GET /repositories/{repository}/refs/{ref}/objects/ls", place, {
      query: { prefix: path, after, amount, delimiter: "/", user_metadata: false },
      signal,
    }),
  );
  const named = useLoad(`ref ${repo} ${ref} ${turn}`, (signal) =>
    api("GET /repositories/{repository}/refs/{ref}", place, { signal }),
  );
  const isDirty = named.data?.type === "branch" && named.data.dirty;
  const changes = useLoad(isDirty ? `changes ${repo} ${ref} ${path} ${turn}` : "", (signal) =>
    api(
      "GET /repositories/{repository}/branches/{branch}/diff",
      { repository: repo, branch: ref },
      {
        query: { prefix: path, delimiter: "/", amount: 1000 },
        signal,
      },
    ),
  );
  const isBranch = named.data?.type === "branch";
  const off = useOff(repo, ref, folder, named);
  const reload = () => {
    uploaded.value += 1;
  };
  useKeys([
    {
      key: "u",
      text: "Up one folder",
      act: () => folder && change({ path: parentOf(folder), after: "" }),
    },
    {
      key: "y",
      text: "Pin the commit in the address",
      act: () => void pin(repo, ref, named.data?.commit_id),
    },
  ]);
  return (
    <Page
      title={folder ? `${lastName(folder)} · ${repo}` : repo}
      heading={<Crumbs root={repo} path={folder} link={(to) => changed({ path: to, after: "" })} />}
      command={sh`graveler ls ${addressOf({ repo, ref, path: folder })}`}
      actions={<Uploader repo={repo} branch={ref} folder={folder} off={off.upload} />}
    >
      <div class="toolbar">
        <RefPicker
          repo={repo}
          value={ref}
          label="Ref"
          source={ref}
          onPick={(picked) => change({ ref: picked, after: "" })}
        />
        <input
          type="search"
          data-filter
          aria-label="Filter by prefix"
          placeholder="Filter by prefix"
          value={path.slice(folder.length)}
          onInput={(event) =>
            change({ path: folder + event.currentTarget.value, after: "" }, { replace: true })
          }
        />
        {named.data && <RefNote of={named.data} repo={repo} />}
        <span class="space" />
        <Sheet>
          <Button icon="code" onClick={() => change({ use: true })}>
            Use this
          </Button>
          <Button icon="download" off={off.import} onClick={() => change({ import: true })}>
            Import
          </Button>
          {isBranch && (
            <ButtonLink icon="compare" href={inRepository(repo, "compare", { compare: ref })}>
              Compare and merge
            </ButtonLink>
          )}
        </Sheet>
      </div>
      <Moved repo={repo} ref_={ref} shown={named.data?.commit_id} onShow={reload} />
      {named.error && <ErrorBox error={named.error} retry={reload} />}
      {isDirty && <Uncommitted repo={repo} branch={ref} of={changes.data} />}
      {listed.count > 0 && (
        <Rows
          key={key}
          repo={repo}
          ref_={ref}
          of={listed}
          marks={marksOf(changes.data)}
          off={off.delete}
          reload={reload}
        />
      )}
      {!named.error && (
        <State of={listed} known={!!named.data} retry={reload}>
          <NoObjects repo={repo} branch={ref} folder={folder} path={path} off={off.upload} />
        </State>
      )}
      {after && (
        <nav class="pager" aria-label="Pages of the list">
          <a href={changed({ after: "" })}>From the first name</a>
        </nav>
      )}
      {isBranch && query.value.get("import") && (
        <ImportDialog repo={repo} branch={ref} folder={folder} />
      )}
      {query.value.get("use") && named.data && (
        <UseDialog
          place={{ repo, ref: named.data.commit_id, path: folder }}
          names={listed.held().map((each) => each.path)}
          name={ref}
        />
      )}
    </Page>
  );
}

/** Why objects of a folder cannot be changed; empty: they can be. */
function useOff(repo: string, ref: string, folder: string, of: Loaded<NamedRef>) {
  const { data: named } = of;
  const inFolder = repositoryArn(`${repo}/object/${folder}`);
  const may = useRights([
    ["fs:WriteObject", inFolder, "some"],
    ["fs:DeleteObject", inFolder, "some"],
    ["fs:CreateCommit", repositoryArn(`${repo}/branch/${ref}`)],
    ["fs:ImportFromStorage", inLake("namespace/"), "some"],
  ]);
  const isOther = named && named.type !== "branch";
  const missing = of.error ? "this ref could not be read" : "";
  const readOnly = isOther ? "only a branch can be changed" : missing;
  const dirty = named?.dirty ? "commit or discard the uncommitted changes first" : "";
  const upload = readOnly || may("fs:WriteObject");
  return {
    upload,
    delete: readOnly || may("fs:DeleteObject"),
    import: upload || may("fs:CreateCommit") || may("fs:ImportFromStorage") || dirty,
  };
}

/** The state of a list, beside its rows.  `known`: whether the ref is. */
function State(props: {
  readonly of: Endless<ObjectStats>;
  readonly known: boolean;
  readonly children: ComponentChildren;
  retry(): void;
}) {
  const { of, known, children, retry } = props;
  if (of.error) return <ErrorBox error={of.error} retry={retry} />;
  if (of.count) return null;
  return of.begun && known ? children : <Skeleton rows={10} />;
}

function RefNote({ of, repo }: { of: NamedRef; repo: string }) {
  return (
    <span class="faint">
      {of.type === "branch" ? "at " : `${of.type} `}
      <a class="id" href={inRepository(repo, `commits/${of.commit_id}`)}>
        {short(of.commit_id)}
      </a>
    </span>
  );
}

function Uncommitted(props: { repo: string; branch: string; of: DiffList | undefined }) {
  const { repo, branch, of } = props;
  const totals = { added: 0, changed: 0, removed: 0 };
  for (const each of of?.results ?? []) {
    if (each.type === "added" || each.type === "removed") totals[each.type] += 1;
    else totals.changed += 1;
  }
  return (
    <p class="banner">
      <span>
        <strong>Uncommitted changes</strong> on {visible(branch)}{" "}
        {of && of.results.length > 0 && (
          <>
            — in this folder: <Totals {...totals} />
          </>
        )}
      </span>
      <a class="button" href={inRepository(repo, "objects", { ref: branch, showChanges: true })}>
        Review and commit
      </a>
    </p>
  );
}

function marksOf(changes: DiffList | undefined): ReadonlyMap<string, Change> {
  return new Map((changes?.results ?? []).map((each) => [each.path, each.type]));
}

function Rows(props: {
  readonly repo: string;
  readonly ref_: string;
  readonly of: Endless<ObjectStats>;
  readonly marks: ReadonlyMap<string, Change>;
  readonly off: string;
  reload(): void;
}) {
  const { repo, ref_: ref, of, marks, off } = props;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [deleting, setDeleting] = useState(false);
  const choose = (path: string, on: boolean) => {
    const next = new Set(chosen);
    if (on) next.add(path);
    else next.delete(path);
    setChosen(next);
  };
  const body = useRef<HTMLTableSectionElement>(null);
  const total = of.count;
  const isLong = total > SHORT || of.hasMore;
  const sight = useSight(body, total, ROW);
  const { from, to } = isLong ? sight : { from: 0, to: total };
  useEffect(() => of.need(from, to));
  const held = of.held();
  const all = chosen.size === held.length;
  return (
    <>
      <div class={chosen.size ? "selection shown" : "selection"}>
        <span>{chosen.size} chosen</span>
        <Button icon="trash" kind="danger" off={off} onClick={() => setDeleting(true)}>
          Delete
        </Button>
        <Button kind="quiet" onClick={() => setChosen(new Set())}>
          Choose none
        </Button>
      </div>
      <table
        class={isLong ? "list files long" : "list files"}
        aria-rowcount={of.hasMore ? -1 : total + 1}
      >
        <thead>
          <tr>
            <th scope="col" class="tick">
              <input
                type="checkbox"
                aria-label={isLong ? "Choose all that are loaded" : "Choose all"}
                checked={all}
                onInput={() => setChosen(new Set(all ? [] : held.map((each) => each.path)))}
              />
            </th>
            <th scope="col">Name</th>
            <th scope="col" class="right size">
              Size
            </th>
            <th scope="col" class="right wide-only time">
              Modified
            </th>
            <th scope="col" class="buttons">
              <span class="hidden">History and download</span>
            </th>
          </tr>
        </thead>
        <tbody ref={body}>
          <Space rows={from} />
          {of
            .slice(from, to)
            .map((each, at) =>
              each ? (
                <Row
                  key={each.path}
                  repo={repo}
                  ref_={ref}
                  of={each}
                  row={from + at + 2}
                  mark={marks.get(each.path)}
                  chosen={chosen.has(each.path)}
                  choose={choose}
                />
              ) : (
                <Space key={`${from + at}`} rows={1} />
              ),
            )}
          <Space rows={total - to} />
        </tbody>
      </table>
      {isLong && (
        <p class="faint more-note" role="status">
          {count(total, "name")}
          {of.hasMore && " so far; more come as you scroll"}
        </p>
      )}
      {deleting && (
        <Delete
          repo={repo}
          branch={ref}
          chosen={[...chosen]}
          onClose={() => setDeleting(false)}
          onDone={() => {
            setDeleting(false);
            setChosen(new Set());
            props.reload();
          }}
        />
      )}
    </>
  );
}

/** In the place of rows that are not in sight. */
function Space({ rows }: { rows: number }) {
  if (rows <= 0) return null;
  return (
    <tr>
      <td colSpan={4} class="blank" style={{ height: `${rows * ROW}px` }} />
    </tr>
  );
}

function Row(props: {
  readonly repo: string;
  readonly ref_: string;
  readonly of: ObjectStats;
  /** Its number in the table, whose heading is the first row. */
  readonly row: number;
  readonly mark: Change | undefined;
  readonly chosen: boolean;
  choose(path: string, on: boolean): void;
}) {
  const { repo, ref_: ref, of, row, mark, chosen, choose } = props;
  const isFolder = of.path_type === "common_prefix";
  const name = visible(lastName(of.path));
  const link = isFolder
    ? inRepository(repo, "objects", { ref, path: of.path })
    : inRepository(repo, "object", { ref, path: of.path });
  return (
    <tr data-row aria-rowindex={row}>
      <td class="tick">
        <input
          type="checkbox"
          aria-label={`Choose ${name}`}
          checked={chosen}
          onInput={(event) => choose(of.path, event.currentTarget.checked)}
        />
      </td>
      <td>
        <a class={isFolder ? "name folder" : "name"} href={link}>
          <Icon name={isFolder ? "folder" : "file"} />
          <span title={name}>{name || "(no name)"}</span>
        </a>
        {mark && <Mark type={mark} />}
      </td>
      <td class="right nowrap">{isFolder ? "" : size(of.size_bytes)}</td>
      <td class="right nowrap faint wide-only">{!isFolder && <Time at={of.mtime} />}</td>
      <td class="right nowrap">
        {!isFolder && (
          <>
            <a
              class="button quiet only-icon wide-only"
              href={inRepository(repo, "commits", { ref, path: of.path })}
              aria-label={`History of ${name}`}
            >
              <Icon name="history" />
            </a>
            <a
              class="button quiet only-icon"
              href={downloadOf({ repo, ref, path: of.path })}
              download={visible(lastName(of.path))}
              aria-label={`Download ${name}`}
            >
              <Icon name="download" />
            </a>
          </>
        )}
      </td>
    </tr>
  );
}

function Delete(props: {
  readonly repo: string;
  readonly branch: string;
  readonly chosen: readonly string[];
  onClose(): void;
  onDone(): void;
}) {
  const { repo, branch, chosen } = props;
  const [done, setDone] = useState(0);
  const folders = chosen.filter((path) => path.endsWith("/")).length;
  const submit = async () => {
    const result = await deleteAll(repo, branch, chosen, setDone);
    const [first] = result.errors;
    if (first) {
      complain(
        `${count(result.errors.length, "object was", "objects were")} not deleted: ${first.message}`,
      );
    } else {
      say(
        `${count(result.done, "object is", "objects are")} deleted on ${branch}, not yet committed.`,
      );
    }
    props.onDone();
  };
  return (
    <Dialog title={`Delete from ${branch}`} onClose={props.onClose}>
      <Form action="Delete" danger submit={submit} onCancel={props.onClose}>
        <p>
          {count(chosen.length - folders, "object")}
          {folders > 0 && ` and everything in ${count(folders, "folder")}`}. Until you commit, a
          reset brings them back; after that, an undo of the commit does.
        </p>
        <ul class="paths">
          {chosen.slice(0, 8).map((path) => (
            <li key={path}>
              <code>{visible(path)}</code>
            </li>
          ))}
          {chosen.length > 8 && <li>and {chosen.length - 8} more</li>}
        </ul>
        {done > 0 && <p role="status">{done.toLocaleString("en")} deleted so far</p>}
      </Form>
    </Dialog>
  );
}

function Uploader(props: { repo: string; branch: string; folder: string; off: string }) {
  const { repo, branch, folder, off } = props;
  const picker = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const begin = (files: ReadonlyArray<{ path: string; file: File }>) =>
    upload(
      repo,
      branch,
      files.map(({ path, file }) => ({ path: folder + path, file })),
    );
  useEffect(() => {
    if (off) return;
    const drag = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(event.type === "dragover");
    };
    const drop = async (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(false);
      begin(await dropped(event.dataTransfer));
    };
    addEventListener("dragover", drag);
    addEventListener("dragleave", drag);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", drag);
      removeEventListener("dragleave", drag);
      removeEventListener("drop", drop);
    };
  });
  return (
    <>
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label="Files to upload"
        onInput={(event) => {
          const files = [...(event.currentTarget.files ?? [])];
          begin(files.map((file) => ({ path: file.name, file })));
          event.currentTarget.value = "";
        }}
      />
      <Button kind="primary" icon="upload" off={off} onClick={() => picker.current?.click()}>
        Upload
      </Button>
      {over && (
        <div class="drop" aria-hidden="true">
          Drop files to upload them to {visible(folder || repo)} on {visible(branch)}
        </div>
      )}
    </>
  );
}

function NoObjects(props: {
  readonly repo: string;
  readonly branch: string;
  readonly folder: string;
  readonly path: string;
  readonly off: string;
}) {
  const { repo, branch, folder, path, off } = props;
  if (path !== folder) {
    return (
      <Empty
        icon="search"
        title={`No name here begins with “${visible(path.slice(folder.length))}”`}
      />
    );
  }
  const target = addressOf({ repo, ref: branch, path: folder });
  if (off) return <Empty icon="folder" title="Nothing is here at this ref" />;
  return (
    <Empty
      icon="upload"
      title={folder ? "This folder is empty" : "This branch is empty"}
      command={sh`graveler cp FILE ${target}`}
    >
      <p>Drop files or folders anywhere on this page, or use the button “Upload”.</p>
    </Empty>
  );
}
