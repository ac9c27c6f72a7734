/** The folders above a place, each a link. */
import { Icon } from "./icons";
import { lastName, visible } from "./text";

export function Crumbs(props: {
  readonly root: string;
  readonly path: string;
  link(path: string): string;
}) {
  const { root, path, link } = props;
  const folders: string[] = [];
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
    folders.push(path.slice(0, at + 1));
  }
  if (!path.endsWith("/") && path) folders.push(path);
  return (
    <nav class="crumbs" aria-label="Folder">
      {path ? <a href={link("")}>{visible(root)}</a> : <span>{visible(root)}</span>}
      {folders.map((folder) => (
        <span key={folder}>
          <Icon name="right" />
          {folder === path ? (
            <span aria-current="page">{visible(lastName(folder)).replace(/\/$/, "")}</span>
          ) : (
            <a href={link(folder)}>{visible(lastName(folder)).replace(/\/$/, "") || "/"}</a>
          )}
        </span>
      ))}
    </nav>
  );
}
