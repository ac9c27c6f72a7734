/** Markdown to tokens, in a worker that the page kills: some texts take a parser very long. */
import { marked, type Token } from "marked";

/** Deeper or longer documents are shown as text. */
const DEPTH_MAX = 60;
const TOKENS_MAX = 20_000;

/** What is inside a token, an item of a list, or a cell of a table, which is marked as `header`. */
interface Inside {
  readonly tokens?: Inside[];
  readonly items?: Inside[];
  readonly header?: Inside[] | boolean;
  readonly rows?: Inside[][];
}

function isShown(tokens: readonly Token[]): boolean {
  let count = 0;
  let level = tokens as readonly Inside[];
  for (let depth = 0; level.length; depth += 1) {
    count += level.length;
    if (depth > DEPTH_MAX || count > TOKENS_MAX) return false;
    level = level.flatMap(({ tokens = [], items = [], header, rows = [] }) => [
      ...tokens,
      ...items,
      ...(Array.isArray(header) ? header : []),
      ...rows.flat(),
    ]);
  }
  return true;
}

addEventListener("message", ({ data }: MessageEvent<string>) => {
  try {
    const tokens = marked.lexer(data);
    postMessage(isShown(tokens) ? tokens : undefined);
  } catch {
    postMessage(undefined); // nested so deep that the stack ended
  }
});
