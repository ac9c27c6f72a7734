/**
 * The pages: a new one is a module in `pages/` and a line here.
 *
 * The first route that fits is shown.  `{name}` stands for one part of the path; `query`: a field
 * that must be set.  The first pages are in the main file, the others are loaded when needed.
 */
import type { ComponentType } from "preact";
import { Objects } from "../pages/objects";
import { Repositories } from "../pages/repositories";

export type Params = Record<string, string>;
export type View = ComponentType<{ params: Params }>;

export interface Route {
  readonly path: string;
  readonly query?: string;
  readonly view?: View;
  readonly load?: () => Promise<View>;
}

const user = () => import("../pages/access").then((m) => m.UserPage);
const group = () => import("../pages/access").then((m) => m.GroupPage);
const R = "/repositories/{repo}";

export const routes: readonly Route[] = [
  { path: "/", view: Repositories },
  { path: "/repositories", view: Repositories },
  {
    path: `${R}/objects`,
    query: "showChanges",
    load: () => import("../pages/changes").then((m) => m.Changes),
  },
  { path: R, view: Objects },
  { path: `${R}/objects`, view: Objects },
  { path: `${R}/object`, load: () => import("../pages/file").then((m) => m.File) },
  { path: `${R}/changes`, load: () => import("../pages/changes").then((m) => m.Changes) },
  { path: `${R}/commits`, load: () => import("../pages/commits").then((m) => m.Commits) },
  { path: `${R}/commits/{id}`, load: () => import("../pages/commit").then((m) => m.CommitPage) },
  {
    path: `${R}/compare`,
    query: "file",
    load: () => import("../pages/filediff").then((m) => m.FileDiff),
  },
  { path: `${R}/compare`, load: () => import("../pages/compare").then((m) => m.Compare) },
  { path: `${R}/branches`, load: () => import("../pages/branches").then((m) => m.Branches) },
  { path: `${R}/tags`, load: () => import("../pages/tags").then((m) => m.Tags) },
  { path: `${R}/storage`, load: () => import("../pages/storage").then((m) => m.Storage) },
  { path: `${R}/settings`, load: () => import("../pages/settings").then((m) => m.General) },
  {
    path: `${R}/settings/general`,
    load: () => import("../pages/settings").then((m) => m.General),
  },
  {
    path: `${R}/settings/branches`,
    load: () => import("../pages/settings").then((m) => m.Protection),
  },
  {
    path: `${R}/settings/retention`,
    load: () => import("../pages/settings").then((m) => m.Retention),
  },
  {
    path: `${R}/settings/collection`,
    load: () => import("../pages/settings").then((m) => m.Collection),
  },
  {
    path: `${R}/settings/events`,
    load: () => import("../pages/settings").then((m) => m.Events),
  },
  { path: "/auth/users", load: () => import("../pages/access").then((m) => m.Users) },
  {
    path: "/auth/users/{id}/policies/effective",
    load: () => import("../pages/access").then((m) => m.Effective),
  },
  { path: "/auth/users/{id}", load: user },
  { path: "/auth/users/{id}/{part}", load: user },
  { path: "/auth/groups", load: () => import("../pages/access").then((m) => m.Groups) },
  { path: "/auth/groups/{id}", load: group },
  { path: "/auth/groups/{id}/{part}", load: group },
  {
    path: "/auth/policies",
    load: () => import("../pages/access").then((m) => m.Policies),
  },
  {
    path: "/auth/policies/{id}",
    load: () => import("../pages/access").then((m) => m.PolicyPage),
  },
  {
    path: "/auth/credentials",
    load: () => import("../pages/access").then((m) => m.Credentials),
  },
  { path: "/auth/audit", load: () => import("../pages/access").then((m) => m.Audit) },
  { path: `${R}/pulls`, load: () => import("../pages/pulls").then((m) => m.Pulls) },
  { path: `${R}/pulls/create`, load: () => import("../pages/pulls").then((m) => m.NewPull) },
  { path: `${R}/pulls/{id}`, load: () => import("../pages/pull").then((m) => m.Pull) },
  { path: `${R}/jobs`, load: () => import("../pages/jobs").then((m) => m.Jobs) },
  { path: `${R}/jobs/{id}`, load: () => import("../pages/job").then((m) => m.JobPage) },
  { path: `${R}/actions`, load: () => import("../pages/actions").then((m) => m.Actions) },
  { path: `${R}/actions/{run}`, load: () => import("../pages/run").then((m) => m.Run) },
  { path: "/auth/login", load: () => import("../pages/entry").then((m) => m.Login) },
  { path: "/login", load: () => import("../pages/entry").then((m) => m.Login) },
  { path: "/setup", load: () => import("../pages/entry").then((m) => m.Setup) },
];

/** The values of a template in a path; undefined if it does not fit. */
export function match(template: string, path: string): Params | undefined {
  const parts = path.replace(/\/$/, "").split("/");
  const wanted = template.replace(/\/$/, "").split("/");
  if (parts.length !== wanted.length) return undefined;
  const params: Params = {};
  for (const [at, part] of wanted.entries()) {
    const value = parts[at] ?? "";
    if (part.startsWith("{")) params[part.slice(1, -1)] = decoded(value);
    else if (part !== value) return undefined;
  }
  return params;
}

/** A part of a path, decoded where it can be. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The route of a place and the values of its path. */
export function find(path: string, query: URLSearchParams): [Route, Params] | undefined {
  for (const route of routes) {
    const params = match(route.path, path);
    if (params && (!route.query || query.get(route.query))) return [route, params];
  }
  return undefined;
}
