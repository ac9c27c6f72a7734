/** Shows the content of a file.  A viewer is loaded when a file needs it. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ObjectStats } from "../api/client";
import { asError, useLoad } from "../api/load";
import { type Place, readBytes } from "../api/objects";
import { changed } from "../app/router";
import { ButtonLink } from "../parts/button";
import { ReadsRefused } from "../parts/cors";
import { Empty, ErrorBox, Show, Skeleton } from "../parts/states";
import { size } from "../parts/text";
import { type Kind, kindOf } from "./kinds";

export interface ViewerProps {
  readonly place: Place;
  readonly size: number;
  readonly type: string;
}

type View = ComponentType<ViewerProps>;

const VIEWERS: Record<Exclude<Kind, "none">, () => Promise<View>> = {
  text: () => import("./text").then((m) => m.TextViewer),
  json: () => import("./json").then((m) => m.JsonViewer),
  csv: () => import("./csv").then((m) => m.CsvViewer),
  image: () => import("./image").then((m) => m.ImageViewer),
  markdown: () => import("./markdown").then((m) => m.MarkdownViewer),
  notebook: () => import("./notebook").then((m) => m.NotebookViewer),
  parquet: () => import("./parquet").then((m) => m.ParquetViewer),
};

/** Load the viewer that a name tells, while the file is asked about. */
export function expectViewer(path: string): void {
  const kind = kindOf(path);
  if (kind !== "none") VIEWERS[kind]().catch(() => undefined); // the viewer itself says so
}

/** `isRaw`: as text, whatever it is. */
export function Viewer(props: { place: Place; of: ObjectStats; isRaw: boolean }) {
  const { place, of, isRaw } = props;
  const kind = isRaw ? "text" : kindOf(place.path, of.content_type);
  const [view, setView] = useState<{ View: View } | undefined>();
  const [failed, setFailed] = useState<unknown>();
  useEffect(() => {
    if (kind === "none") return;
    setView(undefined);
    VIEWERS[kind]().then((View) => setView({ View }), setFailed);
  }, [kind]);
  const bytes = of.size_bytes ?? 0;
  if (bytes === 0) return <Empty icon="file" title="This file is empty" />;
  if (kind === "none") {
    return (
      <Empty icon="file" title="No viewer knows this kind of file">
        <ButtonLink href={changed({ view: "raw" })}>Show it as text</ButtonLink>
      </Empty>
    );
  }
  if (failed) return <ErrorBox error={asError(failed)} />;
  if (!view) return <Skeleton />;
  const { View } = view;
  return (
    <>
      <View place={{ ...place, checksum: of.checksum }} size={bytes} type={of.content_type ?? ""} />
      <ReadsRefused />
    </>
  );
}

/** The first bytes of a file as text, and a note if there are more. */
export function WithText(props: {
  readonly of: ViewerProps;
  readonly most: number;
  readonly children: (text: string, isWhole: boolean) => preact.ComponentChildren;
}) {
  const { place, size: bytes } = props.of;
  const end = Math.min(bytes, props.most);
  const loaded = useLoad(`text ${place.repo} ${place.ref} ${place.path} ${end}`, async (signal) =>
    new TextDecoder().decode(await readBytes(place, 0, end, signal)),
  );
  return (
    <Show of={loaded}>
      {(text) => (
        <>
          {props.children(text, end === bytes)}
          {end < bytes && (
            <p class="faint more-note">
              The first {size(end)} of {size(bytes)} are shown.
            </p>
          )}
        </>
      )}
    </Show>
  );
}
