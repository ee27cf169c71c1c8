import { diffLines, type ChangeObject } from "diff";

import { LongText } from "./shown-text.tsx";

/**
 * Limits for a comparison. Longer texts, and texts that take longer to compare, are shown one after
 * the other.
 */
const MAX_COMPARED = 500_000;
const COMPARE_MS = 100;
/**
 * Maximum number of changes, because each change is an element. Texts with more are shown one after
 * the other.
 */
const MAX_CHANGES = 2_000;

type Change = Pick<ChangeObject<string>, "value" | "added" | "removed">;

/** Shows two texts as a line-by-line comparison. */
export function Changes({ from, to }: { readonly from: string; readonly to: string }) {
  return (
    <div class="changes said block">
      {compareTexts(from, to).map(({ value, added, removed }, index) => (
        <div key={index} class={describeChange(added, removed)}>
          {added && <span class="read-aloud">added: </span>}
          {removed && <span class="read-aloud">removed: </span>}
          <LongText text={value.replace(/\n$/, "")} />
        </div>
      ))}
    </div>
  );
}

function describeChange(isAdded: boolean, isRemoved: boolean): string {
  if (isAdded) return "added";
  return isRemoved ? "removed" : "same";
}

export function compareTexts(from: string, to: string): readonly Change[] {
  const isLong = from.length + to.length > MAX_COMPARED;
  const changes = isLong ? undefined : diffLines(from, to, { timeout: COMPARE_MS });
  return changes === undefined || changes.length > MAX_CHANGES
    ? createReplacement(from, to)
    : changes;
}

function createReplacement(from: string, to: string): readonly Change[] {
  return [
    { value: from, added: false, removed: true },
    { value: to, added: true, removed: false },
  ].filter(({ value }) => value !== "");
}
