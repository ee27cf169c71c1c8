// MailReader: looks into the mailbox of a run that this process leads, and does what is asked there. Owns when it looks next.

import { EspalierError, messageOf } from "../../kernel/error.ts";
import { outsideScopes } from "../../protocol/correlation.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";
import type { Run } from "./run.ts";
import { mailIn, type ReceivedMail, type RunMail } from "./run-mail.ts";

/** How often it looks while a question waits for an answer. */
const ANSWER_MS = 500;

/** What mail can ask of a run. */
type MailedRun = Pick<Run, "cancel" | "requestPause" | "requestStop" | "steer" | "grant">;

export class MailReader {
  readonly #run: MailedRun;
  readonly #runtime: RunRuntime;
  readonly #journal: RunJournal;
  /** How often it looks otherwise. */
  #everyMs: number;
  #stopTimer: (() => void) | undefined;
  #isReading = false;
  #isDue = false;

  constructor(run: MailedRun, runtime: RunRuntime, journal: RunJournal) {
    this.#run = run;
    this.#runtime = runtime;
    this.#journal = journal;
    this.#everyMs = runtime.settings.heartbeatMs;
    runtime.pendingAnswers.onWait(() => this.#retime());
  }

  /** From now on it looks by itself. */
  start(): void {
    const { pendingAnswers, settings } = this.#runtime;
    const delayMs = pendingAnswers.isWaitedAt ? Math.min(ANSWER_MS, this.#everyMs) : this.#everyMs;
    const look = (): void => {
      this.start();
      this.look();
    };
    this.#stopTimer = outsideScopes(() => settings.clock.setTimer(delayMs, look));
  }

  stop(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#isDue = false;
  }

  /** Others ask for things by mail: it looks so often. */
  hurry(everyMs: number): void {
    this.#everyMs = everyMs;
    this.#retime();
  }

  #retime(): void {
    if (this.#stopTimer === undefined) return;
    this.#stopTimer();
    this.start();
  }

  /** Looks now; once more, if it is looking already. */
  look(): void {
    this.#isDue = true;
    if (!this.#isReading) void this.#readAll();
  }

  async #readAll(): Promise<void> {
    this.#isReading = true;
    while (this.#isDue) {
      this.#isDue = false;
      // A store that cannot be read now is asked again later; one that is lost is noticed by the journal's writes.
      const posts = await this.#journal.writer.unread().catch(() => []);
      if (this.#stopTimer !== undefined) this.handle(posts.flatMap((post) => mailIn(post) ?? []));
    }
    this.#isReading = false;
  }

  /** Does what is asked, in order. `settled`: what needs nothing further, with what was wrong with it. */
  handle(
    posts: readonly ReceivedMail[],
    settled: ReadonlyMap<number, string | undefined> = NOTHING,
  ): void {
    for (const { number, mail } of posts) {
      const outcome = settled.has(number) ? settled.get(number) : this.#obey(mail);
      if (outcome === false) continue;
      const problem = outcome === undefined ? {} : { problem: outcome };
      this.#journal.append({ type: "post", number, ...problem });
    }
  }

  /** Undefined: it is done; a text: why nothing comes of it; false: it is not for now. */
  #obey(mail: RunMail): string | false | undefined {
    try {
      if (mail.type !== "answer") return this.#doAsAsked(mail);
      const given = this.#runtime.pendingAnswers.give(mail.answer);
      return given === true ? undefined : given;
    } catch (cause) {
      return messageOf(cause);
    }
  }

  #doAsAsked(mail: Exclude<RunMail, { readonly type: "answer" }>): undefined {
    switch (mail.type) {
      case "cancel":
        this.#run.cancel(mail.message).catch(() => undefined); // It has its result, or its failure, where the run is awaited.
        return;
      case "pause":
        this.#run.requestPause();
        return;
      case "stop":
        this.#run.requestStop(mail.message);
        return;
      case "steer":
        void this.#run.steer(mail.message, this.#agentAt(mail.agentPath));
        return;
      case "grant":
        this.#run.grant(mail.budget, { by: mail.by, agentId: this.#agentAt(mail.agentPath) });
        return;
      case "order":
      case "resume":
      case "refused":
    }
  }

  /** The agent at a path of the tree; default the root. */
  #agentAt(agentPath?: string): AgentId {
    const { nodes } = this.#runtime.tree;
    const found =
      agentPath === undefined
        ? nodes[0]
        : nodes.find(({ identity }) => identity.agentPath === agentPath);
    if (found !== undefined) return found.identity.agentId;
    const paths = nodes.map(({ identity }) => identity.agentPath).join(", ");
    throw new EspalierError({
      code: "unknown_agent",
      message: `Expected an agent of the run (${paths}), got ${JSON.stringify(agentPath)}. See the events of the run.`,
    });
  }
}

const NOTHING: ReadonlyMap<number, string | undefined> = new Map();
