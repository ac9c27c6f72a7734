/** A list of entities: a row for each, which begins with its link. */
import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icons";
import { visible } from "./text";

export interface Column<T> {
  readonly title: string;
  readonly class?: string;
  /** The title is only for screen readers. */
  readonly hidden?: boolean;
  cell(of: T): ComponentChildren;
}

export interface ListProps<T> {
  readonly of: readonly T[];
  readonly icon: IconName;
  /** Columns beside the name. */
  readonly columns: ReadonlyArray<Column<T>>;
  /** Of the first column. */
  readonly title?: string;
  linkOf(of: T): string;
  /** What the link says, if it is not the id. */
  nameOf?(of: T): string;
  /** Beside the name. */
  badge?(of: T): ComponentChildren;
}

export function List<T extends { readonly id: string }>(props: ListProps<T>) {
  const { of, icon, columns, title = "Name" } = props;
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">{title}</th>
          {columns.map((column) => (
            <th key={column.title} scope="col" class={column.class}>
              {column.hidden ? <span class="hidden">{column.title}</span> : column.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {of.map((each) => (
          <tr key={each.id} data-row>
            <td>
              <a class="name" href={props.linkOf(each)}>
                <Icon name={icon} />
                <span>{visible(props.nameOf?.(each) ?? each.id)}</span>
              </a>
              {props.badge?.(each)}
            </td>
            {columns.map((column) => (
              <td key={column.title} class={column.class}>
                {column.cell(each)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
