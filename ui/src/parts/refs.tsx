/** The choice of a branch, a tag or a commit. */
import { useLayoutEffect, useState } from "preact/hooks";
import { api, type Repository } from "../api/client";
import { type Loaded, useLoad } from "../api/load";
import { say } from "../app/toasts";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { repositoryArn, useRights } from "./rights";
import { Show } from "./states";
import { short, visible } from "./text";

const NAME = /^[A-Za-z0-9_][-A-Za-z0-9_]{0,254}$/;

/** The ref that is asked for, else the default branch: empty until it is known, or if it cannot be. */
export function useRefOrDefault(
  repo: string,
  asked: string,
): readonly [ref: string, about: Loaded<Repository>] {
  const about = useLoad(asked ? "" : `repository ${repo}`, (signal) =>
    api("GET /repositories/{repository}", { repository: repo }, { signal }),
  );
  return [asked || about.data?.default_branch || "", about];
}

export function RefPicker(props: {
  readonly repo: string;
  readonly value: string;
  readonly label: string;
  /** Branches alone, where the choice is written to. */
  readonly onlyBranches?: boolean;
  /** A name that is not there yet becomes a branch from this ref. */
  readonly source?: string;
  onPick(ref: string): void;
}) {
  const [open, setOpen] = useState(false);
  const { value, label } = props;
  return (
    <>
      <button
        type="button"
        class="button picker"
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
      >
        <Icon name="branch" />
        <span class="faint">{label}</span>
        <strong>{/^[0-9a-f]{40,}$/.test(value) ? short(value) : visible(value) || "choose"}</strong>
        <Icon name="down" />
      </button>
      {open && (
        <Dialog
          title={props.onlyBranches ? "Choose a branch" : "Choose a branch, tag or commit"}
          onClose={() => setOpen(false)}
        >
          <Choices
            {...props}
            onPick={(ref) => {
              setOpen(false);
              props.onPick(ref);
            }}
          />
        </Dialog>
      )}
    </>
  );
}

function Choices(props: {
  readonly repo: string;
  readonly value: string;
  readonly onlyBranches?: boolean;
  readonly source?: string;
  onPick(ref: string): void;
}) {
  const { repo, onPick, onlyBranches, source } = props;
  const [prefix, setPrefix] = useState("");
  const [isEntered, setEntered] = useState(false);
  const arn = repositoryArn(`${repo}/branch/${prefix}`);
  const off = useRights(source && NAME.test(prefix) ? [["fs:CreateBranch", arn]] : [])(
    "fs:CreateBranch",
  );
  const found = useLoad(`refs ${repo} ${prefix} ${onlyBranches}`, async (signal) => {
    const query = { prefix, amount: 50 };
    const [branches, tags] = await Promise.all([
      api("GET /repositories/{repository}/branches", { repository: repo }, { query, signal }),
      onlyBranches
        ? undefined
        : api("GET /repositories/{repository}/tags", { repository: repo }, { query, signal }),
    ]);
    return { branches: branches.results, tags: tags?.results ?? [] };
  });
  const create = async () => {
    if (!source) return;
    const body = { name: prefix, source };
    await api("POST /repositories/{repository}/branches", { repository: repo }, { body });
    say(`The branch ${prefix} begins at ${NAME.test(source) ? source : short(source)}.`);
    onPick(prefix);
  };
  const placeholder = onlyBranches
    ? "Prefix of the name"
    : `Prefix, a commit, main~1${source ? ", or a new branch" : ""}`;
  const isExpression = !onlyBranches && /^[0-9a-f]{6,64}$|[~^@]/.test(prefix);
  // Enter chooses of what was typed, also when it is faster than the answer.
  useLayoutEffect(() => {
    if (!isEntered || (found.busy && !isExpression)) return;
    setEntered(false);
    const first = found.data?.branches[0] ?? found.data?.tags[0];
    if (isExpression) onPick(prefix);
    else if (first) onPick(first.id);
  });
  return (
    <div class="choices">
      <input
        type="search"
        data-focus
        aria-label="Prefix of the name, or a commit"
        placeholder={placeholder}
        value={prefix}
        onInput={(event) => {
          setPrefix(event.currentTarget.value.trim());
          setEntered(false);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          setEntered(true);
        }}
      />
      {isExpression && (
        <Choice icon="commit" name={prefix} note="as typed" onPick={() => onPick(prefix)} />
      )}
      <Show of={found} rows={4}>
        {({ branches, tags }) => (
          <ul>
            {branches.map((branch) => (
              <li key={branch.id}>
                <Choice
                  icon="branch"
                  name={branch.id}
                  note={short(branch.commit_id)}
                  current={branch.id === props.value}
                  onPick={() => onPick(branch.id)}
                />
              </li>
            ))}
            {tags.map((tag) => (
              <li key={`tag ${tag.id}`}>
                <Choice
                  icon="tag"
                  name={tag.id}
                  note={short(tag.commit_id)}
                  current={tag.id === props.value}
                  onPick={() => onPick(tag.id)}
                />
              </li>
            ))}
            {!branches.length && !tags.length && !isExpression && (
              <li class="faint">No branch or tag begins with this.</li>
            )}
            {source && NAME.test(prefix) && !branches.some(({ id }) => id === prefix) && (
              <li>
                <Button
                  icon="plus"
                  off={off}
                  onClick={create}
                >{`Create the branch ${prefix}`}</Button>
              </li>
            )}
          </ul>
        )}
      </Show>
    </div>
  );
}

function Choice(props: {
  readonly icon: "branch" | "tag" | "commit";
  readonly name: string;
  readonly note: string;
  readonly current?: boolean;
  onPick(): void;
}) {
  return (
    <button type="button" class="choice" aria-current={props.current} onClick={props.onPick}>
      <Icon name={props.icon} />
      <span>{visible(props.name)}</span>
      <span class="faint id">{props.note}</span>
    </button>
  );
}
