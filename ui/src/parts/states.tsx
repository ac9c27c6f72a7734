/** The states of a page: loading, empty, error, content. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import type { Loaded } from "../api/load";
import { remedy } from "../app/errors";
import { inRepository } from "../app/router";
import { Button, Copy } from "./button";
import { Icon, type IconName } from "./icons";
import { visible } from "./text";

/** Grey lines, after 150 ms. */
export function Skeleton({ rows = 6 }: { rows?: number }) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={shown ? "skeleton shown" : "skeleton"} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        <div key={at} />
      ))}
    </div>
  );
}

export function ErrorBox({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="error" role="alert">
      <Icon name="warning" />
      <div>
        <strong>{visible(error.message)}</strong>
        <p>{remedy(error)}</p>
        <HookLog error={error} />
        {error.call && (
          <p class="faint">
            <code>{visible(decoded(error.call))}</code>
          </p>
        )}
        {error.requestId && (
          <p class="faint">
            request id <code>{error.requestId}</code>
            <Copy text={error.requestId} label="Copy the request id" />
          </p>
        )}
      </div>
      {retry && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}

/** A hook refused: the way to its log. */
function HookLog({ error }: { error: ApiError }) {
  const run = /run id '(\w+)'/.exec(error.message)?.[1];
  const repo = /^\S+ \/repositories\/([^/]+)/.exec(error.call)?.[1];
  if (!run || !repo) return null;
  return (
    <p>
      <a href={inRepository(decoded(repo), `actions/${run}`)}>Read the log of the hook</a>
    </p>
  );
}

function decoded(call: string): string {
  try {
    return decodeURIComponent(call);
  } catch {
    return call;
  }
}

/** Nothing is here: the next step, and its command. */
export function Empty(props: {
  readonly icon?: IconName;
  readonly title: string;
  readonly children?: ComponentChildren;
  readonly command?: string;
}) {
  return (
    <div class="empty">
      {props.icon && <Icon name={props.icon} />}
      <h2>{props.title}</h2>
      {props.children}
      {props.command && <Command text={props.command} />}
    </div>
  );
}

/** The command that does or shows the same. */
export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <code title={text}>{visible(text)}</code>
      <Copy text={text} label="Copy the command" />
    </div>
  );
}

/** The content of a load, or the state that it is in. */
export function Show<T>(props: {
  readonly of: Loaded<T>;
  readonly rows?: number;
  readonly children: (data: T) => ComponentChildren;
}) {
  const { of, rows, children } = props;
  if (of.error) return <ErrorBox error={of.error} retry={of.reload} />;
  if (of.data === undefined) return <Skeleton {...(rows !== undefined && { rows })} />;
  return <div class={of.busy ? "stale" : undefined}>{children(of.data)}</div>;
}
