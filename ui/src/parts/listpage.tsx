/** A page with a list of entities: its filter, its pages, and the creation of one. */
import type { ComponentChildren } from "preact";
import type { Pagination } from "../api/client";
import { useLoad } from "../api/load";
import { change, query } from "../app/router";
import { Button } from "./button";
import { Dialog } from "./dialog";
import type { IconName } from "./icons";
import { type Column, List } from "./list";
import { Page } from "./page";
import { NextPage, PrefixFilter } from "./paged";
import { type Pair, useRights } from "./rights";
import { Empty, Show } from "./states";
import { visible } from "./text";

interface Paging {
  readonly prefix: string;
  readonly after: string;
  readonly amount: number;
}

export interface ListPageProps<T> {
  /** `Users`, and `user`. */
  readonly title: string;
  readonly one: string;
  readonly icon: IconName;
  readonly command: string;
  /** What the creation needs. */
  readonly right: Pair;
  /** Columns beside the name. */
  readonly columns: ReadonlyArray<Column<T>>;
  /** Above the list. */
  readonly children?: ComponentChildren;
  readonly wide?: boolean;
  load(
    paging: Paging,
    signal: AbortSignal,
  ): Promise<{ readonly results: readonly T[]; readonly pagination: Pagination }>;
  linkOf(id: string): string;
  /** Beside the name. */
  badge?(of: T): ComponentChildren;
  /** What the dialog holds that creates one. */
  form(close: () => void): ComponentChildren;
}

export function ListPage<T extends { readonly id: string }>(props: ListPageProps<T>) {
  const { title, one } = props;
  const prefix = query.value.get("search") ?? "";
  const after = query.value.get("after") ?? "";
  const loaded = useLoad(`${title} ${prefix} ${after}`, (signal) =>
    props.load({ prefix, after, amount: 100 }, signal),
  );
  const off = useRights([props.right])(props.right[0]);
  const close = () => change({ create: undefined }, { replace: true });
  return (
    <Page
      title={title}
      command={props.command}
      actions={
        <>
          <PrefixFilter />
          <Button kind="primary" icon="plus" off={off} onClick={() => change({ create: true })}>
            {`New ${one}`}
          </Button>
        </>
      }
    >
      {props.children}
      <Show of={loaded}>
        {(page) =>
          page.results.length ? (
            <>
              <List
                of={page.results}
                icon={props.icon}
                columns={props.columns}
                linkOf={(each) => props.linkOf(each.id)}
                {...(props.badge && { badge: props.badge })}
              />
              <NextPage of={page.pagination} />
            </>
          ) : (
            <Empty icon="search" title={`No ${one} begins with “${visible(prefix)}”`} />
          )
        }
      </Show>
      {query.value.get("create") && (
        <Dialog title={`New ${one}`} wide={props.wide ?? false} onClose={close}>
          {props.form(close)}
        </Dialog>
      )}
    </Page>
  );
}
