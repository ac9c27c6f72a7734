/**
 * The lanes of a commit graph.  Children come before parents.
 *
 * Each lane waits for a commit.  A commit takes the lowest lane that waits for it; other lanes that
 * wait for it join there.  Its first parent keeps the lane; other parents take a lane that waits for
 * them, or the nearest free one.  A colour belongs to a run of a lane.
 */
export interface Node {
  readonly id: string;
  readonly parents: readonly string[];
}

/** A line from this row to the next one. */
export interface Edge {
  readonly from: number;
  readonly to: number;
  readonly colour: number;
}

export interface Row {
  readonly lane: number;
  readonly colour: number;
  readonly edges: readonly Edge[];
}

interface Lane {
  readonly waits: string;
  readonly colour: number;
  /** The lane of the commit that opened it, in its first row. */
  readonly from: number | undefined;
}

type Lanes = Array<Lane | undefined>;

export function lanes(nodes: readonly Node[]): Row[] {
  let open: Lanes = [];
  let colours = 0;
  const rows: Row[] = [];
  for (const [at, node] of nodes.entries()) {
    let lane = open.findIndex((each) => each?.waits === node.id);
    if (lane < 0) {
      lane = free(open);
      colours += 1;
    }
    const colour = open[lane]?.colour ?? colours - 1;
    // Every lane that waited for this commit ends here.
    open = open.map((each) =>
      each?.waits === node.id ? undefined : each && { ...each, from: undefined },
    );
    const extra: number[] = [];
    for (const [number, parent] of node.parents.entries()) {
      if (number === 0) {
        open[lane] = { waits: parent, colour, from: undefined };
        continue;
      }
      const known = open.findIndex((each) => each?.waits === parent);
      if (known >= 0) {
        extra.push(known);
      } else {
        open[free(open)] = { waits: parent, colour: colours, from: lane };
        colours += 1;
      }
    }
    const next = nodes[at + 1]?.id;
    rows.push({ lane, colour, edges: edges(open, lane, extra, next) });
  }
  return rows;
}

function free(open: Lanes): number {
  const at = open.findIndex((each) => each === undefined);
  return at < 0 ? open.length : at;
}

function edges(open: Lanes, lane: number, extra: readonly number[], next?: string): Edge[] {
  const target = open.findIndex((each) => each?.waits === next);
  const end = (at: number) => (next !== undefined && open[at]?.waits === next ? target : at);
  const found: Edge[] = [];
  for (const [at, each] of open.entries()) {
    if (each) found.push({ from: each.from ?? at, to: end(at), colour: each.colour });
  }
  for (const at of extra) found.push({ from: lane, to: end(at), colour: open[at]?.colour ?? 0 });
  return found;
}
