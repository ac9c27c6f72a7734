/** The frame around all pages: bar, tabs of the repository, messages, dialogs of the keyboard. */
import { signal } from "@preact/signals";
import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { asError } from "../api/load";
import { Button } from "../parts/button";
import { Dialog } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { Empty, ErrorBox, Skeleton } from "../parts/states";
import { visible } from "../parts/text";
import { UploadPanel } from "../parts/uploads";
import { dialogShown, keysNow, singleKeys, switchSingleKeys, useKeys } from "./keyboard";
import { Palette } from "./palette";
import { go, href, inRepository, path, query } from "./router";
import { decoded, find, match, type Params, type Route, type View } from "./routes";
import { logOut, user } from "./session";
import { TABS } from "./tabs";
import { nextTheme, theme } from "./theme";
import { dismiss, toasts } from "./toasts";

/** The repository that is shown; empty elsewhere. */
function repositoryShown(): string {
  const [, first, repo] = path.value.split("/");
  return first === "repositories" && repo ? decoded(repo) : "";
}

export function App() {
  const entry = ["/auth/login", "/login", "/setup"].includes(path.value);
  const repo = repositoryShown();
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        To the content
      </button>
      {!entry && <TopBar repo={repo} />}
      {repo && <Tabs repo={repo} key={repo} />}
      <Boundary key={path.value}>
        <Content />
      </Boundary>
      <UploadPanel />
      <Toasts />
      {dialogShown.value === "palette" && <Palette repo={repo} />}
      {dialogShown.value === "keys" && <KeysHelp />}
    </>
  );
}

function skip(): void {
  document.querySelector<HTMLElement>("h1")?.focus();
}

function TopBar({ repo }: { repo: string }) {
  const shown = theme.value;
  const icon = shown === "light" ? "sun" : shown === "dark" ? "moon" : "half";
  return (
    <header class="top">
      <a class="brand" href={href("/repositories")} aria-label="Graveler: repositories">
        <Logo />
        <span>Graveler</span>
      </a>
      {repo && (
        <>
          <span class="faint" aria-hidden="true">
            /
          </span>
          <a class="repo-name" href={inRepository(repo, "objects")}>
            {visible(repo)}
          </a>
        </>
      )}
      <span class="space" />
      <button
        type="button"
        class="search-button"
        aria-label="Go to… Ctrl K"
        onClick={() => (dialogShown.value = "palette")}
      >
        <Icon name="search" />
        <span>Go to…</span>
        <kbd>Ctrl K</kbd>
      </button>
      <Button kind="quiet" icon={icon} label={`Theme: ${shown}`} onClick={nextTheme} />
      <UserMenu />
    </header>
  );
}

function Logo() {
  return (
    <svg class="logo" viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
      <rect width="16" height="16" rx="4" />
      <path d="M5 3.5v9M5 9c0-3 6-1 6-5" />
      <circle cx="5" cy="12" r="1.9" />
      <circle cx="11" cy="4" r="1.9" />
    </svg>
  );
}

function UserMenu() {
  const who = user.value;
  if (!who) return null;
  return (
    <details class="menu">
      <summary class="button quiet" aria-label={`User ${visible(who.id)}`}>
        <Icon name="user" />
        <span class="wide-only">{visible(who.id)}</span>
      </summary>
      <div class="menu-list">
        <p class="faint">{visible(who.email || who.id)}</p>
        <button type="button" onClick={() => (dialogShown.value = "keys")}>
          Keyboard
        </button>
        <a href={href("/auth/credentials")}>My access</a>
        <a href={href("/auth/users")}>Users and rights</a>
        <a href={href("/docs")}>Reference of the API</a>
        <button type="button" onClick={() => void logOut()}>
          Log out
        </button>
      </div>
    </details>
  );
}

function Tabs({ repo }: { repo: string }) {
  const ref = query.value.get("ref") ?? "";
  const current =
    match("/repositories/{repo}/{page}", path.value)?.page ?? path.value.split("/")[3];
  const shown = query.value.get("showChanges") ? "changes" : (current ?? "objects");
  const link = (page: string) => {
    const keepsRef = TABS.some((tab) => tab.page === page && tab.keepsRef);
    return inRepository(repo, page, keepsRef ? { ref } : {});
  };
  useKeys(
    TABS.map(({ page, text, key }) => ({
      key: `g ${key}`,
      text: `Go to ${text.toLowerCase()}`,
      act: () => go(link(page)),
    })),
  );
  const bar = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page has another tab
  useEffect(() => {
    const tab = bar.current?.querySelector<HTMLElement>("[aria-current]");
    if (tab) bar.current?.scrollTo({ left: tab.offsetLeft - 40 });
  }, [shown]);
  return (
    <nav class="tabs" aria-label="Repository" ref={bar}>
      {TABS.map(({ page, text, icon }) => {
        const here = page === shown || (page === "objects" && shown === "object");
        return (
          <a key={page} href={link(page)} aria-current={here ? "page" : undefined}>
            <Icon name={icon} />
            {text}
          </a>
        );
      })}
    </nav>
  );
}

const loadedViews = signal(new Map<string, View>());

function Content() {
  const found = find(path.value, query.value);
  if (!found) {
    return (
      <main class="page narrow">
        <h1 tabIndex={-1}>This page does not exist</h1>
        <Empty title="No page has this address.">
          <a href={href("/repositories")}>To the repositories</a>
        </Empty>
      </main>
    );
  }
  const [route, params] = found;
  return <Routed route={route} params={params} />;
}

function Routed({ route, params }: { route: Route; params: Params }) {
  const id = `${route.path} ${route.query ?? ""}`;
  const View = route.view ?? loadedViews.value.get(id);
  const [failed, setFailed] = useState<unknown>();
  useEffect(() => {
    if (View || !route.load) return;
    route.load().then(
      (view) => {
        loadedViews.value = new Map(loadedViews.value).set(id, view);
      },
      (error: unknown) => setFailed(error),
    );
  }, [id, View, route]);
  if (failed) return <OldPage />;
  if (!View) {
    return (
      <main class="page">
        <Skeleton />
      </main>
    );
  }
  return <View params={params} />;
}

/** A file of the page is gone: the service has a newer page. */
function OldPage() {
  return (
    <main class="page narrow">
      <h1 tabIndex={-1}>This page is older than the service</h1>
      <Empty title="The service was updated, or cannot be reached.">
        <Button kind="primary" onClick={() => location.reload()}>
          Load the page again
        </Button>
      </Empty>
    </main>
  );
}

/** Not of the connection, so that the remedy is another one. */
function ownError(error: unknown): ApiError {
  return new ApiError(-1, asError(error).message);
}

/** An error in the page itself never leaves an empty window. */
class Boundary extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ error });
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <main class="page narrow">
        <h1 tabIndex={-1}>The page failed</h1>
        <ErrorBox error={ownError(this.state.error)} retry={() => location.reload()} />
      </main>
    );
  }
}

function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={toast.isError ? "toast bad" : "toast"}>
          <span>{visible(toast.text)}</span>
          {toast.link && <a href={toast.link.href}>{toast.link.text}</a>}
          <Button kind="quiet" icon="close" label="Dismiss" onClick={() => dismiss(toast.id)} />
        </div>
      ))}
    </div>
  );
}

const ALWAYS: ReadonlyArray<readonly [string, string]> = [
  ["Ctrl K", "Go to a repository, a page, or a pasted lakefs:// address"],
  ["/", "Filter the list"],
  ["j k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["?", "This list"],
];

function KeysHelp() {
  const close = () => {
    dialogShown.value = "";
  };
  return (
    <Dialog title="Keyboard" onClose={close}>
      <table class="keys">
        <tbody>
          {[...ALWAYS, ...keysNow().map((key) => [key.key, key.text] as const)].map(
            ([key, text]) => (
              <tr key={key}>
                <th scope="row">
                  <kbd>{key}</kbd>
                </th>
                <td>{text}</td>
              </tr>
            ),
          )}
        </tbody>
      </table>
      <label class="check">
        <input
          type="checkbox"
          checked={singleKeys.value}
          onInput={(event) => switchSingleKeys(event.currentTarget.checked)}
        />
        <span>Single keys work (Ctrl K always does)</span>
      </label>
    </Dialog>
  );
}
