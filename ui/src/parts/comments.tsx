/** Comments on a pull request, on an object of it, or on a row of the object. */
import { useState } from "preact/hooks";
import { api, type Comment } from "../api/client";
import { type Loaded, useLoad } from "../api/load";
import { change, inRepository, query } from "../app/router";
import { user } from "../app/session";
import { Button } from "./button";
import { Time } from "./facts";
import { Field, Form } from "./form";
import { Prose } from "./prose";
import { repositoryArn, useRights } from "./rights";
import { Show } from "./states";
import { visible } from "./text";

const COMMENTS = "/repositories/{repository}/pulls/{pull_request}/comments";
const PAGES_MAX = 10;

/** All comments on a pull request. */
export function useComments(repo: string, pull: string): Loaded<Comment[]> {
  return useLoad(pull && `comments ${repo} ${pull}`, async (signal) => {
    const found: Comment[] = [];
    let after = "";
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const place = { repository: repo, pull_request: pull };
      const part = await api(`GET ${COMMENTS}`, place, { query: { after }, signal });
      found.push(...part.results);
      after = part.pagination.next_offset;
      if (!after) break;
    }
    return found;
  });
}

interface Props {
  readonly repo: string;
  readonly pull: string;
  /** Links in a comment lead to files at this ref. */
  readonly ref_: string;
  /** Only those on this object. */
  readonly path?: string;
  readonly of: Loaded<Comment[]>;
  /** The page of an object that a comment is about. */
  link?(path: string): string;
}

export function Comments(props: Props) {
  const { repo, pull, path = "", of } = props;
  const may = useRights([["pr:WritePullRequest", repositoryArn(repo)]]);
  const off = may("pr:WritePullRequest");
  const row = path ? (query.value.get("row") ?? "") : "";
  const [turn, setTurn] = useState(0); // another one: an empty form
  const submit = async ({ text = "" }: Record<string, string>) => {
    const place = { repository: repo, pull_request: pull };
    await api(`POST ${COMMENTS}`, place, { body: { text, path, row } });
    setTurn(turn + 1);
    if (row) change({ row: undefined }, { replace: true });
    of.reload();
  };
  return (
    <section class="section comments" aria-label="Comments">
      <h2>Comments</h2>
      <Show of={of} rows={1}>
        {(all) =>
          all
            .filter((each) => !path || each.path === path)
            .map((each) => <One key={each.id} {...props} comment={each} off={off} />)
        }
      </Show>
      <Form key={turn} action="Comment" off={off} submit={submit}>
        {row && (
          <p class="about">
            On the row <code>{visible(row)}</code>
            <Button
              kind="quiet"
              icon="close"
              label="On the whole file"
              onClick={() => change({ row: undefined }, { replace: true })}
            />
          </p>
        )}
        <Field
          label={path ? "Comment on this file (Markdown)" : "Comment (Markdown)"}
          name="text"
          lines={3}
          required
        />
      </Form>
    </section>
  );
}

function One(props: Props & { comment: Comment; off: string }) {
  const { repo, pull, ref_: ref, path, of, link, comment, off } = props;
  const [editing, setEditing] = useState(false);
  const [open, setOpen] = useState(false);
  const isOwn = comment.user === user.value?.id;
  const update = async (body: { text?: string; resolved?: boolean }) => {
    const place = { repository: repo, pull_request: pull, comment: comment.id };
    await api(`PATCH ${COMMENTS}/{comment}`, place, { body });
    setEditing(false);
    of.reload();
  };
  const isShown = !comment.resolved || open;
  return (
    <article class="card comment" aria-label={`Comment ${comment.id}`}>
      <header>
        <strong>{visible(comment.author)}</strong>
        <span class="faint">
          <Time at={Date.parse(comment.creation_date) / 1000} />
          {comment.edit_date && ", edited"}
        </span>
        {!path && comment.path && (
          <a
            href={link?.(comment.path) ?? inRepository(repo, "object", { ref, path: comment.path })}
          >
            {visible(comment.path)}
          </a>
        )}
        {comment.row && (
          <span>
            row <code>{visible(comment.row)}</code>
          </span>
        )}
        {comment.resolved && (
          <span class="badge good">resolved by {visible(comment.resolved_by ?? "")}</span>
        )}
        <span class="space" />
        <span class="actions">
          {comment.resolved && (
            <Button kind="quiet" onClick={() => setOpen(!open)}>
              {open ? "Hide" : "Show"}
            </Button>
          )}
          {isOwn && isShown && !editing && (
            <Button kind="quiet" off={off} onClick={() => setEditing(true)}>
              Edit
            </Button>
          )}
          <Button kind="quiet" off={off} onClick={() => update({ resolved: !comment.resolved })}>
            {comment.resolved ? "Open again" : "Resolve"}
          </Button>
        </span>
      </header>
      {isShown && !editing && <Prose text={comment.text} place={{ repo, ref, path: "" }} />}
      {editing && (
        <Form
          action="Save"
          submit={({ text = "" }) => update({ text })}
          onCancel={() => setEditing(false)}
        >
          <Field label="Text" name="text" lines={3} value={comment.text} required focus />
        </Form>
      )}
    </article>
  );
}
