/** Patterns: `*` is any text, `?` one character.  No pattern of a user becomes an expression. */

/** Whether a whole text has a pattern; the time grows with the product of both lengths. */
export function globMatches(pattern: string, text: string): boolean {
  const wanted = [...pattern];
  const chars = [...text];
  let at = 0;
  let star = -1;
  let behind = 0;
  for (let here = 0; here < chars.length; ) {
    if (wanted[at] === "*") {
      star = at;
      at += 1;
      behind = here;
    } else if (at < wanted.length && (wanted[at] === "?" || wanted[at] === chars[here])) {
      at += 1;
      here += 1;
    } else if (star >= 0) {
      at = star + 1;
      behind += 1;
      here = behind;
    } else return false;
  }
  return wanted.slice(at).every((char) => char === "*");
}

/** Whether every text that begins with `head` has the pattern. */
export function globCovers(pattern: string, head: string): boolean {
  return pattern.endsWith("*") && globMatches(pattern, head);
}

/** Whether some text that begins with `head` has the pattern. */
export function globReaches(pattern: string, head: string): boolean {
  const star = pattern.indexOf("*");
  const first = [...(star < 0 ? pattern : pattern.slice(0, star))];
  const chars = [...head];
  if (star < 0 && chars.length > first.length) return false;
  const shared = Math.min(first.length, chars.length);
  return first.slice(0, shared).every((char, at) => char === "?" || char === chars[at]);
}
