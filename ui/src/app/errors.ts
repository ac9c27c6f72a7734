/** What the reader can do about an error. */
import type { ApiError } from "../api/client";
import { inRepository, path } from "./router";

/** The log of the hooks that refused something; empty for any other error.  The service names the
 * run in this form, as lakeFS does, and only there. */
export function logOf(message: string): string {
  const run = /^[\w-]+ hook aborted, run id '(\w+)': /.exec(message)?.[1];
  const [, first, repo] = path.value.split("/");
  if (!run || first !== "repositories" || !repo) return "";
  return inRepository(repo, `actions/${run}`);
}

/** What went wrong, in the words of the service, unless these are no more than a status. */
export function cause({ message }: ApiError): string {
  return /^(not found: )?not found$/.test(message)
    ? "What this page shows does not exist"
    : message;
}

export function remedy(error: ApiError): string {
  const { status } = error;
  if (error.message.includes("X-Graveler-Setup-Token")) {
    return "Copy the setup token that the service printed when it started.";
  }
  if (error.message.includes("not unique")) return "This name is taken: choose another one.";
  if (logOf(error.message)) return "A hook refused it: its log says why. Nothing has changed.";
  if (error.message.includes("(dirty branch)")) return "Commit or discard the changes first.";
  if (status === 0) return "Check the connection and that the service runs, then try again.";
  if (status === 401) return "Log in again.";
  if (status === 403) return "Ask an administrator for this permission.";
  if (status === 404) return "It may have been deleted or renamed. Check the address.";
  if (status === 409) return "Somebody changed the same thing. Load the page again and look.";
  if (status === 412) return "A condition did not hold. The text above names it.";
  if (status === 423) return "Something else is in progress. Try again in a moment.";
  if (status === 429) return `Too many requests. Wait ${error.retryAfter || "a few"} seconds.`;
  if (status === 400) return "Correct the value that the text above names.";
  if (status >= 500) return "Try again. If it stays, give the request id to an administrator.";
  return "Try again.";
}
