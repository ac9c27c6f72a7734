/** Raster images and SVG, as a picture on a blob: nothing in it can run. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { useLoad } from "../api/load";
import { readBytes } from "../api/objects";
import { Empty, Show } from "../parts/states";
import { lastName, size, visible } from "../parts/text";
import type { ViewerProps } from "./viewer";

const MOST = 20 * 1024 * 1024;
const TYPES: Record<string, string> = {
  svg: "image/svg+xml",
  jpg: "image/jpeg",
};

export function ImageViewer(props: ViewerProps) {
  const { place, size: bytes } = props;
  const isLarge = bytes > MOST;
  const loaded = useLoad(
    isLarge ? "" : `image ${place.repo} ${place.ref} ${place.path}`,
    (signal) => readBytes(place, 0, bytes, signal),
  );
  if (isLarge) return <Empty icon="file" title={`This image has ${size(bytes)}: download it`} />;
  return (
    <Show of={loaded}>
      {(content) => <Drawing key={place.path} content={content} path={place.path} />}
    </Show>
  );
}

/** An SVG whose parts repeat or refer to each other can take for ever, and the whole window with it:
 * a browser has no bound for a drawing.  It is not drawn. */
const SVG_MOST = 1024 * 1024;
const REPEATS = /<(?:\w+:)?(?:use|pattern|mask|filter|marker|image)\b|<!ENTITY/g;
const REPEATS_MAX = 12;

export function Drawing({ content, path }: { content: ArrayBuffer; path: string }) {
  const isLong = useMemo(() => {
    if (!path.toLowerCase().endsWith(".svg")) return false;
    if (content.byteLength > SVG_MOST) return true;
    const text = new TextDecoder().decode(content);
    return text.includes("\0") || (text.match(REPEATS)?.length ?? 0) > REPEATS_MAX;
  }, [content, path]);
  if (!isLong) return <Picture content={content} path={path} />;
  return (
    <Empty icon="warning" title="This drawing could stop the browser">
      <p>
        Its parts are large or repeat each other, so the page does not draw it. Show it as text, or
        download it.
      </p>
    </Empty>
  );
}

function Picture({ content, path }: { content: ArrayBuffer; path: string }) {
  const [url, setUrl] = useState("");
  const [broken, setBroken] = useState(false);
  const ending = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  useEffect(() => {
    const type = TYPES[ending] ?? `image/${ending}`;
    const made = URL.createObjectURL(new Blob([content], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [content, ending]);
  if (broken) return <Empty icon="warning" title="This is no image that a browser can show" />;
  return (
    <div class="picture">
      {url && <img src={url} alt={visible(lastName(path))} onError={() => setBroken(true)} />}
    </div>
  );
}
