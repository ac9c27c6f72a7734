/** The dialog that begins an import; the job's page shows how it goes. */
import { api } from "../api/client";
import { change, go, inRepository } from "../app/router";
import { Dialog } from "./dialog";
import { Choice, Field, Form } from "./form";
import { MessageFields, metadataOf } from "./message";
import { Command } from "./states";
import { sh } from "./text";

export function ImportDialog(props: { repo: string; branch: string; folder: string }) {
  const { repo, branch, folder } = props;
  const close = () => change({ import: undefined }, { replace: true });
  const submit = async (fields: Record<string, string>) => {
    const { source = "", destination = "", message = "", type } = fields;
    const begun = await api(
      "POST /repositories/{repository}/branches/{branch}/import",
      { repository: repo, branch },
      {
        body: {
          paths: [
            { type: type === "object" ? "object" : "common_prefix", path: source, destination },
          ],
          commit: { message, metadata: metadataOf(fields) },
        },
      },
    );
    go(inRepository(repo, `jobs/${encodeURIComponent(begun.id)}`));
  };
  return (
    <Dialog title={`Import into ${branch}`} onClose={close}>
      <Form action="Import" submit={submit} onCancel={close}>
        <p>
          The objects stay where they are: the import records their addresses, as one commit. What
          is at the destination is replaced.
        </p>
        <Choice
          label="What"
          name="type"
          options={[
            ["common_prefix", "everything below a prefix"],
            ["object", "one object"],
          ]}
        />
        <Field
          label="Source"
          name="source"
          hint="A URL of the storage, for example s3://bucket/sales/"
          required
          focus
        />
        <Field
          label="Destination"
          name="destination"
          value={folder}
          hint="A folder of this branch, with a slash at its end (empty: the whole branch); of one object, its path"
        />
        <MessageFields value="Import" />
        <Command text={sh`graveler import s3://BUCKET/PREFIX/ ${repo}/${branch}/${folder}`} />
      </Form>
    </Dialog>
  );
}
