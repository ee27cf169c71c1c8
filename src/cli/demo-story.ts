// The presentation of a survey at a terminal: its main events above the live tree, and its
// question.

import { on } from "node:events";

import { approve, deny, type Approver, type EspalierEvent } from "espalier";

import { formatEventLine } from "../terminal/plain-view.ts";
import type { RunFollower } from "./follow-run.ts";
import type { Shell } from "./shell.ts";

const MOMENTS = ["subagent.refused", "tool.ended", "question.asked", "question.answered"];
export const ANSWER_TIMEOUT_MS = 6_000;
const KEYS = `Press y to approve or n to deny. Without an answer it is denied in ${ANSWER_TIMEOUT_MS / 1_000} seconds.\n`;
const CTRL_C = "\u0003";

/** Prints an event above a live tree if the rows of the tree do not explain it. */
export function printMoment({ view }: RunFollower, event: EspalierEvent): void {
  const isEarlyEnd = event.type === "agent.ended" && event.status === "stopped";
  const isShown = view?.isLive === true && (isEarlyEnd || MOMENTS.includes(event.type));
  const line = isShown ? formatEventLine(event) : undefined;
  if (line !== undefined) view?.print(`${line}\n`);
}

/** Returns an approver that waits for one key while the tree stays, until the question expires. */
export function askForKey({ stdin }: Shell, follower: () => RunFollower): Approver {
  return async (question, { signal }) => {
    follower().view?.print(KEYS);
    stdin.setRawMode?.(true);
    try {
      for await (const [key] of on(stdin, "data", { signal })) {
        if (String(key) === "y") return approve(question);
        if (String(key) === "n") return deny(question, "The user pressed n.");
        if (String(key) === CTRL_C) follower().interrupt();
      }
      return undefined;
    } finally {
      stdin.setRawMode?.(false);
      stdin.pause();
    }
  };
}
