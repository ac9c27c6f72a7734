/** Statements of policies as text, and the question what they decide. */
import { useState } from "preact/hooks";
import { ACTIONS } from "../api/types";
import { Button } from "./button";
import { resourcesOf, type Statement, statementOf } from "./policies";
import { inLake } from "./rights";
import { visible } from "./text";

export function StatementText({ of }: { of: unknown }) {
  const statement = statementOf(of);
  if (!statement) {
    return (
      <div class="statement deny">
        <p>This page cannot read the statement:</p>
        <code>{visible(JSON.stringify(of))}</code>
      </div>
    );
  }
  const { effect, action, resource, condition } = statement;
  return (
    <div class={`statement ${effect}`}>
      <p>
        <strong>{effect === "allow" ? "Allows" : "Denies"}</strong>{" "}
        <Words of={action.map(visible)} />
      </p>
      <p>
        on <Words of={(resourcesOf(resource) ?? []).map((name) => visible(name))} />
      </p>
      {hasCondition(statement) && (
        <p>
          if <code>{visible(JSON.stringify(condition))}</code>
        </p>
      )}
    </div>
  );
}

function hasCondition({ condition }: Statement): boolean {
  return Boolean(condition && Object.keys(condition).length);
}

function Words({ of }: { of: readonly string[] }) {
  return (
    <>
      {of.map((word, at) => (
        <span key={word}>
          {at > 0 && ", "}
          <code>{word}</code>
        </span>
      ))}
    </>
  );
}

/** An action and a resource, to ask about. */
export function Question(props: {
  readonly action: string;
  readonly resource: string;
  readonly text: string;
  onAsk(action: string, resource: string): void;
}) {
  const [action, setAction] = useState(props.action);
  const [resource, setResource] = useState(props.resource);
  const submit = (event: Event) => {
    event.preventDefault();
    props.onAsk(action.trim(), named(resource.trim()));
  };
  return (
    <form class="ask" onSubmit={submit}>
      <div class="field">
        <label for="action">Action</label>
        <input
          id="action"
          list="actions"
          required
          spellcheck={false}
          autocomplete="off"
          placeholder="fs:WriteObject"
          value={action}
          onInput={(event) => setAction(event.currentTarget.value)}
        />
        <datalist id="actions">
          {ACTIONS.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </div>
      <div class="field">
        <label for="resource">Resource</label>
        <input
          id="resource"
          required
          spellcheck={false}
          autocomplete="off"
          placeholder="an ARN, *, or lakefs://lake/main/path"
          value={resource}
          onInput={(event) => setResource(event.currentTarget.value)}
        />
      </div>
      <Button type="submit" kind="primary">
        {props.text}
      </Button>
    </form>
  );
}

/** The ARN of an address; any other text is one already. */
function named(text: string): string {
  const found = /^lakefs:\/\/([^/]+)(?:\/[^/]*\/?(.*))?$/s.exec(text);
  if (!found) return text;
  const [, repo = "", path] = found;
  return inLake(path ? `repository/${repo}/object/${path}` : `repository/${repo}`);
}
