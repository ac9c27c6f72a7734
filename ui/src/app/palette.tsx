/** Ctrl-K: go to a repository, a page of this repository, or a pasted lakefs:// address. */
import { useLayoutEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { useLoad } from "../api/load";
import { Dialog } from "../parts/dialog";
import { Icon, type IconName } from "../parts/icons";
import { visible } from "../parts/text";
import { dialogShown } from "./keyboard";
import { go, href, inRepository, query } from "./router";
import { TABS } from "./tabs";

interface Target {
  readonly icon: IconName;
  readonly text: string;
  readonly note: string;
  readonly href: string;
}

/** The page of a lakefs:// address; undefined for any other text. */
export function pageOfAddress(text: string): string | undefined {
  const found = /^(?:lakefs|s3a?):\/\/([^/]+)(?:\/([^/]+)(?:\/(.*))?)?$/s.exec(text.trim());
  if (!found) return undefined;
  const [, repo = "", ref, path] = found;
  if (!ref) return inRepository(repo, "objects");
  if (path && !path.endsWith("/")) return inRepository(repo, "object", { ref, path });
  return inRepository(repo, "objects", { ref, path });
}

function pages(repo: string): Target[] {
  const ref = query.value.get("ref") ?? "";
  const all: Target[] = [
    { icon: "repository", text: "Repositories", note: "", href: href("/repositories") },
  ];
  if (!repo) return all;
  return [
    ...TABS.map(({ icon, text, page, keepsRef }) => ({
      icon,
      text,
      note: repo,
      href: inRepository(repo, page, keepsRef ? { ref } : {}),
    })),
    ...all,
  ];
}

export function Palette({ repo }: { repo: string }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  // Enter was pressed before the names of this text came.
  const [isEntered, setEntered] = useState(false);
  const found = useLoad(`palette ${text}`, (signal) =>
    api("GET /repositories", {}, { query: { search: text, amount: 8 }, signal }),
  );
  const close = () => {
    dialogShown.value = "";
  };
  const names = (found.data?.results ?? []).map((each) => each.id);
  const targets = matching(text, repo, names);
  const open = (target: Target | undefined) => {
    if (!target) return;
    close();
    go(target.href);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, targets.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter") setEntered(true);
    else return;
    event.preventDefault();
  };
  // A fast reader presses Enter before what was typed is drawn: it opens what is drawn then.
  useLayoutEffect(() => {
    if (!isEntered || (!targets.length && found.busy)) return;
    setEntered(false);
    open(targets[at]);
  });
  return (
    <Dialog title="Go to" onClose={close}>
      <input
        type="text"
        data-focus
        role="combobox"
        list={undefined}
        aria-label="Name of a repository or page, or a lakefs:// address"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={targets.length ? `palette-${at}` : undefined}
        placeholder="Name, or lakefs://repository/ref/path"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
          setEntered(false);
        }}
        onKeyDown={press}
      />
      <div class="choices" id="palette-list" role="listbox" aria-label="Targets">
        {targets.map((target, number) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
          // biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus
          <div
            key={target.href}
            id={`palette-${number}`}
            role="option"
            aria-selected={number === at}
            class="choice"
            onClick={() => open(target)}
          >
            <Icon name={target.icon} />
            <span>{visible(target.text)}</span>
            <span class="faint">{visible(target.note)}</span>
          </div>
        ))}
        {!targets.length && <p class="faint">Nothing has this name.</p>}
      </div>
    </Dialog>
  );
}

function matching(text: string, repo: string, names: readonly string[]): Target[] {
  const address = pageOfAddress(text);
  if (address) return [{ icon: "right", text: text.trim(), note: "open", href: address }];
  const low = text.trim().toLowerCase();
  return [
    ...pages(repo).filter((target) => target.text.toLowerCase().includes(low)),
    ...names.map((name) => ({
      icon: "repository" as const,
      text: name,
      note: "repository",
      href: inRepository(name, "objects"),
    })),
  ].slice(0, 12);
}
