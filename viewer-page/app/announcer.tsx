// Announces events to screen readers: a new question at once, everything else at most once a
// second.

import { signal } from "@preact/signals";

import { startTimer } from "../data/page-clock.ts";

const urgent = signal("");
const calm = signal("");
let next = "";
let isWaiting = false;

export function announceNow(text: string): void {
  urgent.value = text;
}

/** Announces the text within a second. A newer text replaces it. */
export function announce(text: string): void {
  next = text;
  if (isWaiting) return;
  isWaiting = true;
  startTimer(1_000, () => {
    isWaiting = false;
    calm.value = next;
  });
}

export function Announcer() {
  return (
    <div class="read-aloud">
      <div role="alert">{urgent.value}</div>
      <div role="status">{calm.value}</div>
    </div>
  );
}

export function copy(text: string, message: string): void {
  navigator.clipboard.writeText(text).then(
    () => announce(message),
    () => announce("The browser blocked copying."),
  );
}
