/** The tabs of a repository, in their order; the palette offers them too. */
import type { IconName } from "../parts/icons";

export interface Tab {
  readonly page: string;
  readonly text: string;
  readonly icon: IconName;
  /** Pressed after `g`. */
  readonly key: string;
  /** Whether the ref of this page is kept. */
  readonly keepsRef?: boolean;
}

export const TABS: readonly Tab[] = [
  { page: "objects", text: "Objects", icon: "folder", key: "o", keepsRef: true },
  { page: "changes", text: "Changes", icon: "plus", key: "u", keepsRef: true },
  { page: "commits", text: "Commits", icon: "commit", key: "c", keepsRef: true },
  { page: "branches", text: "Branches", icon: "branch", key: "b" },
  { page: "tags", text: "Tags", icon: "tag", key: "t" },
  { page: "compare", text: "Compare", icon: "compare", key: "d" },
  { page: "pulls", text: "Pull requests", icon: "pull", key: "p" },
  { page: "actions", text: "Actions", icon: "play", key: "a" },
  { page: "jobs", text: "Jobs", icon: "job", key: "j" },
  { page: "storage", text: "Storage", icon: "storage", key: "m", keepsRef: true },
  { page: "settings", text: "Settings", icon: "settings", key: "s" },
];
