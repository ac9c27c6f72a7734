/** Names with buttons: the groups of a user, the members of a group, the policies of either. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Loaded } from "../api/load";
import { Button } from "./button";
import { Icon, type IconName } from "./icons";
import { NamePicker } from "./names";
import { Show } from "./states";
import { visible } from "./text";

export function Links(props: {
  readonly title: string;
  /** What is listed: "users", "groups" or "policies". */
  readonly kind: string;
  readonly icon: IconName;
  readonly of: Loaded<readonly string[]>;
  readonly none: ComponentChildren;
  /** The button that adds one, and why it is off. */
  readonly add: string;
  readonly addOff: string;
  removeOff(name: string): string;
  link(name: string): string;
  list(prefix: string, signal: AbortSignal): Promise<readonly string[]>;
  onAdd(name: string): Promise<void>;
  onRemove(name: string): Promise<void>;
}) {
  const { title, kind, of, add } = props;
  const [picking, setPicking] = useState(false);
  const id = `links-${kind}`;
  return (
    <section class="section" aria-labelledby={id}>
      <div class="section-head">
        <h2 id={id}>{title}</h2>
        <Button icon="plus" off={props.addOff} onClick={() => setPicking(true)}>
          {add}
        </Button>
      </div>
      <Show of={of} rows={2}>
        {(names) =>
          names.length ? (
            <ul>
              {names.map((name) => (
                <li class="tree-line" key={name} data-row>
                  <a class="name" href={props.link(name)}>
                    <Icon name={props.icon} />
                    <span>{visible(name)}</span>
                  </a>
                  <span class="space" />
                  <Button
                    kind="quiet"
                    icon="close"
                    label={`Remove ${visible(name)}`}
                    off={props.removeOff(name)}
                    onClick={async () => {
                      await props.onRemove(name);
                      of.reload();
                    }}
                  />
                </li>
              ))}
            </ul>
          ) : (
            <p class="faint">{props.none}</p>
          )
        }
      </Show>
      {picking && (
        <NamePicker
          title={add}
          kind={kind}
          without={of.data ?? []}
          list={props.list}
          onClose={() => setPicking(false)}
          onPick={async (name) => {
            setPicking(false);
            await props.onAdd(name);
            of.reload();
          }}
        />
      )}
    </section>
  );
}
