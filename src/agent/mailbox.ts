// Mailbox: what is written to one agent while it runs. Owns the messages that the agent has not read yet,
// and the replies to their senders. Made when it is first needed: most agents get no message.

import type { MessageContent } from "../protocol/message-content.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { SettledStatus } from "../protocol/stop.ts";

/**
 * The receipt of a message to an agent: the step whose model call contained it, or the status in
 * which the agent settled without reading it.
 *
 * @example
 * ```ts
 * const receipt = await run.steer("Write in English, please.");
 * if (!receipt.isDelivered) console.log(`Not read: the agent is ${receipt.reason}.`);
 * ```
 */
export type SteerReceipt =
  | { readonly isDelivered: true; readonly stepNumber: number }
  | { readonly isDelivered: false; readonly reason: SettledStatus };

interface Mail {
  readonly message: MailboxMessage;
  readonly answer: (delivery: SteerReceipt) => void;
}

/** Something that was written to an agent. */
export interface MailboxMessage {
  readonly content: MessageContent;
  /** The subagent in the background whose result it is; undefined: the agent is steered. */
  readonly reportOf: AgentId | undefined;
  /** The agent that wrote it; undefined: it comes from outside the tree. */
  readonly sender: AgentId | undefined;
}

export class Mailbox {
  #skip: string | undefined;
  #unread: readonly Mail[] = [];
  /** Letters delivered since `takeLetterCount` was last called. */
  #letterCount = 0;
  readonly #listeners = new Set<(message: MailboxMessage) => void>();
  #settled: SettledStatus | undefined;

  /** `settled`: the status in which the agent is at rest; undefined: it reads what comes. */
  constructor(settled?: SettledStatus) {
    this.#settled = settled;
  }

  /** True while the agent rests and reads nothing. */
  get isClosed(): boolean {
    return this.#settled !== undefined;
  }

  /**
   * Writes to the agent. Resolves when it reads the message, or when it settles without having read it. `sender`: the agent that writes;
   * left out: the caller, outside the tree.
   */
  write(content: MessageContent, sender?: AgentId): Promise<SteerReceipt> {
    if (this.#settled !== undefined)
      return Promise.resolve({ isDelivered: false, reason: this.#settled });
    return new Promise((answer) =>
      this.#post({ message: { content, reportOf: undefined, sender }, answer }),
    );
  }

  /** Takes in the result of a subagent in the background. Drops it if the agent has settled: `reactivate` makes it anew. */
  report(childId: AgentId, text: string): void {
    const message = { content: text, reportOf: childId, sender: childId };
    if (this.#settled === undefined) this.#post({ message, answer: () => undefined });
  }

  /** Takes back what a subagent reported: the agent has it in another way. */
  withdraw(childId: AgentId): void {
    this.#unread = this.#unread.filter(({ message }) => message.reportOf !== childId);
  }

  /** True if the subagent has reported and the report was not read. */
  hasReportOf(childId: AgentId): boolean {
    return this.#unread.some(({ message }) => message.reportOf === childId);
  }

  /** Calls `listener` whenever something comes, until the returned function is called. */
  onMail(listener: (message: MailboxMessage) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get hasMessages(): boolean {
    return this.#unread.length > 0;
  }

  /** Messages that no model call has shown yet, in the order in which they came. */
  get unread(): readonly MailboxMessage[] {
    return this.#unread.map(({ message }) => message);
  }

  /** Returns how many letters, which are messages that are not reports, were delivered since the last call. */
  takeLetterCount(): number {
    const count = this.#letterCount;
    this.#letterCount = 0;
    return count;
  }

  /** Removes the messages that the model call of this step shows, and notifies their senders. */
  confirmDelivery(shown: readonly MailboxMessage[], stepNumber: number): void {
    const delivered = new Set(shown);
    const before = this.#unread;
    this.#unread = before.filter(({ message }) => !delivered.has(message));
    for (const { message, answer } of before) {
      if (!delivered.has(message)) continue;
      if (message.reportOf === undefined) this.#letterCount += 1;
      answer({ isDelivered: true, stepNumber });
    }
  }

  /** The calls of the open step are left out. */
  skip(reason: string): void {
    this.#skip = reason;
  }

  takeSkip(): string | undefined {
    const taken = this.#skip;
    this.#skip = undefined;
    return taken;
  }

  /** The agent has settled: its waiters learn that it read nothing more. */
  close(status: SettledStatus): void {
    this.#settled = status;
    for (const { answer } of this.#unread) answer({ isDelivered: false, reason: status });
    this.#unread = [];
  }

  /** The agent continues. */
  reopen(): void {
    this.#settled = undefined;
  }

  #post(mail: Mail): void {
    this.#unread = [...this.#unread, mail];
    for (const listener of this.#listeners) listener(mail.message);
  }
}
