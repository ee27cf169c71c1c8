// The store and the engine of workers and clients, as the environment says. ENGINE: `store`, `pg-boss` or `restate`.

import { storeEngine, type Engine } from "espalier/engines";
import { pgBossEngine } from "espalier/pg-boss";
import { restateEngine } from "espalier/restate";
import { postgresStore } from "espalier/store/postgres";
import { sqliteStore } from "espalier/store/sqlite";

const { ENGINE = "store", RUNS_FILE = "runs.db", DATABASE_URL, ...restate } = process.env;

export const store =
  DATABASE_URL === undefined
    ? sqliteStore(RUNS_FILE)
    : postgresStore({ connectionString: DATABASE_URL });

export const engine = engineOf(ENGINE);

function engineOf(name: string): Engine {
  if (name === "store") return storeEngine();
  if (name === "pg-boss") return pgBossEngine({ connectionString: DATABASE_URL ?? "" });
  if (name === "restate") return overRestate();
  throw new Error(`Expected ENGINE to be store, pg-boss or restate, got ${name}.`);
}

/** A client needs the ingress alone. */
function overRestate(): Engine {
  const { INGRESS_URL = "http://127.0.0.1:8080", ADMIN_URL = "http://127.0.0.1:9070" } = restate;
  const { HOST = "127.0.0.1", PORT = "9080", WORKER_URL, IDENTITY_KEY } = restate;
  return restateEngine({
    ingressUrl: INGRESS_URL,
    adminUrl: ADMIN_URL,
    host: HOST,
    port: Number(PORT),
    ...(WORKER_URL === undefined ? {} : { workerUrl: WORKER_URL }),
    ...(IDENTITY_KEY === undefined ? {} : { identityKeys: [IDENTITY_KEY] }),
  });
}
