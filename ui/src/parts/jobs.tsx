/** How jobs are shown. */
import type { Job } from "../api/client";
import { count } from "./text";

export const KINDS = [
  "import",
  "commit",
  "merge",
  "pull",
  "copy",
  "reset",
  "bulk",
  "landing",
  "dump",
  "restore",
  "collection",
  "hooks",
  "batch",
] as const;
export const STATES = [
  "queued",
  "running",
  "landing",
  "done",
  "failed",
  "cancelled",
  "expired",
] as const;

export const isOver = (job: Job): boolean => !["queued", "running", "landing"].includes(job.state);

export const seconds = (moment: string): number => Date.parse(moment) / 1000;

export function StateBadge({ of }: { of: string }) {
  const good = of === "done" || of === "completed";
  const bad = of === "failed" || of === "expired";
  return <span class={`badge ${good ? "good" : bad ? "bad" : ""}`}>{of}</span>;
}

/** "1,200 objects"; empty for a job that does not count. */
export function doneText({ progress }: Job): string {
  if (!progress) return "";
  return count(progress.done, progress.unit.replace(/s$/, ""), progress.unit);
}

/** "2 min 5 s" */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
