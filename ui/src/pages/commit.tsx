/** A commit: what it says, what it changed; undo, cherry-pick, branch and tag from here. */
import { useState } from "preact/hooks";
import { api, type Commit } from "../api/client";
import { useLoad } from "../api/load";
import { change, go, inRepository, query } from "../app/router";
import type { Params } from "../app/routes";
import { say } from "../app/toasts";
import { Button, ButtonLink, Copy } from "../parts/button";
import { Dialog } from "../parts/dialog";
import { between, DiffTree } from "../parts/difftree";
import { CommitLink, Facts, Time } from "../parts/facts";
import { Field, Form } from "../parts/form";
import { Page } from "../parts/page";
import { RefPicker, useRefOrDefault } from "../parts/refs";
import { ASKING, repositoryArn, useRights } from "../parts/rights";
import { Sheet } from "../parts/sheet";
import { Empty, Failure, Show } from "../parts/states";
import { firstLine, sh, short, visible } from "../parts/text";

export function CommitPage({ params }: { params: Params }) {
  const { repo = "", id = "" } = params;
  const loaded = useLoad(`commit ${repo} ${id}`, (signal) =>
    api(
      "GET /repositories/{repository}/commits/{commitId}",
      { repository: repo, commitId: id },
      { signal },
    ),
  );
  return (
    <Page
      title={loaded.data ? firstLine(loaded.data.message) : short(id)}
      heading={loaded.data ? visible(firstLine(loaded.data.message)) : short(id)}
      command={sh`graveler show ${repo}/${short(id)}`}
      actions={loaded.data && <Actions repo={repo} of={loaded.data} />}
    >
      <Show of={loaded}>{(commit) => <Content repo={repo} of={commit} />}</Show>
    </Page>
  );
}

function Content({ repo, of }: { repo: string; of: Commit }) {
  const parent = Number(query.value.get("parent") ?? 1);
  const against = of.parents[parent - 1];
  const rest = of.message.split("\n").slice(1).join("\n").trim();
  const metadata = Object.entries(of.metadata);
  return (
    <>
      {rest && <pre class="message">{visible2(rest)}</pre>}
      <Facts
        of={[
          ["Committer", visible(of.committer)],
          ["Time", <Time key="time" at={of.creation_date} />],
          [
            "Commit",
            <span key="id">
              <code>{of.id}</code>
              <Copy text={of.id} label="Copy the commit id" />
            </span>,
          ],
          [
            of.parents.length > 1 ? "Parents" : "Parent",
            of.parents.length ? (
              <span class="actions" key="parents">
                {of.parents.map((id) => (
                  <CommitLink key={id} repo={repo} id={id} />
                ))}
              </span>
            ) : (
              "none: the first commit"
            ),
          ],
          [
            "Hooks",
            <a key="hooks" href={inRepository(repo, "actions", { commit: of.id })}>
              Runs of hooks for this commit
            </a>,
          ],
          ...metadata.map(([key, value]) => [visible(key), visible(value)] as const),
        ]}
      />
      <section class="section">
        <div class="heading">
          <h2>What it changed</h2>
          {of.parents.length > 1 && (
            <div class="actions">
              {of.parents.map((id, at) => (
                <Button
                  key={id}
                  pressed={at + 1 === parent}
                  onClick={() => change({ parent: at === 0 ? "" : at + 1 })}
                >
                  against parent {at + 1}
                </Button>
              ))}
            </div>
          )}
        </div>
        {against ? (
          <DiffTree
            key={against}
            of={between(repo, against, of.id, "two_dot")}
            empty={<Empty title="This commit changed no object" />}
          />
        ) : (
          <Empty title="The first commit has nothing before it">
            <a href={inRepository(repo, "objects", { ref: of.id })}>Look at its objects</a>
          </Empty>
        )}
      </section>
    </>
  );
}

/** As `visible`, but with line ends. */
const visible2 = (text: string): string => text.split("\n").map(visible).join("\n");

type Verb = "revert" | "cherry-pick" | "tag";

function Actions({ repo, of }: { repo: string; of: Commit }) {
  const [verb, setVerb] = useState<Verb | undefined>();
  const close = () => setVerb(undefined);
  const first = of.parents.length ? "" : "the first commit cannot be undone";
  return (
    <>
      <ButtonLink icon="folder" href={inRepository(repo, "objects", { ref: of.id })}>
        Objects
      </ButtonLink>
      <Button icon="undo" off={first} onClick={() => setVerb("revert")}>
        Undo
      </Button>
      <Sheet>
        <Button icon="copy" off={first} onClick={() => setVerb("cherry-pick")}>
          Cherry-pick
        </Button>
        <ButtonLink icon="code" href={inRepository(repo, "objects", { ref: of.id, use: true })}>
          Use this
        </ButtonLink>
        <ButtonLink
          icon="branch"
          href={inRepository(repo, "branches", { create: true, source: of.id })}
        >
          Branch
        </ButtonLink>
        <ButtonLink icon="tag" href={inRepository(repo, "tags", { create: true, source: of.id })}>
          Tag
        </ButtonLink>
      </Sheet>
      {(verb === "revert" || verb === "cherry-pick") && (
        <Apply repo={repo} of={of} verb={verb} onClose={close} />
      )}
    </>
  );
}

/** Undo or repeat a commit on a branch, with a preview of what that changes. */
function Apply(props: {
  repo: string;
  of: Commit;
  verb: "revert" | "cherry-pick";
  onClose(): void;
}) {
  const { repo, of, verb } = props;
  const [chosen, setChosen] = useState("");
  const [branch, about] = useRefOrDefault(repo, chosen);
  const needed = verb === "revert" ? "fs:RevertBranch" : "fs:CreateCommit";
  const off = useRights(branch ? [[needed, repositoryArn(`${repo}/branch/${branch}`)]] : [])(
    needed,
  );
  const parent = of.parents.length > 1 ? 1 : 0;
  const isRevert = verb === "revert";
  const [left, right] = isRevert ? [of.id, of.parents[0] ?? ""] : [of.parents[0] ?? "", of.id];
  const subject = firstLine(of.message);
  const submit = async (fields: Record<string, string>) => {
    const place = { repository: repo, branch };
    const commit_overrides = { message: fields.message ?? "" };
    let id = branch;
    if (isRevert) {
      await api("POST /repositories/{repository}/branches/{branch}/revert", place, {
        body: { ref: of.id, parent_number: parent, commit_overrides },
      });
    } else {
      const made = await api(
        "POST /repositories/{repository}/branches/{branch}/cherry-pick",
        place,
        {
          body: { ref: of.id, commit_overrides, ...(parent && { parent_number: parent }) },
        },
      );
      id = made.id;
    }
    say(isRevert ? `The commit is undone on ${branch}.` : `The commit is repeated on ${branch}.`);
    go(
      isRevert
        ? inRepository(repo, "commits", { ref: branch })
        : inRepository(repo, `commits/${id}`),
    );
  };
  return (
    <Dialog
      title={isRevert ? "Undo this commit" : "Cherry-pick this commit"}
      onClose={props.onClose}
    >
      <Form
        action={isRevert ? `Undo on ${branch}` : `Repeat on ${branch}`}
        off={branch ? off : (about.error?.message ?? ASKING)}
        submit={submit}
        onCancel={props.onClose}
      >
        <p>
          A new commit on the branch {isRevert ? "takes back" : "repeats"} what{" "}
          <span class="id">{short(of.id)}</span> changed. History stays as it is.
        </p>
        <Failure of={about} />
        <div>
          <RefPicker repo={repo} value={branch} label="Branch" onlyBranches onPick={setChosen} />
        </div>
        <Preview repo={repo} left={left} right={right} />
        <Field
          label="Message"
          name="message"
          lines={2}
          value={isRevert ? `Revert ${subject}` : of.message}
          required
        />
      </Form>
    </Dialog>
  );
}

function Preview({ repo, left, right }: { repo: string; left: string; right: string }) {
  // Without links: they would leave the dialog.
  const { key, list, summary } = between(repo, left, right, "two_dot");
  return (
    <section class="paths preview" aria-label="What changes">
      <DiffTree
        of={{ key, list, summary }}
        empty={<p class="faint">No object changes.</p>}
        isPlain
      />
    </section>
  );
}
