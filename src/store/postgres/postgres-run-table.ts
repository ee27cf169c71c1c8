// Runs and their journals in PostgreSQL. What needs a transaction says so; the caller begins and commits it.

import type { RunId } from "../../protocol/ids.ts";
import {
  checkFree,
  checkHeld,
  hasAlready,
  isLastOwner,
  positionOf,
  type Claimant,
} from "../holding.ts";
import type { JournalBatch, Ownership, RunOwner, StoredRun, StoredStatus } from "../run-store.ts";
import { journalConflict, runExists, storeFailed, unknownRun } from "../store-errors.ts";
import { holdingIn, numberIn, runIn, textIn } from "../stored-row.ts";
import type { PostgresClient } from "./postgres-pool.ts";

export interface NewRunRow {
  readonly runId: RunId;
  readonly title: string;
  readonly owner: RunOwner;
}

export interface Claim {
  readonly runId: RunId;
  readonly owner: RunOwner;
  /** Undefined: any owner. */
  readonly claimant: Claimant | undefined;
}

export interface RunFilter {
  /** Undefined: all. */
  readonly status: StoredStatus | undefined;
  readonly limit: number;
}

/** Records that are read at once, and the bytes after which a page is full. */
const PAGE_SIZE = 1_000;
const PAGE_BYTES = 1_000_000;

export class RunTable {
  readonly #run: string;
  readonly #journal: string;
  /** What is read of a run: under the names of stored-row.ts, its numbers as numbers. */
  readonly #select: string;

  constructor(schema: string) {
    this.#run = `"${schema}".run`;
    this.#journal = `"${schema}".journal`;
    this.#select = `
      select sequence::float8 as sequence, run_id, title, status, epoch, record_count, owner_token, owner_hostname,
        owner_process_id::float8 as owner_process_id, ${milliseconds("heartbeat_at")} as heartbeat_at_ms,
        ${milliseconds("created_at")} as created_at_ms, ${milliseconds("updated_at")} as updated_at_ms,
        ${milliseconds("clock_timestamp()")} as now_ms
      from ${this.#run}`;
  }

  async create(client: PostgresClient, { runId, title, owner }: NewRunRow): Promise<Ownership> {
    const ownership = { runId, token: owner.token, epoch: 1 };
    const { rows } = await client.query(
      `insert into ${this.#run} (run_id, title, status, epoch, record_count, owner_token, owner_hostname, owner_process_id)
       values ($1, $2, 'open', 1, 0, $3, $4, $5) on conflict (run_id) do nothing returning epoch`,
      [runId, title, owner.token, owner.hostname, owner.processId],
    );
    if (rows.length > 0) return ownership;
    const found = await this.find(client, runId);
    const isFresh = found?.epoch === 1 && found.recordCount === 0;
    if (isFresh && found.owner?.token === owner.token) return ownership;
    throw runExists(runId);
  }

  /** In a transaction. */
  async claim(client: PostgresClient, { runId, owner, claimant }: Claim): Promise<Ownership> {
    const holding = holdingOf(await this.#locked(client, runId));
    if (hasAlready(holding, owner)) return { runId, token: owner.token, epoch: holding.epoch };
    if (claimant !== undefined) checkFree(holding, claimant);
    const epoch = holding.epoch + 1;
    await client.query(
      `update ${this.#run} set status = 'open', epoch = $2, owner_token = $3, owner_hostname = $4, owner_process_id = $5,
         heartbeat_at = clock_timestamp(), updated_at = clock_timestamp()
       where run_id = $1`,
      [runId, epoch, owner.token, owner.hostname, owner.processId],
    );
    return { runId, token: owner.token, epoch };
  }

  /** Takes a batch that is next in line from the owner of the run; false, and nothing is changed, for any other. One statement. */
  async append(
    client: PostgresClient,
    { runId, token, epoch }: Ownership,
    { firstNumber, records }: JournalBatch,
  ): Promise<boolean> {
    const { rows } = await client.query(
      `with held as (
         update ${this.#run} set record_count = record_count + cardinality($5::text[]),
           heartbeat_at = clock_timestamp(), updated_at = clock_timestamp()
         where run_id = $1 and epoch = $2 and owner_token = $3 and owner_hostname is not null and record_count = $4 - 1
         returning sequence
       )
       insert into ${this.#journal} (run, number, record)
       select held.sequence, $4 - 1 + taken.place, taken.record
       from held, unnest($5::text[]) with ordinality as taken (record, place)
       returning number`,
      [runId, epoch, token, firstNumber, records],
    );
    return rows.length > 0;
  }

  /** Why a batch was not taken: nothing is wrong if it was taken before. In a transaction. */
  async checkTaken(
    client: PostgresClient,
    ownership: Ownership,
    batch: JournalBatch,
  ): Promise<void> {
    const { runId } = ownership;
    const row = await this.#locked(client, runId);
    checkHeld(ownership, holdingOf(row));
    const recordCount = numberIn(row, "record_count");
    const isTaken =
      positionOf(batch, recordCount) === "taken" && (await this.#hasRecords(client, row, batch));
    if (!isTaken) throw journalConflict(runId, batch.firstNumber, recordCount);
    await this.#beat(client, runId);
  }

  /** In a transaction. */
  async beat(client: PostgresClient, ownership: Ownership): Promise<void> {
    checkHeld(ownership, holdingOf(await this.#locked(client, ownership.runId)));
    await this.#beat(client, ownership.runId);
  }

  /** In a transaction. */
  async release(
    client: PostgresClient,
    ownership: Ownership,
    status: "paused" | "ended",
  ): Promise<void> {
    const row = await this.#locked(client, ownership.runId);
    const holding = holdingOf(row);
    const wasDone = holding.owner === null && textIn(row, "status") === status;
    if (wasDone && isLastOwner(ownership, holding)) return;
    checkHeld(ownership, holding);
    await client.query(
      `update ${this.#run} set status = $2, owner_hostname = null, owner_process_id = null, updated_at = clock_timestamp()
       where run_id = $1`,
      [ownership.runId, status],
    );
  }

  /** In a transaction. */
  async remove(client: PostgresClient, claimant: Claimant): Promise<boolean> {
    const row = await this.#find(client, claimant.runId, "for update");
    if (row === undefined) return false;
    checkFree(holdingOf(row), claimant);
    await client.query(`delete from ${this.#run} where run_id = $1`, [claimant.runId]);
    return true;
  }

  async find(client: PostgresClient, runId: RunId): Promise<StoredRun | undefined> {
    const row = await this.#find(client, runId, "");
    return row === undefined ? undefined : runIn(row);
  }

  async list(client: PostgresClient, { status, limit }: RunFilter): Promise<readonly StoredRun[]> {
    const { rows } = await client.query(
      `${this.#select} where $1::text is null or status = $1 order by run.sequence desc limit $2`,
      [status ?? null, limit],
    );
    return rows.map(runIn);
  }

  /** Some records from number `first` on; none: there are no more. Throws `unknown_run`, and `store_failed` if some are missing. */
  async readPage(client: PostgresClient, runId: RunId, first: number): Promise<readonly string[]> {
    // One statement, so that it sees one state. The first record of a page always comes, however long it is.
    const { rows } = await client.query(
      `select run.record_count, page.number, page.record
       from ${this.#run} left join lateral (
         select number, record, sum(octet_length(record)) over (order by number) - octet_length(record) as before
         from (
           select number, record from ${this.#journal}
           where run = run.sequence and number >= $2 order by number limit ${PAGE_SIZE}
         ) as candidate
       ) as page on page.before < ${PAGE_BYTES}
       where run.run_id = $1 order by page.number`,
      [runId, first],
    );
    if (rows.length === 0) throw unknownRun(runId);
    const recordCount = numberIn(rows[0], "record_count");
    const page = rows.filter((row) => Reflect.get(Object(row), "number") !== null);
    const gap = page.findIndex((row, index) => numberIn(row, "number") !== first + index);
    if (gap === -1 && (page.length > 0 || first > recordCount))
      return page.map((row) => textIn(row, "record"));
    const missing = first + Math.max(0, gap);
    const message = `Expected run ${JSON.stringify(runId)} to have ${recordCount} records, got none of number ${missing}. Restore the store from a copy.`;
    throw storeFailed("corrupt", message);
  }

  async #hasRecords(
    client: PostgresClient,
    row: unknown,
    { firstNumber, records }: JournalBatch,
  ): Promise<boolean> {
    const { rows } = await client.query(
      `select record from ${this.#journal} where run = $1 and number >= $2 order by number limit $3`,
      [numberIn(row, "sequence"), firstNumber, records.length],
    );
    return records.every((record, index) => textIn(rows[index], "record") === record);
  }

  async #beat(client: PostgresClient, runId: RunId): Promise<void> {
    const sql = `update ${this.#run} set heartbeat_at = clock_timestamp() where run_id = $1`;
    await client.query(sql, [runId]);
  }

  async #locked(client: PostgresClient, runId: RunId): Promise<unknown> {
    const row = await this.#find(client, runId, "for update");
    if (row === undefined) throw unknownRun(runId);
    return row;
  }

  async #find(client: PostgresClient, runId: string, lock: "" | "for update"): Promise<unknown> {
    const { rows } = await client.query(`${this.#select} where run_id = $1 ${lock}`, [runId]);
    return rows[0];
  }
}

function holdingOf(row: unknown): ReturnType<typeof holdingIn> {
  return holdingIn(row, numberIn(row, "now_ms"));
}

function milliseconds(column: string): string {
  return `floor(extract(epoch from ${column}) * 1000)::float8`;
}
