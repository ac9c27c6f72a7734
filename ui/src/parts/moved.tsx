/** Branches move: a banner says that one did, and never replaces what somebody reads; the commit that
 * is shown can be pinned. */
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { change, query } from "../app/router";
import { Button } from "./button";
import { visible } from "./text";

const EVERY_MS = 30_000;

/** Name the commit in the address instead of a branch or tag.  `shown`: empty if it is not known yet;
 * the key may be faster than the answer. */
export async function pin(repo: string, ref: string, shown: string | undefined): Promise<void> {
  const place = { repository: repo, ref };
  const id = shown ?? (await api("GET /repositories/{repository}/refs/{ref}", place)).commit_id;
  if ((query.value.get("ref") ?? ref) === ref) change({ ref: id });
}

interface Props {
  readonly repo: string;
  readonly ref_: string;
  /** The commit that is shown; empty: not known yet. */
  readonly shown: string | undefined;
  onShow(): void;
}

export function Moved({ repo, ref_: ref, shown, onShow }: Props) {
  const [now, setNow] = useState("");
  useEffect(() => {
    setNow("");
    if (!shown || shown.startsWith(ref)) return; // a commit never moves
    const stop = new AbortController();
    const look = async () => {
      if (document.hidden) return;
      try {
        const place = { repository: repo, ref };
        const { signal } = stop;
        const named = await api("GET /repositories/{repository}/refs/{ref}", place, { signal });
        if (named.type === "branch") setNow(named.commit_id);
      } catch {
        // The next look may have an answer.
      }
    };
    const timer = setInterval(look, EVERY_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      stop.abort();
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [repo, ref, shown]);
  if (!now || now === shown) return null;
  return (
    <p class="banner" role="status">
      <span>
        <strong>{visible(ref)}</strong> has a new commit, which is not shown yet.
      </span>
      <Button onClick={onShow}>Show it</Button>
    </p>
  );
}
