/** What the user may do.  A page asks once, so that no button of it is answered with 403. */
import { api } from "../api/client";
import { useLoad } from "../api/load";

/** An action, and the resource that it concerns; `some`: anything that begins with it. */
export type Pair = readonly [action: string, resource: string, some?: "some"];

const PAIRS_MAX = 50;
/** Why nothing is possible until the service has answered. */
export const ASKING = "your rights are being looked up";

export const inLake = (path: string): string => `arn:lakefs:fs:::${path}`;
export const repositoryArn = (repo: string): string => inLake(`repository/${repo}`);
export const inDirectory = (path: string): string => `arn:lakefs:auth:::${path}`;

/**
 * Why an action is impossible; empty: it is possible.  Pairs beyond the 50 that the service answers
 * at once, and all pairs if it does not answer, count as possible: the service decides anyway.
 */
export function useRights(pairs: readonly Pair[]): (action: string, resource?: string) => string {
  const asked = pairs.slice(0, PAIRS_MAX);
  const key = asked.length ? `rights ${JSON.stringify(asked)}` : "";
  const loaded = useLoad(key, (signal) =>
    api(
      "POST /auth/may-i",
      {},
      {
        body: {
          pairs: asked.map(([action, resource, some]) => ({ action, resource, some: !!some })),
        },
        signal,
      },
    ),
  );
  return (action, resource) => {
    const at = asked.findIndex(
      ([name, on]) => name === action && (resource === undefined || on === resource),
    );
    if (at < 0 || loaded.error) return "";
    if (!loaded.data) return ASKING;
    const right = loaded.data.results[at];
    return right && !right.allowed ? `it needs ${right.action} on ${right.resource}` : "";
  };
}
