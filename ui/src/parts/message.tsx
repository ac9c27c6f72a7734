/** A commit message with metadata: fields of several forms. */
import { useState } from "preact/hooks";
import { Button } from "./button";
import { Field } from "./form";

export function MessageFields(props: { value?: string; label?: string; optional?: boolean }) {
  const [pairs, setPairs] = useState(0);
  return (
    <>
      <Field
        label={props.label ?? "Message"}
        name="message"
        lines={3}
        value={props.value}
        required={!props.optional}
        focus
      />
      {Array.from({ length: pairs }, (_, at) => (
        <div class="pair" key={at}>
          <Field label="Metadata key" name={`key ${at}`} />
          <Field label="Value" name={`value ${at}`} />
        </div>
      ))}
      <div>
        <Button kind="quiet" icon="plus" onClick={() => setPairs(pairs + 1)}>
          Metadata
        </Button>
      </div>
    </>
  );
}

/** The metadata in the fields of a form. */
export function metadataOf(fields: Record<string, string>): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, key] of Object.entries(fields)) {
    if (name.startsWith("key ") && key) found[key] = fields[`value ${name.slice(4)}`] ?? "";
  }
  return found;
}
