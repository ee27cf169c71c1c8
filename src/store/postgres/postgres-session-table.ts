// Sessions in PostgreSQL.

import { SessionIdSchema, type SessionId } from "../../protocol/ids.ts";
import type { StoredSession } from "../session-store.ts";
import { sessionConflict } from "../store-errors.ts";
import { numberIn, textIn } from "../stored-row.ts";
import type { PostgresClient } from "./postgres-pool.ts";

export interface SessionWrite extends StoredSession {
  readonly sessionId: SessionId;
}

export class SessionTable {
  readonly #schema: string;
  readonly #session: string;

  constructor(schema: string) {
    this.#schema = `"${schema}"`;
    this.#session = `${this.#schema}.session`;
  }

  async find(client: PostgresClient, sessionId: SessionId): Promise<StoredSession | undefined> {
    const sql = `select version, body from ${this.#session} where session_id = $1`;
    const { rows } = await client.query(sql, [sessionId]);
    const [row] = rows;
    if (row === undefined) return undefined;
    return { version: numberIn(row, "version"), body: textIn(row, "body") };
  }

  /** Puts a version in the place of the one before it. */
  async put(client: PostgresClient, write: SessionWrite): Promise<number> {
    const { sessionId, version, body } = write;
    const values = [sessionId, version, body];
    const { rows } = await client.query(version === 1 ? this.#insert() : this.#update(), values);
    if (rows.length > 0) return version;
    const found = await this.find(client, sessionId);
    throw sessionConflict(sessionId, version - 1, found?.version ?? 0);
  }

  async list(client: PostgresClient, limit: number): Promise<readonly SessionId[]> {
    const sql = `select session_id from ${this.#session} order by written desc limit $1`;
    const { rows } = await client.query(sql, [limit]);
    return rows.map((row) => SessionIdSchema.parse(textIn(row, "session_id")));
  }

  async remove(client: PostgresClient, sessionId: SessionId): Promise<boolean> {
    const sql = `delete from ${this.#session} where session_id = $1 returning version`;
    const { rows } = await client.query(sql, [sessionId]);
    return rows.length > 0;
  }

  #insert(): string {
    return `insert into ${this.#session} (session_id, version, body) values ($1, $2, $3)
      on conflict (session_id) do nothing returning version`;
  }

  #update(): string {
    return `update ${this.#session} set version = $2, body = $3, written = nextval('${this.#schema}.session_written'),
        updated_at = clock_timestamp()
      where session_id = $1 and version = $2 - 1 returning version`;
  }
}
