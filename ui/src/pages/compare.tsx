/** Two refs side by side: what differs, what a merge would do, conflicts, the merge. */
import { useState } from "preact/hooks";
import { api, type ConflictVersions, type MergePreview, type ObjectStats } from "../api/client";
import { type Loaded, useLoad } from "../api/load";
import { change, go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { Button, ButtonLink } from "../parts/button";
import { between, DiffTree } from "../parts/difftree";
import { Time, Totals } from "../parts/facts";
import { Form } from "../parts/form";
import { MessageFields, metadataOf } from "../parts/message";
import { Moved } from "../parts/moved";
import { Page } from "../parts/page";
import { RefPicker, useRefOrDefault } from "../parts/refs";
import { repositoryArn, useRights } from "../parts/rights";
import { Empty, Failure } from "../parts/states";
import { count, sh, size, visible } from "../parts/text";

/** As many conflicts are listed. */
const SHOWN = 200;

type Side = "source" | "dest";
type Chosen = Readonly<Record<string, Side>>;

export function Compare({ params }: { params: Params }) {
  const repo = params.repo ?? "";
  const asked = query.value.get("ref") ?? "";
  const compare = query.value.get("compare") ?? "";
  const [base, about] = useRefOrDefault(repo, asked);
  const ready = base && compare && base !== compare;
  const [turn, setTurn] = useState(0);
  return (
    <Page
      title="Compare"
      command={ready ? sh`graveler diff ${repo}/${base} ${repo}/${compare}` : undefined}
    >
      <div class="toolbar">
        <RefPicker repo={repo} value={base} label="Base" onPick={(ref) => change({ ref })} />
        <Button
          kind="quiet"
          icon="compare"
          label="Exchange the sides"
          off={compare ? "" : "choose what to compare"}
          onClick={() => change({ ref: compare, compare: base })}
        />
        <RefPicker
          repo={repo}
          value={compare}
          label="Compare"
          onPick={(ref) => change({ compare: ref })}
        />
      </div>
      <Failure of={about} />
      {ready ? (
        <Sides
          key={`${base} ${compare} ${turn}`}
          {...{ repo, base, compare }}
          again={() => setTurn(turn + 1)}
        />
      ) : (
        <Empty icon="compare" title="Choose two refs">
          <p>What the second one changed since their common commit is shown, and can be merged.</p>
        </Empty>
      )}
    </Page>
  );
}

interface SidesProps {
  readonly repo: string;
  readonly base: string;
  readonly compare: string;
  again(): void;
}

function Sides({ repo, base, compare, again }: SidesProps) {
  const [chosen, setChosen] = useState<Chosen>({});
  const named = useLoad(`ref ${repo} ${base}`, (signal) =>
    api("GET /repositories/{repository}/refs/{ref}", { repository: repo, ref: base }, { signal }),
  );
  const isBranch = named.data?.type === "branch";
  const preview = useLoad(isBranch ? `preview ${repo} ${base} ${compare}` : "", (signal) =>
    api(
      "GET /repositories/{repository}/refs/{sourceRef}/merge/{destinationBranch}/preview",
      { repository: repo, sourceRef: compare, destinationBranch: base },
      { query: { amount: 1000 }, signal },
    ),
  );
  return (
    <>
      <Moved repo={repo} ref_={base} shown={preview.data?.destination_commit_id} onShow={again} />
      <Moved repo={repo} ref_={compare} shown={preview.data?.source_commit_id} onShow={again} />
      {named.data && !isBranch && (
        <p class="banner calm">{visible(base)} is no branch: nothing can be merged into it.</p>
      )}
      {named.error && named.error.status !== 404 && <Failure of={named} />}
      {!named.error && (isBranch || !named.data) && (
        <Merging {...{ repo, base, compare, preview, chosen, setChosen }} />
      )}
      <div class={preview.data && !isEmpty(preview.data) ? "columns" : undefined}>
        <DiffTree
          of={between(repo, base, compare, "three_dot")}
          empty={
            <Empty
              icon="check"
              title={`${visible(compare)} has nothing that ${visible(base)} lacks`}
            />
          }
        />
        {preview.data && !isEmpty(preview.data) && (
          <MergeForm {...{ repo, base, compare, chosen }} open={openOf(preview.data, chosen)} />
        )}
      </div>
    </>
  );
}

const openOf = (preview: MergePreview, chosen: Chosen): number =>
  preview.results.filter((each) => !chosen[each.path]).length;

function isEmpty({ counts }: MergePreview): boolean {
  return counts.added + counts.changed + counts.removed + counts.conflict === 0;
}

interface MergingProps {
  readonly repo: string;
  readonly base: string;
  readonly compare: string;
  readonly preview: Loaded<MergePreview>;
  readonly chosen: Chosen;
  setChosen(chosen: Chosen): void;
}

/** Its banner stands before the counts are known, so that they move nothing when they come. */
function Merging({ repo, base, compare, preview, chosen, setChosen }: MergingProps) {
  const found = preview.data;
  const conflicts = found?.counts.conflict ?? 0;
  return (
    <section aria-label="What a merge changes" class="stack">
      <div class="banner calm">
        {found ? (
          <span>
            A merge into {visible(base)} changes
            {found.complete || conflicts ? "" : " at least"} <Totals {...found.counts} />
            {conflicts > 0 && (
              <>
                {" "}
                — <strong>{count(conflicts, "conflict")}</strong>, {openOf(found, chosen)} open
              </>
            )}
          </span>
        ) : (
          <span>A merge into {visible(base)} changes …</span>
        )}
        <span class="actions">
          <ButtonLink icon="pull" href={inRepository(repo, "pulls/create", { ref: base, compare })}>
            Pull request
          </ButtonLink>
        </span>
      </div>
      <Failure of={preview} />
      {found && found.results.length > 0 && (
        <Conflicts {...{ repo, base, compare, chosen, setChosen }} of={found.results} />
      )}
    </section>
  );
}

function Conflicts(props: {
  readonly repo: string;
  readonly base: string;
  readonly compare: string;
  readonly of: readonly ConflictVersions[];
  readonly chosen: Chosen;
  setChosen(chosen: Chosen): void;
}) {
  const { repo, base, compare, of, chosen, setChosen } = props;
  const all = (side: Side) => setChosen(Object.fromEntries(of.map((each) => [each.path, side])));
  return (
    <div class="conflicts">
      <div class="heading">
        <h2>Conflicts: both sides changed these</h2>
        <div class="actions">
          <Button onClick={() => all("source")}>All from {visible(compare)}</Button>
          <Button onClick={() => all("dest")}>All from {visible(base)}</Button>
        </div>
      </div>
      {of.length > SHOWN && (
        <p class="note">
          The first {SHOWN} of {of.length.toLocaleString("en")} are listed. Take the others from one
          side, by a button above, and then choose here where it differs.
        </p>
      )}
      {of.slice(0, SHOWN).map((each) => (
        <fieldset key={each.path} class="resolution">
          <legend>
            <code>{visible(each.path)}</code>{" "}
            <a href={inRepository(repo, "compare", { ref: base, compare, file: each.path })}>
              Differences
            </a>
          </legend>
          <Version name="Common commit" of={each.base} none="not there" />
          {(["dest", "source"] as const).map((side) => (
            <label key={side} class="check">
              <input
                type="radio"
                name={`conflict ${each.path}`}
                checked={chosen[each.path] === side}
                onInput={() => setChosen({ ...chosen, [each.path]: side })}
              />
              <Version
                name={`Keep that of ${visible(side === "dest" ? base : compare)}`}
                of={side === "dest" ? each.destination : each.source}
              />
            </label>
          ))}
        </fieldset>
      ))}
    </div>
  );
}

function Version(props: { name: string; of: ObjectStats | undefined; none?: string }) {
  const { name, of, none = "deleted" } = props;
  return (
    <span class="version">
      <span>{name}</span>
      {of ? (
        <span class="faint">
          {size(of.size_bytes)}, <Time at={of.mtime} />
        </span>
      ) : (
        <span class="faint">{none}</span>
      )}
    </span>
  );
}

function MergeForm(props: {
  readonly repo: string;
  readonly base: string;
  readonly compare: string;
  readonly chosen: Chosen;
  /** Conflicts without a version. */
  readonly open: number;
}) {
  const { repo, base, compare, chosen, open } = props;
  const may = useRights([["fs:CreateCommit", repositoryArn(`${repo}/branch/${base}`)]]);
  const submit = async (fields: Record<string, string>) => {
    const made = await api(
      "POST /repositories/{repository}/refs/{sourceRef}/merge/{destinationBranch}",
      { repository: repo, sourceRef: compare, destinationBranch: base },
      {
        body: {
          message: fields.message ?? "",
          metadata: metadataOf(fields),
          ...(Object.keys(chosen).length > 0 && { resolutions: { ...chosen } }),
        },
      },
    );
    say(`${compare} is merged into ${base}.`, {
      href: inRepository(repo, `commits/${made.reference}`),
      text: "Look at it",
    });
    go(inRepository(repo, "objects", { ref: base }));
  };
  return (
    <section class="card" aria-label="Merge">
      <Form
        action={`Merge into ${base}`}
        off={open ? "choose a version for each conflict" : may("fs:CreateCommit")}
        submit={submit}
      >
        <MessageFields value={`Merge ${compare} into ${base}`} />
      </Form>
    </section>
  );
}
