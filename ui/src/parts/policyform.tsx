/** The form of a policy: its statements as JSON, checked while they are typed. */
import { useState } from "preact/hooks";
import type { Statement } from "../api/client";
import { Field, Form } from "./form";
import { mistakeIn } from "./policies";

const EXAMPLE = [
  {
    effect: "allow",
    action: ["fs:Read*", "fs:List*"],
    resource: "arn:lakefs:fs:::repository/lake/*",
  },
];

export function PolicyForm(props: {
  readonly action: string;
  /** The policy that is changed; undefined: a new one. */
  readonly id?: string;
  readonly statement?: readonly unknown[];
  onCancel(): void;
  submit(id: string, statement: Statement[]): Promise<unknown>;
}) {
  const { action, id, statement = EXAMPLE, onCancel, submit } = props;
  const [text, setText] = useState(JSON.stringify(statement, undefined, 2));
  const mistake = mistakeIn(text);
  return (
    <Form
      action={action}
      off={mistake ? "the statements have a mistake" : ""}
      onCancel={onCancel}
      submit={(fields) => submit(id ?? fields.id ?? "", JSON.parse(text) as Statement[])}
    >
      {id === undefined && <Field label="Name" name="id" required focus />}
      <div class="code-field">
        <Field
          label="Statements"
          name="statements"
          lines={14}
          value={text}
          focus={id !== undefined}
          hint="A deny wins over every allow. Resources: *, or arn:lakefs:fs:::repository/NAME/object/PATH with * and ?"
          onInput={setText}
        />
      </div>
      <p class={mistake ? "bad-text" : "faint"} role="status">
        {mistake || "The statements have the right form."}
      </p>
    </Form>
  );
}
