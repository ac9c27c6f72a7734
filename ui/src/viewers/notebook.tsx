/** Jupyter notebooks: cells and their outputs as text, Markdown and images.  Nothing of it runs. */
import { useMemo, useState } from "preact/hooks";
import type { Place } from "../api/objects";
import { Button } from "../parts/button";
import { visible } from "../parts/text";
import { Drawing } from "./image";
import { Markdown } from "./markdown";
import { Lines } from "./text";
import { type ViewerProps, WithText } from "./viewer";

const MOST = 16 * 1024 * 1024;
const CELLS = 50;
const OUTPUTS = 20;
const TEXT_MAX = 50_000;

type Fields = Readonly<Record<string, unknown>>;

export function NotebookViewer(props: ViewerProps) {
  return (
    <WithText of={props} most={MOST}>
      {(text) => <Notebook text={text} place={props.place} />}
    </WithText>
  );
}

function Notebook({ text, place }: { text: string; place: Place }) {
  const cells = useMemo(() => cellsOf(text), [text]);
  const [most, setMost] = useState(CELLS);
  if (!cells) {
    return (
      <>
        <p class="note">This is no notebook of format 4, so it is shown as text.</p>
        <Lines text={text} />
      </>
    );
  }
  return (
    <div class="notebook">
      {cells.slice(0, most).map((cell, at) => (
        <Cell key={`${at}`} of={cell} place={place} />
      ))}
      {!cells.length && <p class="faint">This notebook has no cells.</p>}
      {cells.length > most && (
        <Button onClick={() => setMost(most + CELLS)}>
          {`${(cells.length - most).toLocaleString("en")} more cells`}
        </Button>
      )}
    </div>
  );
}

/** The cells of a notebook; undefined if it is none. */
function cellsOf(text: string): Fields[] | undefined {
  try {
    const cells = fieldsOf(JSON.parse(text)).cells;
    return Array.isArray(cells) ? cells.map(fieldsOf) : undefined;
  } catch {
    return undefined;
  }
}

const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null ? (value as Fields) : {};

/** Texts are strings, or lists of lines. */
function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return Array.isArray(value) ? value.filter((line) => typeof line === "string").join("") : "";
}

function Cell({ of, place }: { of: Fields; place: Place }) {
  const source = textOf(of.source);
  if (of.cell_type === "markdown") {
    return (
      <div class="cell">
        <span />
        <Markdown text={source} place={place} />
      </div>
    );
  }
  const outputs = Array.isArray(of.outputs) ? of.outputs.map(fieldsOf) : [];
  const number = typeof of.execution_count === "number" ? of.execution_count : " ";
  return (
    <div class="cell">
      <span class="faint number">{of.cell_type === "code" && `[${number}]`}</span>
      <div class="stack">
        <Block text={source} />
        {outputs.slice(0, OUTPUTS).map((output, at) => (
          <Output key={`${at}`} of={output} place={place} />
        ))}
        {outputs.length > OUTPUTS && (
          <p class="faint">{outputs.length - OUTPUTS} more outputs: look at it as text.</p>
        )}
      </div>
    </div>
  );
}

/** Kinds of pictures, as the names of files end. */
const IMAGES: ReadonlyArray<readonly [type: string, ending: string]> = [
  ["image/png", "png"],
  ["image/jpeg", "jpg"],
  ["image/gif", "gif"],
  ["image/webp", "webp"],
  ["image/svg+xml", "svg"],
];

function Output({ of, place }: { of: Fields; place: Place }) {
  if (of.output_type === "stream") return <Block text={textOf(of.text)} isOutput />;
  if (of.output_type === "error") {
    const lines = Array.isArray(of.traceback) ? of.traceback : [];
    const trace = lines.map(textOf).join("\n") || `${textOf(of.ename)}: ${textOf(of.evalue)}`;
    return <Block text={trace} isOutput isError />;
  }
  const data = fieldsOf(of.data);
  for (const [type, ending] of IMAGES) {
    const text = textOf(data[type]);
    if (text) return <Picture text={text} ending={ending} />;
  }
  const markdown = textOf(data["text/markdown"]);
  if (markdown) return <Markdown text={markdown} place={place} />;
  const plain = textOf(data["text/plain"]);
  if (plain) return <Block text={plain} isOutput />;
  const types = Object.keys(data).map(visible).join(", ");
  return <p class="faint">An output that is not shown: {types.slice(0, 200) || "empty"}</p>;
}

function Picture({ text, ending }: { text: string; ending: string }) {
  const content = useMemo(() => {
    if (ending === "svg") return new TextEncoder().encode(text).buffer;
    try {
      return Uint8Array.from(atob(text.replace(/\s/g, "")), (char) => char.charCodeAt(0)).buffer;
    } catch {
      return new ArrayBuffer(0);
    }
  }, [text, ending]);
  return <Drawing content={content} path={`output.${ending}`} />;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours of a terminal begin with it
const COLOURS = /\u001b\[[0-9;]*m/g;

function Block(props: { text: string; isOutput?: boolean; isError?: boolean }) {
  const { text, isOutput, isError } = props;
  if (!text) return null;
  const lines = text.slice(0, TEXT_MAX).replace(COLOURS, "").split(/\r?\n/);
  return (
    <div>
      <pre class={isOutput ? "output" : "block"} role={isError ? "note" : undefined}>
        {lines.map((line) => line.split("\t").map(visible).join("\t")).join("\n")}
      </pre>
      {text.length > TEXT_MAX && <p class="faint">The rest is in the file: look at it as text.</p>}
    </div>
  );
}
