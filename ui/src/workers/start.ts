/** Workers: the policy of the page admits URLs of its own files only. */
interface Policy {
  createScriptURL(url: string): URL;
}

let policy: Policy | undefined;

function own(url: string): string {
  const whole = new URL(url, location.href);
  if (whole.origin !== location.origin || !whole.pathname.includes("/_ui/")) {
    if (!import.meta.env.DEV) throw new TypeError(`no file of the page: ${url}`);
  }
  return whole.href;
}

/** Start a worker from the URL that `?worker&url` gives. */
export function startWorker(url: string): Worker {
  const types = (window as { trustedTypes?: { createPolicy(n: string, r: object): Policy } })
    .trustedTypes;
  policy ??= types?.createPolicy("graveler", { createScriptURL: own });
  return new Worker(policy ? policy.createScriptURL(url) : own(url), { type: "module" });
}
