/** Raster images and SVG, as a picture on a blob: nothing in it can run. */
import { useEffect, useState } from "preact/hooks";
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
  return <Show of={loaded}>{(content) => <Picture content={content} path={place.path} />}</Show>;
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
