/** The audit trail: who changed what, or was denied. */
import { useState } from "preact/hooks";
import { type AuditLine, api } from "../../api/client";
import { useLoad } from "../../api/load";
import { change, fill, href, query } from "../../app/router";
import { Button, Copy } from "../../parts/button";
import { Time } from "../../parts/facts";
import { Choice, Field } from "../../parts/form";
import { Page } from "../../parts/page";
import { inDirectory, inLake } from "../../parts/rights";
import { AccessSections } from "../../parts/sections";
import { Empty, Show } from "../../parts/states";
import { sh, visible } from "../../parts/text";

type Outcome = AuditLine["outcome"];

const AMOUNT = 1_000;
/** The service answers the oldest lines first, and a reader wants the newest. */
const PAGES_MAX = 5;
const SHOWN = 100;
const PERIODS = [
  ["1", "the last hour"],
  ["", "the last day"],
  ["168", "the last week"],
  ["720", "the last 30 days"],
] as const;
const OUTCOMES = [
  ["", "any"],
  ["done", "done"],
  ["denied", "denied"],
  ["failed", "failed"],
  ["unknown", "unknown"],
] as const;
const TEXTS = ["user", "operation", "resource"] as const;

interface Trail {
  /** The newest first. */
  readonly lines: readonly AuditLine[];
  readonly complete: boolean;
}

type Asked = Readonly<Record<string, string>> & { readonly outcome: Outcome | "" };

async function trail(asked: Asked, hours: number, signal: AbortSignal): Promise<Trail> {
  const lines: AuditLine[] = [];
  const since = new Date(Date.now() - hours * 3_600_000).toISOString();
  const question = { ...asked, resource: arn(asked.resource ?? ""), since, amount: AMOUNT };
  let after = "";
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await api("GET /audit", {}, { query: { ...question, after }, signal });
    lines.push(...answer.results);
    after = answer.pagination.next_offset;
    if (!answer.pagination.has_more) break;
    if (page === PAGES_MAX - 1) return { lines: lines.reverse(), complete: false };
  }
  return { lines: lines.reverse(), complete: true };
}

/** The beginning of the names of resources that a text stands for. */
function arn(text: string): string {
  if (!text || text === "*" || text.startsWith("arn:")) return text;
  return /^(user|group|policy)\//.test(text) ? inDirectory(text) : inLake(text);
}

export function Audit() {
  const field = (name: string) => query.value.get(name) ?? "";
  const texts = Object.fromEntries(TEXTS.map((name) => [name, field(name)]));
  const asked: Asked = { ...texts, outcome: field("outcome") as Outcome | "" };
  const hours = field("hours");
  const loaded = useLoad(`audit ${JSON.stringify([asked, hours])}`, (signal) =>
    trail(asked, Number(hours) || 24, signal),
  );
  const submit = (event: Event) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    change(Object.fromEntries(TEXTS.map((name) => [name, String(data.get(name) ?? "").trim()])));
  };
  return (
    <Page title="Audit" command={command(asked)}>
      <AccessSections at="Audit" />
      <form class="filters" onSubmit={submit} key={JSON.stringify(texts)}>
        <Field label="User" name="user" value={texts.user} />
        <Field label="Operation" name="operation" value={texts.operation} />
        <Field label="Resource begins with" name="resource" value={texts.resource} />
        <Choice
          label="Outcome"
          name="outcome"
          value={asked.outcome}
          options={OUTCOMES}
          onInput={(outcome) => change({ outcome })}
        />
        <Choice
          label="Time"
          name="hours"
          value={hours}
          options={PERIODS}
          onInput={(value) => change({ hours: value })}
        />
        <Button type="submit" icon="search">
          Find
        </Button>
      </form>
      <Show of={loaded}>
        {(found) =>
          found.lines.length ? (
            <Found of={found} key={`${JSON.stringify(asked)} ${hours}`} />
          ) : (
            <Empty icon="history" title="No line" command="graveler audit -n 20">
              <p>Every change and every denial has a line. Reads that are allowed have none.</p>
            </Empty>
          )
        }
      </Show>
    </Page>
  );
}

function Found({ of }: { of: Trail }) {
  const [shown, setShown] = useState(SHOWN);
  return (
    <>
      {!of.complete && (
        <p class="banner">
          These are the first {of.lines.length.toLocaleString("en")} lines of this time. Newer ones
          are not shown: choose a shorter time or a filter.
        </p>
      )}
      <Lines of={of.lines.slice(0, shown)} />
      {of.lines.length > shown && (
        <p class="pager">
          <Button onClick={() => setShown(shown + SHOWN)}>More</Button>
        </p>
      )}
    </>
  );
}

function command(asked: Asked): string {
  const parts = ["graveler audit -n 100"];
  if (asked.user) parts.push(sh`--user ${asked.user}`);
  if (asked.operation) parts.push(sh`--action ${asked.operation}`);
  if (asked.resource) parts.push(sh`--resource ${arn(asked.resource)}`);
  if (asked.outcome) parts.push(sh`--outcome ${asked.outcome}`);
  return parts.join(" ");
}

const TONES: Record<Outcome, string> = { done: "good", denied: "bad", failed: "bad", unknown: "" };

function Lines({ of }: { of: readonly AuditLine[] }) {
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Time</th>
          <th scope="col" class="wide-only">
            User
          </th>
          <th scope="col">Operation</th>
          <th scope="col">Outcome</th>
          <th scope="col" class="wide-only">
            From
          </th>
          <th scope="col" class="wide-only">
            <span class="hidden">Request</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {of.map((line, at) => (
          <tr key={`${line.request_id} ${at}`} data-row>
            <td class="faint">
              <Time at={Date.parse(line.time) / 1000} />
            </td>
            <td class="wide-only">
              <User id={line.user} />
            </td>
            <td>
              <div class="narrow-only">
                <User id={line.user} />
              </div>
              {visible(line.operation)}
              {line.resources.map((resource) => (
                <div key={resource} class="faint">
                  {visible(shortened(resource))}
                </div>
              ))}
            </td>
            <td>
              <span class={`badge flat ${TONES[line.outcome]}`}>
                {line.outcome} {line.status || ""}
              </span>
              {line.missing && line.user && <Why line={line} />}
            </td>
            <td class="wide-only faint">{visible(line.address)}</td>
            <td class="wide-only">
              <Copy text={line.request_id} label="Copy the request id" />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function User({ id }: { id: string }) {
  if (!id) return <span class="faint">unknown</span>;
  return <a href={href(fill("/auth/users/{id}", { id }))}>{visible(id)}</a>;
}

/** From a denial to the statement that decided. */
function Why({ line }: { line: AuditLine }) {
  const [action = "", resource = ""] = line.missing.split(/ on (.*)/s);
  const page = fill("/auth/users/{id}/policies/effective", { id: line.user });
  return (
    <div>
      <a href={href(page, { action, resource })} title={visible(line.missing)}>
        Why denied?
      </a>
    </div>
  );
}

/** What differs in the names of resources. */
function shortened(resource: string): string {
  return resource.replace(/^arn:lakefs:\w+:::/, "");
}
