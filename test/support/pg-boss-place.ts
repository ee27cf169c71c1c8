// A PostgreSQL server for tests of the engine over pg-boss, and a look into its tables.

import { Pool } from "pg";

import type { Engine } from "../../src/engine/engine.ts";
import { pgBossEngine, type PgBossEngineOptions } from "../../src/engine/pg-boss/pg-boss-engine.ts";
import { findPostgres, type PostgresMachine } from "./store/postgres-server.ts";

/** A job as the table has it, as far as tests look at it. */
interface JobRow {
  readonly run_id: string;
  readonly state: string;
  readonly retry_count: number;
}

export class PgBossPlace {
  readonly url: string;
  /** Undefined: the server is not ours to stop. */
  readonly machine: PostgresMachine | undefined;
  readonly admin: Pool;
  readonly #end: () => Promise<void>;
  #schemaCount = 0;

  private constructor(url: string, machine: PostgresMachine | undefined, end: () => Promise<void>) {
    this.url = url;
    this.machine = machine;
    this.#end = end;
    this.admin = new Pool({ connectionString: url, max: 1 });
    this.admin.on("error", () => undefined);
  }

  /** Undefined: there is no server, which is said. */
  static async find(): Promise<PgBossPlace | undefined> {
    const found = await findPostgres();
    if (typeof found !== "string")
      return new PgBossPlace(found.url, found.machine, () => found.close());
    console.warn(`Tests of pg-boss are skipped: ${found}.`);
    return undefined;
  }

  newSchema(): string {
    this.#schemaCount += 1;
    return `jobs_${process.pid}_${this.#schemaCount}`;
  }

  engine(schema: string, options: Omit<PgBossEngineOptions, "schema"> = {}): Engine {
    return pgBossEngine({ connectionString: this.url, schema, pollIntervalMs: 100, ...options });
  }

  /** The jobs of runs that have not ended, in the order of runs. */
  async jobs(schema: string): Promise<readonly JobRow[]> {
    const { rows } = await this.admin.query<JobRow>(
      `select data->>'runId' as run_id, state::text, retry_count from ${schema}.job
       where state <> 'completed' and name like 'espalier/%' order by run_id, state`,
    );
    return rows;
  }

  async close(): Promise<void> {
    await this.admin.end();
    await this.#end();
  }
}
