/** The frame of a page: title, heading with its actions, footer with the command. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { spending } from "../api/client";
import { path } from "../app/router";
import { Command } from "./states";
import { count, dollars, visible } from "./text";

export interface PageProps {
  readonly title: string;
  readonly heading?: ComponentChildren;
  readonly actions?: ComponentChildren;
  /** The command that does or shows the same. */
  readonly command?: string;
  readonly narrow?: boolean;
  readonly children: ComponentChildren;
}

let shownPath = "";

/** Navigation moves the focus to the heading, so that a screen reader reads it. */
export function Page({ title, heading, actions, command, narrow, children }: PageProps) {
  const element = useRef<HTMLHeadingElement>(null);
  const here = path.value;
  useEffect(() => {
    document.title = `${visible(title)} · Graveler`;
  }, [title]);
  useEffect(() => {
    // Another folder has the same path; the link that led to it is gone, and the focus with it.
    const isLost = document.activeElement === document.body;
    if (shownPath && (shownPath !== here || isLost))
      element.current?.focus({ preventScroll: true });
    shownPath = here;
  }, [here, title]);
  return (
    <main class={narrow ? "page narrow" : "page"}>
      <div class="heading">
        <h1 ref={element} tabIndex={-1}>
          {heading ?? visible(title)}
        </h1>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {children}
      {command && (
        <footer class="page-footer">
          <span class="faint">In a terminal</span>
          <Command text={command} />
          <span class="space" />
          <Cost />
        </footer>
      )}
    </main>
  );
}

/** What the page has asked of the service so far, and what that costs. */
function Cost() {
  const { count: requests, dollars: sum } = spending();
  const prices = "List prices of AWS, before free allowances. ";
  return (
    <span class="faint" title={`${sum ? prices : ""}So many requests did this page need so far.`}>
      {count(requests, "request")}
      {sum > 0 && `, about ${dollars(sum)}`}
    </span>
  );
}
