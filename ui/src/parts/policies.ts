/**
 * What policies decide, and by which statement.
 *
 *     a deny that matches, or a policy that cannot be read    denied
 *     else an allow that matches                              allowed
 *     else                                                    denied
 *
 * The rules are those of the service (docs/reference/access-control.md).  A condition compares the
 * address of the caller, which a page does not know for others: then the answer is open.
 */
import { globCovers, globMatches, globReaches } from "./glob";

export interface Statement {
  readonly effect: "allow" | "deny";
  readonly action: readonly string[];
  readonly resource: string;
  readonly condition?: unknown;
}

export interface HeldPolicy {
  readonly id: string;
  readonly statement: readonly unknown[];
}

export interface Found {
  readonly policy: string;
  /** Counted from 1. */
  readonly number: number;
  readonly statement: Statement;
  readonly matches: boolean;
}

export interface Decision {
  readonly verdict: "allowed" | "denied" | "open";
  readonly reason: string;
  /** The statements that decide. */
  readonly by: readonly Found[];
  /** Statements that name the action, but another resource. */
  readonly near: readonly Found[];
}

/** The statement that a stored text is; undefined for one that this page cannot read. */
export function statementOf(text: unknown): Statement | undefined {
  if (typeof text !== "object" || text === null) return undefined;
  const { effect, action, resource } = text as Record<string, unknown>;
  if (effect !== "allow" && effect !== "deny") return undefined;
  if (!Array.isArray(action) || !action.every((each) => typeof each === "string")) return undefined;
  if (typeof resource !== "string" || !resourcesOf(resource)) return undefined;
  return text as Statement;
}

/** The patterns of a resource: one, or a JSON list in a text. */
export function resourcesOf(text: string): readonly string[] | undefined {
  if (!text.startsWith("[")) return [text];
  try {
    const list: unknown = JSON.parse(text);
    const isList = Array.isArray(list) && list.every((each) => typeof each === "string");
    return isList ? (list as string[]) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether an action is one of a pattern: a name, or a beginning with a star. */
export function names(pattern: string, action: string): boolean {
  return pattern.endsWith("*") ? action.startsWith(pattern.slice(0, -1)) : pattern === action;
}

/** The first five parts of a name, which are compared exactly, and the last. */
function split(name: string): readonly [head: string, last: string] {
  let at = 0;
  for (let colons = 0; colons < 5; colons += 1) at = name.indexOf(":", at) + 1 || name.length;
  return [name.slice(0, at), name.slice(at)];
}

function has(statement: Statement, resource: string, user: string): boolean {
  // Rights on everything below a name are shown with a star at their end.
  const isBelow = resource.endsWith("*") && resource !== "*";
  const name = isBelow ? resource.slice(0, -1) : resource;
  const compare = !isBelow ? globMatches : statement.effect === "deny" ? globReaches : globCovers;
  return (resourcesOf(statement.resource) ?? []).some((pattern) => {
    if (pattern === "*") return true;
    const [head, glob] = split(pattern);
    const [place, last] = split(name);
    return head === place && compare(glob.replaceAll("${user}", user), last);
  });
}

/** Whether a user may do something, and why. */
export function decide(
  policies: readonly HeldPolicy[],
  user: string,
  action: string,
  resource: string,
): Decision {
  const found: Found[] = [];
  for (const policy of policies) {
    for (const [at, text] of policy.statement.entries()) {
      const statement = statementOf(text);
      if (!statement) {
        const reason = `Everything is denied: statement ${at + 1} of ${policy.id} cannot be read.`;
        return { verdict: "denied", reason, by: [], near: [] };
      }
      if (!statement.action.some((pattern) => names(pattern, action))) continue;
      const matches = has(statement, resource, user);
      found.push({ policy: policy.id, number: at + 1, statement, matches });
    }
  }
  const near = found.filter((each) => !each.matches);
  const matching = (effect: string, sure: boolean) =>
    found.filter(
      ({ matches, statement }) =>
        matches && statement.effect === effect && isSure(statement) === sure,
    );
  const denies = matching("deny", true);
  if (denies.length) {
    return {
      verdict: "denied",
      reason: "A statement denies it, whatever is allowed.",
      by: denies,
      near,
    };
  }
  const allows = matching("allow", true);
  const perhaps = [...matching("deny", false), ...(allows.length ? [] : matching("allow", false))];
  if (
    perhaps.length &&
    (allows.length || perhaps.some((each) => each.statement.effect === "allow"))
  ) {
    const reason = "It depends on the address that the request comes from.";
    return { verdict: "open", reason, by: [...perhaps, ...allows], near };
  }
  if (allows.length)
    return { verdict: "allowed", reason: "A statement allows it.", by: allows, near };
  const reason = near.length
    ? "No statement allows it on this resource. The action is named for others:"
    : found.length
      ? "No statement allows it."
      : "No statement names this action.";
  return { verdict: "denied", reason, by: matching("deny", false), near };
}

/** Whether a statement applies from every address. */
function isSure(statement: Statement): boolean {
  const { condition } = statement;
  return !condition || Object.keys(condition).length === 0;
}

/** What is wrong with the text of a policy; empty: nothing that this page can see. */
export function mistakeIn(text: string): string {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch (error) {
    return `No JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (!Array.isArray(list) || !list.length) return "It must be a list of statements: [{…}]";
  for (const [at, each] of list.entries()) {
    const wrong = wrongWith(each);
    if (wrong) return `Statement ${at + 1}: ${wrong}`;
  }
  return "";
}

const FIELDS = ["effect", "action", "resource", "condition"];

function wrongWith(each: unknown): string {
  if (typeof each !== "object" || each === null || Array.isArray(each))
    return "it must be an object";
  const other = Object.keys(each).find((name) => !FIELDS.includes(name));
  if (other) return `there is no field ${other}`;
  const { effect, action, resource } = each as Record<string, unknown>;
  if (effect !== "allow" && effect !== "deny") return 'effect must be "allow" or "deny"';
  if (!Array.isArray(action) || !action.length) return "action must be a list of actions";
  if (typeof resource !== "string") return "resource must be a text: an ARN, or *";
  const wrong = (resourcesOf(resource) ?? [""]).find(
    (name) => name !== "*" && !/^arn:lakefs(:[^*?${}:]*){3}:./s.test(name),
  );
  return wrong === undefined ? "" : "resource must be * or arn:lakefs:<service>:::<resource>";
}
