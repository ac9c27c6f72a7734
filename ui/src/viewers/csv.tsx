/** CSV and TSV as a table: the first MiB, 200 rows at a time. */
import { parse } from "papaparse";
import { useMemo, useState } from "preact/hooks";
import { Button } from "../parts/button";
import { ColumnPicker, chosenColumns } from "./columns";
import { Export } from "./export";
import { DataTable } from "./table";
import { type ViewerProps, WithText } from "./viewer";

const MOST = 1024 * 1024;
const ROWS = 200;

export function CsvViewer(props: ViewerProps) {
  return (
    <WithText of={props} most={MOST}>
      {(text, isWhole) => <Table text={text} isWhole={isWhole} path={props.place.path} />}
    </WithText>
  );
}

function Table({ text, isWhole, path }: { text: string; isWhole: boolean; path: string }) {
  const [shown, setShown] = useState(ROWS);
  const rows = useMemo(() => {
    const found = parse<string[]>(text, {
      skipEmptyLines: true,
      delimiter: path.toLowerCase().endsWith(".tsv") ? "\t" : "",
    }).data;
    return isWhole ? found : found.slice(0, -1); // the last line was cut
  }, [text, isWhole, path]);
  const [header = [], ...body] = rows;
  const columns = chosenColumns(header);
  const places = header.flatMap((name, at) => (columns.includes(name) ? [at] : []));
  const seen = body.slice(0, shown).map((row) => places.map((at) => row[at]));
  return (
    <>
      <DataTable label="Rows of the file" columns={columns} rows={seen} />
      <div class="faint more-note">
        {Math.min(shown, body.length).toLocaleString("en")} of {body.length.toLocaleString("en")}
        {isWhole ? "" : " or more"} rows{" "}
        {shown < body.length && <Button onClick={() => setShown(shown + ROWS)}>More rows</Button>}
        <ColumnPicker of={header} />
        <Export path={path} columns={columns} rows={seen} />
      </div>
    </>
  );
}
