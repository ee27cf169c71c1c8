// Books for the tree property: a second ledger, kept from events alone, that knows nothing of ours.
// It is checked after every event.

import type { Account } from "../../src/protocol/account.ts";
import { SPEND_AXES, type Amounts, type SpendAxis } from "../../src/policies/budget.ts";
import type { EspalierEvent, EventBody } from "../../src/protocol/event.ts";
import { PRICE } from "./tree-foreign.ts";

/** B1, B2, B4: throws, naming the law, unless it held after every single event. */
export function checkBooks(events: readonly EspalierEvent[], accounts: readonly Account[]): void {
  const books = new Books(accounts);
  for (const event of events) books.post(event);
  books.close();
}

type Sums = Record<SpendAxis, number>;

interface Book {
  readonly account: Account;
  readonly spent: Sums;
  readonly reserved: Sums;
  readonly excess: Sums;
}

interface OpenLease {
  readonly agentId: string;
  readonly hold: Amounts;
}

class Books {
  readonly #books: ReadonlyMap<string, Book>;
  readonly #leases = new Map<string, OpenLease>();

  constructor(accounts: readonly Account[]) {
    this.#books = new Map(accounts.map((account) => [account.agentId, emptyBook(account)]));
  }

  post(event: EspalierEvent): void {
    switch (event.type) {
      case "budget.reserved":
        this.#reserve(event);
        break;
      case "model.requested":
        this.#request(event);
        break;
      case "budget.settled":
        this.#settle(event);
        break;
      case "agent.ended":
        this.#giveBack(event.agentId);
        break;
      default:
        return;
    }
    for (const book of this.#books.values()) checkLimits(book);
  }

  close(): void {
    law(this.#leases.size === 0, "B2: every lease is given back");
  }

  #reserve(event: EventBody<"budget.reserved"> & { readonly agentId: string }): void {
    const { leaseId, agentId, inputTokens, maxOutputTokens } = event;
    law(!this.#leases.has(leaseId), "B2: a lease is granted once");
    const hold = holdOf(inputTokens, maxOutputTokens);
    this.#leases.set(leaseId, { agentId, hold });
    for (const book of this.#path(agentId)) add(book.reserved, hold, 1);
  }

  #request(event: EventBody<"model.requested"> & { readonly agentId: string }): void {
    const held = [...this.#leases.values()].filter((lease) => lease.agentId === event.agentId);
    law(held.length === 1, `B4: ${event.agentId} asks a model and holds ${held.length} leases`);
    law(event.maxOutputTokens === held[0]?.hold.outputTokens, "X1: the output cap is the lease's");
  }

  #settle(event: EventBody<"budget.settled"> & { readonly agentId: string }): void {
    const lease = this.#leases.get(event.leaseId);
    law(this.#leases.delete(event.leaseId), "B2: a lease is settled once");
    law(lease?.agentId === event.agentId, "B2: a lease is settled by its agent");
    const hold = lease?.hold ?? holdOf(0, 0);
    for (const book of this.#path(event.agentId)) {
      add(book.reserved, hold, -1);
      add(book.spent, event.usage, 1);
      for (const axis of SPEND_AXES) {
        book.excess[axis] += Math.max(0, event.usage[axis] - hold[axis]);
      }
    }
  }

  #giveBack(agentId: string): void {
    for (const [leaseId, lease] of this.#leases) {
      if (lease.agentId !== agentId) continue;
      this.#leases.delete(leaseId);
      for (const book of this.#path(agentId)) add(book.reserved, lease.hold, -1);
    }
  }

  #path(agentId: string): readonly Book[] {
    const path: Book[] = [];
    for (let id: string | null = agentId; id !== null;) {
      const book: Book | undefined = this.#books.get(id);
      if (book === undefined) throw new Error(`Broken: ${id} has no account.`);
      path.push(book);
      id = book.account.parentId;
    }
    return path;
  }
}

function checkLimits({ account, spent, reserved, excess }: Book): void {
  for (const axis of SPEND_AXES) {
    const limit = account.limits[axis];
    if (limit === undefined) continue;
    const taken = spent[axis] + reserved[axis];
    law(taken <= limit + excess[axis], `B1: ${account.path} has ${taken} of ${limit} ${axis}`);
  }
}

function law(holds: boolean, rule: string): void {
  if (!holds) throw new Error(`Broken: ${rule}.`);
}

function holdOf(inputTokens: number, outputTokens: number): Amounts {
  const costMicroUsd =
    inputTokens * PRICE.inputUsdPerMillion + outputTokens * PRICE.outputUsdPerMillion;
  const totalTokens = inputTokens + outputTokens;
  const tokens = { inputTokens, cachedInputTokens: inputTokens, outputTokens, totalTokens };
  return { ...tokens, costMicroUsd, steps: 1, toolCalls: 0 };
}

function emptyBook(account: Account): Book {
  return { account, spent: nothing(), reserved: nothing(), excess: nothing() };
}

function nothing(): Sums {
  return { ...holdOf(0, 0), steps: 0 };
}

function add(sums: Sums, amounts: Amounts, sign: 1 | -1): void {
  for (const axis of SPEND_AXES) sums[axis] += sign * amounts[axis];
}
