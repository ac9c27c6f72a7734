/** Markdown: tokens become elements; raw HTML is shown as text, images as links. */
import type { Token, Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Place } from "../api/objects";
import { inRepository } from "../app/router";
import { Skeleton } from "../parts/states";
import { parentOf, visible } from "../parts/text";
import markdownUrl from "../workers/markdown?worker&url";
import { startWorker } from "../workers/start";
import { Lines } from "./text";
import { type ViewerProps, WithText } from "./viewer";

const MOST = 512 * 1024;

export function MarkdownViewer(props: ViewerProps) {
  return (
    <WithText of={props} most={MOST}>
      {(text) => <Markdown text={text} place={props.place} />}
    </WithText>
  );
}

export function Markdown({ text, place }: { text: string; place: Place }) {
  const [read, setRead] = useState<{ text: string; tokens: readonly Token[] | undefined }>();
  useEffect(() => {
    let shown = true;
    tokensOf(text).then((tokens) => shown && setRead({ text, tokens }));
    return () => {
      shown = false;
    };
  }, [text]);
  if (read?.text !== text) return <Skeleton rows={3} />;
  if (read.tokens) return <div class="markdown">{blocks(read.tokens, place)}</div>;
  return (
    <>
      <p class="note">This document is too intricate to be laid out.</p>
      <Lines text={text} />
    </>
  );
}

const SILENT_MS = 5_000;
let worker: Worker | undefined;
let last: Promise<unknown> = Promise.resolve();

/** The tokens of a text; undefined if they are too many, too deep, or come too late.  One worker
 * reads all texts, one after the other. */
function tokensOf(text: string): Promise<Token[] | undefined> {
  const turn = last.then(
    () =>
      new Promise<Token[] | undefined>((done) => {
        worker ??= startWorker(markdownUrl);
        const give = (tokens: Token[] | undefined) => {
          clearTimeout(timer);
          done(tokens);
        };
        const fail = () => {
          worker?.terminate();
          worker = undefined;
          give(undefined);
        };
        const timer = setTimeout(fail, SILENT_MS);
        worker.onmessage = ({ data }: MessageEvent<Token[] | undefined>) => give(data);
        worker.onerror = fail;
        worker.postMessage(text);
      }),
  );
  last = turn;
  return turn;
}

/** A link of a document: to the web, or to a file beside it at the same ref; else none. */
export function target(link: string, place: Place): string | undefined {
  if (/^(https?:|mailto:)/i.test(link)) return link;
  if (/^[a-z][a-z0-9+.-]*:|^\/\/|^#/i.test(link)) return undefined;
  const parts = (link.startsWith("/") ? link.slice(1) : parentOf(place.path) + link).split("/");
  const whole: string[] = [];
  for (const part of parts) {
    if (part === "..") whole.pop();
    else if (part !== ".") whole.push(part);
  }
  const path = whole.join("/").split("#")[0] ?? "";
  const page = path.endsWith("/") || !path ? "objects" : "object";
  return inRepository(place.repo, page, { ref: place.ref, path });
}

function blocks(tokens: readonly Token[], place: Place): ComponentChildren {
  return tokens.map((token, at) => <Block key={`${at}`} of={token} place={place} />);
}

function Block({ of, place }: { of: Token; place: Place }) {
  switch (of.type) {
    case "heading": {
      const level = Math.min((of as Tokens.Heading).depth + 1, 6);
      const Tag = `h${level}` as keyof JSX.IntrinsicElements as "h2";
      return <Tag>{inline(of.tokens ?? [], place)}</Tag>;
    }
    case "paragraph":
      return <p>{inline(of.tokens ?? [], place)}</p>;
    case "text":
      return <>{of.tokens ? inline(of.tokens, place) : visible2(of.text)}</>;
    case "code":
      return (
        <pre class="block">
          <code>{visible2(of.text)}</code>
        </pre>
      );
    case "blockquote":
      return <blockquote>{blocks(of.tokens ?? [], place)}</blockquote>;
    case "list":
      return <List of={of as Tokens.List} place={place} />;
    case "table":
      return <Table of={of as Tokens.Table} place={place} />;
    case "hr":
      return <hr />;
    case "space":
    case "def":
      return null;
    default:
      return <p>{visible2(of.raw)}</p>;
  }
}

function List({ of, place }: { of: Tokens.List; place: Place }) {
  const items = of.items.map((item, at) => (
    <li key={`${at}`}>
      {item.task && <span aria-hidden="true">{item.checked ? "☑ " : "☐ "}</span>}
      {blocks(item.tokens, place)}
    </li>
  ));
  return of.ordered ? <ol start={Number(of.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ of, place }: { of: Tokens.Table; place: Place }) {
  return (
    <table class="data">
      <thead>
        <tr>
          {of.header.map((cell, at) => (
            <th key={`${at}`} scope="col">
              {inline(cell.tokens, place)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {of.rows.map((row, number) => (
          <tr key={`${number}`}>
            {row.map((cell, at) => (
              <td key={`${at}`}>{inline(cell.tokens, place)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function inline(tokens: readonly Token[], place: Place): ComponentChildren {
  return tokens.map((token, at) => <Inline key={`${at}`} of={token} place={place} />);
}

function Inline({ of, place }: { of: Token; place: Place }) {
  const tokens = "tokens" in of ? of.tokens : undefined;
  const inside = () => inline(tokens ?? [], place);
  switch (of.type) {
    case "strong":
      return <strong>{inside()}</strong>;
    case "em":
      return <em>{inside()}</em>;
    case "del":
      return <del>{inside()}</del>;
    case "codespan":
      return <code>{visible(of.text)}</code>;
    case "br":
      return <br />;
    case "link":
    case "image":
      return <Linked of={of as Tokens.Link} place={place} />;
    case "escape":
    case "text":
      return <>{tokens ? inside() : visible2(unescaped(of.text))}</>;
    default:
      return <>{visible2(of.raw)}</>;
  }
}

function Linked({ of, place }: { of: Tokens.Link | Tokens.Image; place: Place }) {
  const href = target(of.href, place);
  const text = of.type === "image" ? visible2(`[image: ${of.text}]`) : undefined;
  const inside = text ?? inline((of as Tokens.Link).tokens ?? [], place);
  if (!href) return <>{inside}</>;
  return (
    <a href={href} rel="noreferrer noopener">
      {inside}
    </a>
  );
}

const visible2 = (text: string): string => text.split("\n").map(visible).join("\n");

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };

function unescaped(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => ENTITIES[name] ?? "");
}
