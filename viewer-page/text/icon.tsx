// Icons for statuses. They are drawn, because fonts differ in their glyphs and in their colours.
// The word for an icon is beside it, or is its label.

import type { RunRowStatus } from "../../src/read-model/viewer-data.ts";
import type { DisplayStatus } from "../data/agent-row.ts";

export type Sign = DisplayStatus | RunRowStatus | "refused" | "tool-error" | "open" | "closed";

const PATHS: Readonly<Record<Sign, string>> = {
  completed: "M3 8.5l3.2 3.2L13 4.8",
  failed: "M4 4l8 8M12 4l-8 8",
  stopped: "M4.5 4.5h7v7h-7z",
  cancelled: "M8 3a5 5 0 100 10A5 5 0 008 3zM4.6 11.4l6.8-6.8",
  refused: "M8 3a5 5 0 100 10A5 5 0 008 3zM5 8h6",
  "tool-error": "M8 3l5.5 10h-11zM8 7v3M8 11.6v.4",
  paused: "M6 4v8M10 4v8",
  asking: "M5.4 6.1A2.6 2.6 0 118 8.7v1.1M8 12.1v.4",
  input_required: "M5.4 6.1A2.6 2.6 0 118 8.7v1.1M8 12.1v.4",
  working: "M8 5a3 3 0 100 6 3 3 0 000-6z",
  waiting: "M8 3a5 5 0 100 10A5 5 0 008 3zM8 5.4V8l1.8 1.4",
  lost: "M8 5a3 3 0 100 6 3 3 0 000-6zM3 13L13 3",
  ended: "M3 8.5l3.2 3.2L13 4.8",
  open: "M4 6l4 4 4-4",
  closed: "M6 4l4 4-4 4",
};

const FILLED: ReadonlySet<Sign> = new Set(["working", "stopped"]);

export function Icon({ sign }: { readonly sign: Sign }) {
  return (
    <svg class={`icon sign-${sign}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={PATHS[sign]} class={FILLED.has(sign) ? "filled" : "drawn"} />
    </svg>
  );
}
