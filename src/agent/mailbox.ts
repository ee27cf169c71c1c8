// Mailbox: what is written to one agent while it runs. Owns the messages that the agent has not read yet,
// and the replies to their senders. Made when it is first needed: most agents get no message.

import type { MessageContent } from "../protocol/message-content.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { SettledStatus } from "../protocol/stop.ts";

/** What became of a message to an agent (X23): the step before which it was read, or the status in which the agent came to rest unread. */
export type Delivery =
  | { readonly isDelivered: true; readonly stepNumber: number }
  | { readonly isDelivered: false; readonly reason: SettledStatus };

interface Mail {
  readonly message: MailboxMessage;
  readonly answer: (delivery: Delivery) => void;
}

/** Something that was written to an agent. */
export interface MailboxMessage {
  readonly content: MessageContent;
  /** The subagent in the background whose result it is; undefined: the agent is steered. */
  readonly from: AgentId | undefined;
  /** The agent that steers it; undefined: it comes from outside the tree. */
  readonly by?: AgentId | undefined;
}

export class Mailbox {
  #skip: string | undefined;
  #unread: readonly Mail[] = [];
  #read: readonly Mail[] = [];
  #taken = 0;
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
   * Writes to the agent. Resolves when it reads the message, or when it settles without having read it. `by`: the agent that writes;
   * left out: the caller, outside the tree.
   */
  write(content: MessageContent, by?: AgentId): Promise<Delivery> {
    if (this.#settled !== undefined)
      return Promise.resolve({ isDelivered: false, reason: this.#settled });
    return new Promise((answer) =>
      this.#post({ message: { content, from: undefined, by }, answer }),
    );
  }

  /** Takes in the result of a subagent in the background. An agent that has settled gets it when it continues. */
  report(from: AgentId, text: string): void {
    if (this.#settled === undefined)
      this.#post({ message: { content: text, from }, answer: () => undefined });
  }

  /** Takes back what a subagent reported: the agent has it in another way. */
  withdraw(from: AgentId): void {
    this.#unread = this.#unread.filter(({ message }) => message.from !== from);
  }

  /** True if the subagent has reported and the report was not read. */
  hasReportOf(from: AgentId): boolean {
    return this.#unread.some(({ message }) => message.from === from);
  }

  /** Calls `listener` whenever something comes, until the returned function is called. */
  onMail(listener: (message: MailboxMessage) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get hasMessages(): boolean {
    return this.#unread.length > 0;
  }

  takeMessages(): readonly MailboxMessage[] {
    const taken = this.#unread;
    if (taken.length === 0) return NOTHING;
    this.#unread = [];
    this.#read = [...this.#read, ...taken];
    this.#taken += taken.filter(({ message }) => message.from === undefined).length;
    return taken.map(({ message }) => message);
  }

  /** How many messages of others than subagents were taken since it was last asked. */
  countTaken(): number {
    const taken = this.#taken;
    this.#taken = 0;
    return taken;
  }

  confirmDelivery(stepNumber: number): void {
    for (const { answer } of this.#read) answer({ isDelivered: true, stepNumber });
    this.#read = [];
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
    for (const { answer } of [...this.#read, ...this.#unread])
      answer({ isDelivered: false, reason: status });
    this.#read = [];
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

const NOTHING: readonly MailboxMessage[] = Object.freeze([]);
