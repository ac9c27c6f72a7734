/** Forms: labelled fields; the error of the service stands beside the button. */
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { asError } from "../api/load";
import { Button } from "./button";
import { ErrorBox } from "./states";

export interface FieldProps {
  readonly label: string;
  readonly name: string;
  readonly hint?: string;
  readonly value?: string;
  readonly type?: "text" | "password" | "search" | "number" | "email";
  readonly lines?: number;
  readonly required?: boolean;
  readonly focus?: boolean;
  readonly autocomplete?: string;
  readonly pattern?: string;
  onInput?(value: string): void;
}

export function Field(props: FieldProps) {
  const { label, name, hint, value, type = "text", lines, required, focus } = props;
  const id = useId();
  const shared = {
    id,
    name,
    required,
    // A value that nobody follows is a beginning: drawn again, it must not replace what was typed.
    ...(props.onInput ? { value } : { defaultValue: value }),
    "data-focus": focus || undefined,
    "aria-describedby": hint ? `${id}-hint` : undefined,
    onInput: (event: Event) => props.onInput?.((event.target as HTMLInputElement).value),
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {lines ? (
        <textarea {...shared} rows={lines} />
      ) : (
        <input
          {...shared}
          type={type as "text"}
          pattern={props.pattern}
          title={props.pattern && hint}
          autocomplete={props.autocomplete ?? "off"}
          spellcheck={false}
        />
      )}
      {hint && (
        <small id={`${id}-hint`} class="hint">
          {hint}
        </small>
      )}
    </div>
  );
}

export function Choice(props: {
  readonly label: string;
  readonly name: string;
  readonly value?: string;
  readonly options: ReadonlyArray<readonly [value: string, text: string]>;
  onInput?(value: string): void;
}) {
  const id = useId();
  const input = (event: Event) => props.onInput?.((event.target as HTMLSelectElement).value);
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <select id={id} name={props.name} value={props.value} onInput={input}>
        {props.options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

export function Check(props: {
  readonly label: string;
  readonly name: string;
  readonly checked?: boolean;
  readonly hint?: string;
  readonly required?: boolean;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        name={props.name}
        defaultChecked={props.checked}
        required={props.required}
      />
      <span>
        {props.label}
        {props.hint && <small class="hint">{props.hint}</small>}
      </span>
    </label>
  );
}

export interface FormProps {
  readonly action: string;
  readonly danger?: boolean;
  readonly off?: string;
  readonly children?: ComponentChildren;
  readonly onCancel?: () => void;
  /** Gets the fields by name; what it throws is shown in the form. */
  submit(fields: Record<string, string>): Promise<unknown>;
}

export function Form({ action, danger, off, children, onCancel, submit }: FormProps) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | undefined>();
  const send = async (event: Event) => {
    event.preventDefault();
    if (busy || off) return;
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const fields: Record<string, string> = {};
    for (const [name, value] of data) if (typeof value === "string") fields[name] = value;
    setBusy(true);
    setError(undefined);
    try {
      await submit(fields);
    } catch (failed) {
      setError(asError(failed));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="form" onSubmit={send}>
      {children}
      {error && <ErrorBox error={error} />}
      <div class="actions">
        {onCancel && <Button onClick={onCancel}>Cancel</Button>}
        <Button type="submit" kind={danger ? "danger" : "primary"} off={busy ? "working" : off}>
          {action}
        </Button>
      </div>
    </form>
  );
}
