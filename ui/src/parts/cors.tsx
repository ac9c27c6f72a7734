/** A bucket that refuses this page, because it has no CORS rule for it. */
import type { ComponentChildren } from "preact";
import { refusing } from "../api/objects";
import { Command } from "./states";
import { sh, visible } from "./text";

/** Says so, with the command that lets this page read and write the bucket by signed URLs. */
export function NoCors(props: { readonly bucket: string; readonly children: ComponentChildren }) {
  return (
    <div class="no-cors">
      <p>{props.children}</p>
      <Command text={sh`graveler storage cors ${props.bucket} --origin ${location.origin}`} />
    </div>
  );
}

/** The same, if the bucket refused to be read. */
export function ReadsRefused() {
  const bucket = refusing.value;
  if (!bucket) return null;
  return (
    <NoCors bucket={bucket}>
      The bucket {visible(bucket)} has no CORS rule for this page, so all bytes pass through the
      service, which is slower. This sets one:
    </NoCors>
  );
}
