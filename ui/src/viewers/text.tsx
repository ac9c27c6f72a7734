/** Text with line numbers. */
import { visible } from "../parts/text";
import { type ViewerProps, WithText } from "./viewer";

const MOST = 512 * 1024;
const LINES = 5_000;

export function TextViewer(props: ViewerProps) {
  return (
    <WithText of={props} most={MOST}>
      {(text) => <Lines text={text} />}
    </WithText>
  );
}

/** Control characters become visible, but for tabs. */
export function Lines({ text }: { text: string }) {
  const lines = text.replace(/\r\n/g, "\n").replace(/\n$/, "").split("\n");
  const shown = lines.slice(0, LINES);
  return (
    <>
      <div class="code" tabIndex={0} role="region" aria-label="Text">
        <pre class="numbers" aria-hidden="true">
          {shown.map((_, at) => at + 1).join("\n")}
        </pre>
        <pre>{shown.map((line) => line.split("\t").map(visible).join("\t")).join("\n")}</pre>
      </div>
      {lines.length > LINES && (
        <p class="faint more-note">
          The first {LINES.toLocaleString("en")} of {lines.length.toLocaleString("en")} lines are
          shown.
        </p>
      )}
    </>
  );
}
