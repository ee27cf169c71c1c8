// `espalier tail <run>`: what happens in a run, while it happens, wherever it is led.

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
  RunReading,
  joinAgentPaths,
  resolveRunName,
} from "../run-reading.ts";
import { wakeAfter, getTimeMs } from "../machine-time.ts";
import { openProjectStore } from "../project.ts";
import { printNotice, detectOwnCommand, printLine, type Shell } from "../shell.ts";

const LOOK_MS = 100;

export const body: CommandBody = async (call) => {
  const { shell, args } = call;
  const from = readFromOption(call);
  await using kept = await openProjectStore(call, "read");
  const run = new RunReading(kept.store, await resolveRunName(kept.store, args[0] ?? ""));
  const follower = new Follower(call, from);
  shell.onSignal("SIGINT", () => {
    follower.stop();
    shell.leave(EXIT_CODES.cancelled);
  });
  let said = "";
  for (;;) {
    await run.advance((event) => follower.take(event));
    follower.catchUp();
    if (isAtRest(run)) break;
    const listing = run.listing(getTimeMs());
    const alone = describeUnownedRun(listing, detectOwnCommand(shell));
    // Says once that nothing will come by itself.
    if (alone !== undefined && listing.status !== said) printNotice(shell, alone);
    said = listing.status;
    if (said === "lost") {
      follower.stop();
      return EXIT_CODES.paused;
    }
    await wait(LOOK_MS);
  }
  follower.stop();
  follower.checkAgent(run);
  if (!call.has("events")) {
    const result = await findStoredResult(kept.store, run.stored);
    const text = result === undefined ? "" : describeResult(result);
    if (text !== "") printLine(shell, text);
  }
  return EXIT_CODES[run.fold.end?.status ?? "completed"];
};

/** False for a paused run that a post has opened since: it continues. */
function isAtRest({ fold, stored }: RunReading): boolean {
  if (fold.end === undefined) return false;
  return fold.end.status !== "paused" || stored.status !== "open";
}

/** Hands events to what shows them. Owns the time of what is past. */
class Follower {
  readonly #shell: Shell;
  readonly #path: string | undefined;
  readonly #from: number;
  readonly #isRaw: boolean;
  readonly #view: TerminalView | undefined;
  /** The time of the event that is shown, as long as what is past is read. */
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
    // The time is that of the runs: what happened an hour ago is shown as an hour old.
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
    // Of the beginning nothing is said, but times count from it.
    if (type === "run.started" || this.#isWanted(event)) this.#view?.emit(event);
  }

  /** Throws UsageError if no agent of the run has the path of `--agent`. */
  checkAgent({ fold: { agents } }: RunReading): void {
    const path = this.#path;
    if (path === undefined || agents.some(({ agentPath }) => agentPath === path)) return;
    throw new UsageError(
      `Expected --agent to be the path of an agent (${joinAgentPaths(agents)}), got ${JSON.stringify(path)}.`,
    );
  }

  /** All that is recorded by now was taken. */
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
  const said = text("from");
  if (said === undefined) return undefined;
  const from = Number(said);
  if (Number.isInteger(from) && from > 0) return from;
  throw new UsageError(`Expected --from to be the number of an event, from 1, got ${said}.`);
}
