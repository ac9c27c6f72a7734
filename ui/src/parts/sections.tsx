/** Pages that belong together: settings of a repository, administration. */
import { useEffect, useRef } from "preact/hooks";
import { href, inRepository } from "../app/router";

type Links = ReadonlyArray<readonly [name: string, href: string]>;

function Sections({ label, at, links }: { label: string; at: string; links: Links }) {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    const here = bar.current?.querySelector<HTMLElement>("[aria-current]");
    if (here) bar.current?.scrollTo({ left: here.offsetLeft - 40 });
  }, []);
  return (
    <nav class="sections" aria-label={label} ref={bar}>
      {links.map(([name, target]) => (
        <a key={name} href={target} aria-current={name === at ? "page" : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}

export function SettingsSections({ repo, at }: { repo: string; at: string }) {
  const links: Links = [
    ["General", inRepository(repo, "settings")],
    ["Protection", inRepository(repo, "settings/branches")],
    ["Retention", inRepository(repo, "settings/retention")],
    ["Collection", inRepository(repo, "settings/collection")],
    ["Events", inRepository(repo, "settings/events")],
  ];
  return <Sections label="Settings" at={at} links={links} />;
}

export function AccessSections({ at }: { at: string }) {
  const links: Links = [
    ["Users", href("/auth/users")],
    ["Groups", href("/auth/groups")],
    ["Policies", href("/auth/policies")],
    ["My access", href("/auth/credentials")],
    ["Audit", href("/auth/audit")],
  ];
  return <Sections label="Access" at={at} links={links} />;
}
