/** How many commits a branch has beyond another one, and lacks. */
export interface Distance {
  readonly ahead: number;
  readonly behind: number;
  /** Older commits are not known, so there may be more. */
  readonly isLeast: boolean;
}

type Parents = ReadonlyMap<string, readonly string[]>;

/** Of each branch from the first one.  `names` and their `commits`; `parents` of the newest commits
 * that these lead to. */
export function distances(
  names: readonly string[],
  commits: readonly string[],
  parents: Parents,
): Map<string, Distance> {
  const main = reached(commits[0] ?? "", parents);
  const found = new Map<string, Distance>();
  for (const [at, name] of names.entries()) {
    const own = reached(commits[at] ?? "", parents);
    const ahead = [...own].filter((id) => !main.has(id));
    const behind = [...main].filter((id) => !own.has(id));
    const isLeast = [...ahead, ...behind].some((id) => !parents.has(id));
    const known = (ids: readonly string[]) => ids.filter((id) => parents.has(id)).length;
    found.set(name, { ahead: known(ahead), behind: known(behind), isLeast });
  }
  return found;
}

/** A commit and all before it, as far as they are known; of those that are not, the first ones. */
function reached(head: string, parents: Parents): Set<string> {
  const found = new Set<string>();
  const waiting = [head];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (!id || found.has(id)) continue;
    found.add(id);
    waiting.push(...(parents.get(id) ?? []));
  }
  return found;
}

export function textOf(of: Distance | undefined): string {
  if (!of) return "";
  const { ahead, behind, isLeast } = of;
  if (!ahead && !behind && !isLeast) return "the same";
  const plus = isLeast ? "+" : "";
  const parts = [ahead && `${ahead}${plus} ahead`, behind && `${behind}${plus} behind`];
  return parts.filter(Boolean).join(", ") || "far away";
}
