import { diffLines } from "diff";

import { piecesOf } from "./shown-text.tsx";

/** Texts line by line: what goes and what comes. */
export function Changes({ from, to }: { readonly from: string; readonly to: string }) {
  return (
    <div class="changes said block">
      {diffLines(from, to).map(({ value, added, removed }, index) => (
        <div key={index} class={added ? "added" : removed ? "removed" : "same"}>
          {added && <span class="read-aloud">added: </span>}
          {removed && <span class="read-aloud">removed: </span>}
          {piecesOf(value.replace(/\n$/, "")).map(({ text, isUnseen }) =>
            isUnseen ? <span class="unseen">{text}</span> : text,
          )}
        </div>
      ))}
    </div>
  );
}
