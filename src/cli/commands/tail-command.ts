// `espalier tail <run>`: prints the events of a run while they happen, whichever process owns the
// run.

import { setTimeout as wait } from "node:timers/promises";

import type { EspalierEvent } from "espalier";
import { terminalView, type TerminalView } from "espalier/terminal";

import type { CommandBody, CommandCall } from "../command-call.ts";
import { EXIT_CODES, UsageError } from "../exit-codes.ts";
import { describeResult } from "../follow-run.ts";
import { formatJsonLine } from "../json-text.ts";
import {
  describeUnownedRun,
  findStoredResult,
  StoredRunReader,
  joinAgentPaths,
  resolveRunName,
} from "../stored-run-reader.ts";
import { wakeAfter, getTimeMs } from "../machine-time.ts";
import { openProjectStore } from "../project.ts";
import { printNotice, printLine, type Shell } from "../shell.ts";

const LOOK_MS = 100;

export const body: CommandBody = async (call) => {
  const { shell, args } = call;
  const from = readFromOption(call);
  await using chosenStore = await openProjectStore(call, "read");
  const run = new StoredRunReader(
    chosenStore.store,
    await resolveRunName(chosenStore, args[0] ?? ""),
  );
  const follower = new Follower(call, from);
  shell.onSignal("SIGINT", () => {
    follower.stop();
    shell.leave(EXIT_CODES.cancelled);
  });
  let reported = "";
  for (;;) {
    await run.advance((event) => follower.take(event));
    follower.catchUp();
    if (isAtRest(run)) break;
    const listing = run.getListing(getTimeMs());
    const alone = describeUnownedRun(listing, call.command);
    // Reports once that the run does not continue by itself.
    if (alone !== undefined && listing.status !== reported) printNotice(shell, alone);
    reported = listing.status;
    if (reported === "lost") {
      follower.stop();
      return EXIT_CODES.paused;
    }
    await wait(LOOK_MS);
  }
  follower.stop();
  follower.checkAgent(run);
  if (!call.has("events")) {
    const result = await findStoredResult(chosenStore.store, run.stored);
    const text = result === undefined ? "" : describeResult(result);
    if (text !== "") printLine(shell, text);
  }
  return EXIT_CODES[run.fold.end?.status ?? "completed"];
};

/** Returns false for a paused run that a message in its mailbox has reopened: it continues. */
function isAtRest({ fold, stored }: StoredRunReader): boolean {
  if (fold.end === undefined) return false;
  return fold.end.status !== "paused" || stored.status !== "open";
}

/** Passes events to their output. Owns the time of past events. */
class Follower {
  readonly #shell: Shell;
  readonly #path: string | undefined;
  readonly #from: number;
  readonly #isRaw: boolean;
  readonly #view: TerminalView | undefined;
  /** Time of the shown event, while past events are read. */
  #pastMs: number | undefined;

  constructor({ shell, text, has }: CommandCall, from: number | undefined) {
    this.#shell = shell;
    this.#path = text("agent");
    this.#from = from ?? 1;
    this.#isRaw = has("events");
    const { stdout, env } = shell;
    const isWhole = this.#path === undefined && from === undefined;
    const plain = { write: (piece: string) => stdout.write(piece), on: doNothing, off: doNothing };
    const stream = isWhole ? stdout : plain;
    // Past events are shown with the time of the run, so their ages are correct.
    const monotonicMs = (): number => this.#pastMs ?? getTimeMs();
    const clock = { nowMs: getTimeMs, monotonicMs, setTimer: wakeAfter };
    this.#view = this.#isRaw ? undefined : terminalView({ stream, env, clock });
  }

  take(event: EspalierEvent): void {
    this.#pastMs = event.atMs;
    if (this.#isRaw) {
      if (this.#isWanted(event)) printLine(this.#shell, formatJsonLine(event));
      return;
    }
    const { type } = event;
    // The start is not shown, but times are relative to it.
    if (type === "run.started" || this.#isWanted(event)) this.#view?.emit(event);
  }

  /** Throws UsageError if no agent of the run has the path of `--agent`. */
  checkAgent({ fold: { agents } }: StoredRunReader): void {
    const path = this.#path;
    if (path === undefined || agents.some(({ agentPath }) => agentPath === path)) return;
    throw new UsageError(
      `Expected --agent to be the path of an agent (${joinAgentPaths(agents)}), got ${JSON.stringify(path)}.`,
    );
  }

  /** Records that all past events were read. */
  catchUp(): void {
    this.#pastMs = undefined;
  }

  stop(): void {
    this.#view?.stop();
  }

  #isWanted({ seq, agentPath }: EspalierEvent): boolean {
    const path = this.#path;
    const isBelow = path === undefined || agentPath === path || agentPath.startsWith(`${path}/`);
    return isBelow && seq >= this.#from;
  }
}

function doNothing(): void {}

function readFromOption({ text }: CommandCall): number | undefined {
  const value = text("from");
  if (value === undefined) return undefined;
  const from = Number(value);
  if (Number.isInteger(from) && from > 0) return from;
  throw new UsageError(`Expected --from to be the number of an event, from 1, got ${value}.`);
}
