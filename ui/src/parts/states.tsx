/** The states of a page: loading, empty, error, content. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import type { Loaded } from "../api/load";
import { cause, logOf, remedy } from "../app/errors";
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
  const log = logOf(error.message);
  return (
    <div class="error" role="alert">
      <Icon name="warning" />
      <div>
        <strong>{visible(cause(error))}</strong>
        <p>{remedy(error)}</p>
        {log && (
          <p>
            <a class="button" href={log}>
              Read the log of the hook
            </a>
          </p>
        )}
        {error.call && (
          <p class="faint">
            <code>{visible(decoded(error.call))}</code>
          </p>
        )}
        {error.requestId && (
          <p class="faint">
            request id <code>{visible(error.requestId)}</code>
            <Copy text={error.requestId} label="Copy the request id" />
          </p>
        )}
      </div>
      {retry && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}

/** Why a load failed, if it did. */
export function Failure({ of }: { of: Loaded<unknown> }) {
  return of.error ? <ErrorBox error={of.error} retry={of.reload} /> : null;
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
      <h2>{visible(props.title)}</h2>
      {props.children}
      {props.command && <Command text={props.command} />}
    </div>
  );
}

/** The command that does or shows the same. */
export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <code title={visible(text)}>{visible(text)}</code>
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
  if (of.error) return <Failure of={of} />;
  if (of.data === undefined) return <Skeleton {...(rows !== undefined && { rows })} />;
  return <div class={of.busy ? "stale" : undefined}>{children(of.data)}</div>;
}
