/** Who uses the page: login, logout, set-up. */
import { signal } from "@preact/signals";
import { type ApiError, api, type User, whenRefused } from "../api/client";
import { forgetLists } from "../api/endless";
import { asError, forget } from "../api/load";
import { go, href, ownTarget, path, query } from "./router";

/** The user; undefined until the service has answered, or if nobody is logged in. */
export const user = signal<User | undefined>(undefined);

const ENTRY = ["/auth/login", "/setup", "/login"];

/** Why it is not known who uses the page. */
export const userUnknown = signal<ApiError | undefined>(undefined);

/** Ask who uses the page. */
export async function startSession(): Promise<void> {
  whenRefused(() => void enter());
  if (ENTRY.includes(path.value)) return;
  try {
    user.value = (await api("GET /user", {})).user;
    userUnknown.value = undefined;
  } catch (error) {
    userUnknown.value = asError(error);
  }
}

let entering = false;

/** Show the way in, and come back here after it. */
async function enter(): Promise<void> {
  if (entering || ENTRY.includes(path.value)) return;
  entering = true;
  try {
    const here = `${location.pathname}${location.search}`;
    user.value = undefined;
    const state = await api("GET /setup_lakefs", {});
    const isNew = state.state === "not_initialized";
    go(isNew ? href("/setup") : href("/auth/login", { next: here }), { replace: true });
  } finally {
    entering = false;
  }
}

/** Begin a session, and load the page anew at `target`: what the browser asked before, for example
 * a preload that was refused, must not answer for the session.  Throws `ApiError`. */
export async function logIn(
  key: string,
  secret: string,
  target = ownTarget(query.value.get("next")),
): Promise<void> {
  const body = { access_key_id: key.trim(), secret_access_key: secret.trim() };
  await api("POST /auth/login", {}, { body });
  location.replace(target);
}

/** End the session. */
export async function logOut(): Promise<void> {
  await fetch(href("/logout"), {
    method: "POST",
    headers: { "X-Graveler-Page": "1" },
    credentials: "same-origin",
    redirect: "manual",
  });
  forget();
  forgetLists();
  user.value = undefined;
  go(href("/auth/login"));
}
