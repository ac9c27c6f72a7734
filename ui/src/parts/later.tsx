/** A part that is loaded when it is first shown: the first page stays small. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { complain } from "../app/toasts";

export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let known: ComponentType<P> | undefined;
  return function Later(props: P) {
    const [, setShown] = useState(false);
    useEffect(() => {
      if (known) return;
      load().then(
        (part) => {
          known = part;
          setShown(true);
        },
        () => complain("A file of this page is missing. Load the page again."),
      );
    }, []);
    const Part = known;
    return Part ? <Part {...props} /> : null;
  };
}
