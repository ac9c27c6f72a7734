/** A question before something is lost. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog";
import { Field, Form } from "./form";
import { visible } from "./text";

export function Confirm(props: {
  readonly title: string;
  readonly action: string;
  /** A text that must be typed, where nothing can be undone. */
  readonly typed?: string;
  readonly children?: ComponentChildren;
  act(): Promise<unknown>;
  onClose(): void;
}) {
  const { title, action, typed = "", children, act, onClose } = props;
  const [text, setText] = useState("");
  return (
    <Dialog title={title} onClose={onClose}>
      <Form
        action={action}
        danger
        off={text === typed ? "" : "type the name first"}
        submit={act}
        onCancel={onClose}
      >
        {children}
        {typed && (
          <Field label={`Type ${visible(typed)} to confirm`} name="typed" focus onInput={setText} />
        )}
      </Form>
    </Dialog>
  );
}
