/** "Use this": lines for programs that read an object, a folder or a ref, pinned to the commit. */

import { urlOf } from "../api/client";
import { addressOf, downloadOf, type Place } from "../api/objects";
import { change, inRepository, root } from "../app/router";
import { Copy } from "./button";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { forPrograms, lastName, sh, shell, short, visible } from "./text";

type Format = "parquet" | "csv" | "json" | "";

export interface Use {
  readonly name: string;
  /** What it needs. */
  readonly needs: string;
  readonly text: string;
}

/** The format that engines read here, by the ends of the names. */
function formatOf(names: readonly string[]): Format {
  for (const name of names) {
    const end = /\.(parquet|csv|jsonl|ndjson)$/i.exec(name)?.[1]?.toLowerCase();
    if (end === "parquet" || end === "csv") return end;
    if (end) return "json";
  }
  return "";
}

/** A text as a literal of Python. */
const python = (text: string): string => forPrograms(JSON.stringify(text));

/** The way to "use this" of a ref, in a list of refs. */
export function UseLink({ repo, ref_: ref }: { repo: string; ref_: string }) {
  return (
    <a
      class="button quiet only-icon"
      href={inRepository(repo, "objects", { ref, use: true })}
      aria-label={`Use ${visible(ref)}`}
    >
      <Icon name="code" />
    </a>
  );
}

/** The lines for a place whose ref is a commit.  `names`: what is there. */
export function usesOf(place: Place, names: readonly string[]): readonly Use[] {
  const { path } = place;
  const isFolder = path === "" || path.endsWith("/");
  return [
    ...libraries(place, isFolder, formatOf(names) || (isFolder ? "parquet" : "")),
    ...tools(place, isFolder),
  ];
}

function libraries(place: Place, isFolder: boolean, format: Format): Use[] {
  const { repo, ref, path } = place;
  const at = `graveler://${repo}/${ref}/${path}`;
  const verb = /^[0-9a-f]{64}$/.test(ref) ? "commit" : "ref";
  const opened = `commit = graveler.connect().repository(${python(repo)}).${verb}(${python(ref)})\n`;
  const head = `import graveler\n\n${opened}`;
  const list = `for entry in commit.list(${python(path)}):\n    print(entry.path, entry.size)`;
  const own: Use = {
    name: "Python",
    needs: "pip install graveler",
    text: head + (isFolder ? list : `data = commit.read_bytes(${python(path)})`),
  };
  if (!format) return [own];
  const inside = isFolder ? `${at}**/*.${format}` : at;
  const table = `commit.dataset(${python(path)}, format=${python(format)}).to_table()`;
  const extra = isFolder ? "graveler[arrow]" : "graveler[fsspec]";
  const spark = format === "csv" ? 'spark.read.option("header", True).csv' : `spark.read.${format}`;
  const lines = format === "json" ? ", lines=True" : "";
  const reader = format === "json" ? "read_ndjson" : `read_${format}`;
  return [
    own,
    {
      name: "pandas",
      needs: `pip install pandas "${extra}"`,
      text: isFolder
        ? `${head}frame = ${table}.to_pandas()`
        : `import pandas\n\nframe = pandas.read_${format}(${python(at)}${lines})`,
    },
    {
      name: "Polars",
      needs: `pip install polars "${extra}"`,
      text: isFolder
        ? `import graveler\nimport polars\n\n${opened}frame = polars.from_arrow(${table})`
        : `import graveler\nimport polars\n\n${opened}with commit.open(${python(path)}, "rb") as file:\n    frame = polars.${reader}(file)`,
    },
    {
      name: "DuckDB",
      needs: 'pip install duckdb "graveler[fsspec]"',
      text:
        "import duckdb\nimport graveler\n\n" +
        "database = duckdb.connect()\ndatabase.register_filesystem(graveler.fs())\n" +
        `rows = database.read_${format}(${python(inside)})`,
    },
    {
      name: "Spark",
      needs: "hadoop-aws; fs.s3a.endpoint, its keys, and fs.s3a.path.style.access=true",
      text: `frame = ${spark}(${python(`s3a://${repo}/${ref}/${path}`)})`,
    },
  ];
}

function tools(place: Place, isFolder: boolean): Use[] {
  const { repo, ref, path } = place;
  const origin = root.origin;
  const address = addressOf(place);
  const s3 = shell(`s3://${repo}/${ref}/${path}`);
  const file = lastName(path);
  const listing = urlOf(
    "GET /repositories/{repository}/refs/{ref}/objects/ls",
    { repository: repo, ref },
    { prefix: path },
  );
  const url = shell(origin + (isFolder ? listing : downloadOf(place)));
  const aws = `aws s3 --endpoint-url ${origin}`;
  return [
    {
      name: "Command line",
      needs: "pip install graveler; graveler login",
      text: isFolder ? sh`graveler cp -r ${address} .` : sh`graveler cp ${address} .`,
    },
    {
      name: "curl",
      needs: "a key of this service in the two variables",
      text:
        'curl -u "$GRAVELER_ACCESS_KEY_ID:$GRAVELER_SECRET_ACCESS_KEY" ' +
        (isFolder ? url : `-o ${shell(`./${file}`)} ${url}`),
    },
    {
      name: "S3",
      needs: "the aws cli, with a key of this service; on AWS the URL of the S3 gateway",
      text: isFolder ? `${aws} cp --recursive ${s3} ./` : `${aws} cp ${s3} ./`,
    },
  ];
}

export function Uses(props: { place: Place; names: readonly string[]; isCommitted?: boolean }) {
  const { place, names, isCommitted = true } = props;
  return (
    <>
      <p class="faint">
        {isCommitted
          ? `Each line names the commit ${short(place.ref)}, so it reads the same for ever.`
          : "This version is not committed: the lines name the branch, which may change."}{" "}
        Python takes the server and the key that <code>graveler login</code> wrote.
      </p>
      {usesOf(place, names).map(({ name, needs, text }) => (
        <figure class="use" key={name}>
          <figcaption>
            <strong>{name}</strong> <span class="faint">{needs}</span>
            <span class="space" />
            <Copy text={text} label={`Copy the lines for ${name}`} />
          </figcaption>
          <pre tabIndex={0} role="region" aria-label={`Lines for ${name}`}>
            {text.split("\n").map(visible).join("\n")}
          </pre>
        </figure>
      ))}
    </>
  );
}

/** The same as a dialog, of a folder or a ref.  `name`: the ref that the reader knows. */
export function UseDialog(props: { place: Place; names: readonly string[]; name: string }) {
  const { place, names, name } = props;
  const what = place.path ? lastName(place.path) : place.repo;
  return (
    <Dialog
      wide
      title={`Use ${visible(what)} at ${visible(/^[0-9a-f]{64}$/.test(name) ? short(name) : name)}`}
      onClose={() => change({ use: undefined }, { replace: true })}
    >
      <Uses place={place} names={names} />
    </Dialog>
  );
}
