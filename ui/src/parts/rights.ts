/** What the user may do.  A page asks once, so that no button of it is answered with 403. */
import { api, type Operations } from "../api/client";
import { useLoad } from "../api/load";

/** An action, and the resource that it concerns; `some`: anything that begins with it. */
export type Pair = readonly [action: string, resource: string, some?: "some"];

const PAIRS_MAX = 50;
/** Why nothing is possible until the service has answered. */
export const ASKING = "the service is being asked";

export const inLake = (path: string): string => `arn:lakefs:fs:::${path}`;
export const repositoryArn = (repo: string): string => inLake(`repository/${repo}`);
export const inDirectory = (path: string): string => `arn:lakefs:auth:::${path}`;

interface Batch {
  readonly pairs: Pair[];
  readonly answer: Promise<MayIAnswer>;
}

type MayIAnswer = Operations["POST /auth/may-i"]["answer"];

let next: Batch | undefined;

/** The answers to some pairs.  What the parts of a page ask at once is one request. */
async function ask(pairs: readonly Pair[]): Promise<MayIAnswer["results"]> {
  if (!next || next.pairs.length + pairs.length > PAIRS_MAX) next = batch();
  const { pairs: all, answer } = next;
  const from = all.length;
  all.push(...pairs);
  return (await answer).results.slice(from, from + pairs.length);
}

function batch(): Batch {
  const pairs: Pair[] = [];
  const answer = Promise.resolve().then(() => {
    if (next?.pairs === pairs) next = undefined;
    const body = {
      pairs: pairs.map(([action, resource, some]) => ({ action, resource, some: !!some })),
    };
    return api("POST /auth/may-i", {}, { body });
  });
  return { pairs, answer };
}

/**
 * Why an action is impossible; empty: it is possible.  Pairs beyond the 50 that the service answers
 * at once, and all pairs if it does not answer, count as possible: the service decides anyway.
 */
export function useRights(pairs: readonly Pair[]): (action: string, resource?: string) => string {
  const asked = pairs.slice(0, PAIRS_MAX);
  const key = asked.length ? `rights ${JSON.stringify(asked)}` : "";
  const loaded = useLoad(key, () => ask(asked));
  return (action, resource) => {
    const at = asked.findIndex(
      ([name, on]) => name === action && (resource === undefined || on === resource),
    );
    if (at < 0 || loaded.error) return "";
    if (!loaded.data) return ASKING;
    const right = loaded.data[at];
    return right && !right.allowed ? `it needs ${right.action} on ${right.resource}` : "";
  };
}
