// Mailbox: what is written to one agent while it runs. Owns the messages that the agent has not read yet,
// and the replies to their senders. Made when it is first needed: most agents get no message.

import type { MessageContent } from "../protocol/message-content.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { SettledStatus } from "../protocol/stop.ts";

/**
 * The receipt of a message to an agent: the step that delivered the message, or the status in which
 * the agent settled without reading the message.
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

interface MailboxEntry {
  readonly message: MailboxMessage;
  readonly answer: (delivery: SteerReceipt) => void;
}

/** A message to an agent. */
export interface MailboxMessage {
  readonly content: MessageContent;
  /**
   * The background subagent whose result the message is. `undefined` for a message that steers the
   * agent.
   */
  readonly reportOf: AgentId | undefined;
  /** The agent that sent the message. `undefined` for a sender outside the tree. */
  readonly sender: AgentId | undefined;
}

export class Mailbox {
  #skip: string | undefined;
  #unread: readonly MailboxEntry[] = [];
  /** Number of letters delivered since the last `takeLetterCount`. */
  #letterCount = 0;
  readonly #listeners = new Set<(message: MailboxMessage) => void>();
  #settled: SettledStatus | undefined;

  /**
   * `settled` is the status of an agent that is inactive. `undefined` for an agent that reads its
   * messages.
   */
  constructor(settled?: SettledStatus) {
    this.#settled = settled;
  }

  /** True while the agent is inactive and reads nothing. */
  get isClosed(): boolean {
    return this.#settled !== undefined;
  }

  /**
   * Sends a message to the agent. Resolves when the agent reads it, or settles without reading it.
   * `sender` is the agent that sends it, and absent for a caller outside the tree.
   */
  write(content: MessageContent, sender?: AgentId): Promise<SteerReceipt> {
    if (this.#settled !== undefined)
      return Promise.resolve({ isDelivered: false, reason: this.#settled });
    return new Promise((answer) =>
      this.#add({ message: { content, reportOf: undefined, sender }, answer }),
    );
  }

  /**
   * Adds the result of a background subagent. Ignored if the agent has settled: `reactivate`
   * recreates it.
   */
  report(childId: AgentId, text: string): void {
    const message = { content: text, reportOf: childId, sender: childId };
    if (this.#settled === undefined) this.#add({ message, answer: () => undefined });
  }

  /** Removes the report of a subagent, because the agent has received the result in another way. */
  withdraw(childId: AgentId): void {
    this.#unread = this.#unread.filter(({ message }) => message.reportOf !== childId);
  }

  /** Returns true if the subagent has reported, and the report is unread. */
  hasReportOf(childId: AgentId): boolean {
    return this.#unread.some(({ message }) => message.reportOf === childId);
  }

  /** Calls `listener` for each new message. Returns a function that removes the listener. */
  onMail(listener: (message: MailboxMessage) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get hasMessages(): boolean {
    return this.#unread.length > 0;
  }

  /** Messages that no model call has contained yet, in the order of their arrival. */
  get unread(): readonly MailboxMessage[] {
    return this.#unread.map(({ message }) => message);
  }

  /**
   * Returns the number of letters, which are messages other than reports, delivered since the last
   * call.
   */
  takeLetterCount(): number {
    const count = this.#letterCount;
    this.#letterCount = 0;
    return count;
  }

  /** Removes the messages that the model call of this step contains, and notifies their senders. */
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

  /** Leaves the pending calls of the open step out, with the reason as their result. */
  skip(reason: string): void {
    this.#skip = reason;
  }

  takeSkip(): string | undefined {
    const taken = this.#skip;
    this.#skip = undefined;
    return taken;
  }

  /** Notifies all senders that the agent has settled without reading their messages. */
  close(status: SettledStatus): void {
    this.#settled = status;
    for (const { answer } of this.#unread) answer({ isDelivered: false, reason: status });
    this.#unread = [];
  }

  /** Accepts messages again, because the agent continues. */
  reopen(): void {
    this.#settled = undefined;
  }

  #add(mail: MailboxEntry): void {
    this.#unread = [...this.#unread, mail];
    for (const listener of this.#listeners) listener(mail.message);
  }
}
