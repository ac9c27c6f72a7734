/** A text that somebody wrote in Markdown.  What shows Markdown is loaded for a text only. */
import { useEffect, useState } from "preact/hooks";
import type { Place } from "../api/objects";
import { visible } from "./text";

export function Prose({ text, place }: { text: string; place: Place }) {
  const [view, setView] = useState<typeof import("../viewers/markdown") | undefined>();
  useEffect(() => {
    import("../viewers/markdown").then(setView, () => undefined);
  }, []);
  if (!view) return <pre class="message">{text.split("\n").map(visible).join("\n")}</pre>;
  return <view.Markdown text={text} place={place} />;
}
