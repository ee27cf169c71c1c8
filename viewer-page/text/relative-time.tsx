import { formatDuration } from "../../src/read-model/amounts.ts";
import { tickMs } from "../data/page-clock.ts";

/** Shows the elapsed time, updated every second. */
export function Since({ atMs }: { readonly atMs: number }) {
  return <time dateTime={formatIso(atMs)}>{formatRoughly(tickMs.value - atMs)}</time>;
}

export function Until({ atMs }: { readonly atMs: number }) {
  const leftMs = atMs - tickMs.value;
  return (
    <time dateTime={formatIso(atMs)}>
      {leftMs <= 0 ? "no time left" : `${formatRoughly(leftMs)} left`}
    </time>
  );
}

/** Returns `14:03:21`, with the date if it is another day. */
export function formatMoment(atMs: number, relativeToMs: number): string {
  const at = new Date(atMs);
  const isSameDay = at.toDateString() === new Date(relativeToMs).toDateString();
  const time = at.toTimeString().slice(0, "hh:mm:ss".length);
  return isSameDay
    ? time
    : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

/**
 * Formats a duration: `0s`, `4s`, `3m 10s`, `2h 05m`, `3d`. Without fractions of a second, which
 * change too fast to read.
 */
export function formatRoughly(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 172_800) return formatDuration(seconds * 1_000);
  return `${Math.floor(seconds / 86_400)}d`;
}

function formatIso(atMs: number): string {
  return new Date(atMs).toISOString();
}
