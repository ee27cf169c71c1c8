// Goal: a worker with keys executes runs for the Restate server that signs with one of them, and
// for no other server.
// Method: a real server with a private key, one without, and requests by hand.

import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect } from "vitest";

import { createServiceName } from "../../../src/engine/restate/restate-object.ts";
import { restateEngine } from "../../../src/engine/restate/restate-engine.ts";
import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { freePort } from "../../support/free-port.ts";
import { findRestate } from "../../support/restate-server.ts";
import { GatedExecutor } from "../../support/engine/gated-executor.ts";

const folder = mkdtempSync(join(tmpdir(), "identity-"));
const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const privateKeyFile = join(folder, "private.pem");
writeFileSync(privateKeyFile, privateKey.export({ type: "pkcs8", format: "pem" }));
const found = await findRestate(privateKeyFile);
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of Restate are skipped: ${found}.`);
const { ingressUrl = "", adminUrl = "" } = server ?? {};

afterAll(async () => {
  await server?.close();
  rmSync(folder, { recursive: true });
});

/** Encodes a key as Restate writes it. */
function identityKey(key: typeof publicKey): string {
  return `publickeyv1_${base58(key.export({ type: "spki", format: "der" }).subarray(-32))}`;
}

function base58(bytes: Uint8Array): string {
  const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let text = "";
  for (let rest = BigInt(`0x${Buffer.from(bytes).toString("hex")}`); rest > 0n; rest /= 58n)
    text = `${digits[Number(rest % 58n)]}${text}`;
  // Leading zeros are lost in a number.
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return `${"1".repeat(zeros)}${text}`;
}

/** Returns the status with which a worker replies to an unsigned request. */
async function statusOf(port: number, method: string, path: string): Promise<unknown> {
  const session = connect(`http://127.0.0.1:${port}`);
  try {
    const accept = "application/vnd.restate.endpointmanifest.v4+json";
    const type = "application/vnd.restate.invocation.v5";
    const headers = { ":method": method, ":path": path, accept, "content-type": type };
    const request = session.request(headers, { endStream: true });
    return await new Promise((resolve, reject) => {
      request.once("error", reject);
      request.once("response", (head) => resolve(head[":status"]));
      request.resume();
    });
  } finally {
    session.close();
  }
}

const ticket = { runId: RunIdSchema().parse("run_1"), role: "lead", version: "1" };
const service = createServiceName("lead", "1");

describe.skipIf(server === undefined)("a worker with identity keys", () => {
  proves(
    ["E68"],
    "executes signed runs, and refuses unsigned requests with status 401",
    async () => {
      const port = await freePort();
      const identityKeys = [identityKey(publicKey)];
      const engine = restateEngine({ ingressUrl, adminUrl, port, identityKeys });
      const executor = new GatedExecutor(["lead"]);
      const worker = await engine.serve(executor);
      afterwards(() => worker.close());
      await engine.enqueue(ticket);
      (await executor.next()).settle();
      await server?.whenDone(service);
      const replies = [
        await statusOf(port, "POST", `/invoke/${service}/lead`),
        await statusOf(port, "GET", "/discover"),
      ];
      expect([replies, executor.led]).toEqual([[401, 401], ["run_1"]]);
      expect(takeWarnings()).toEqual([
        "EspalierWarning: A Restate worker refused a request. Rejecting request as its JWT did not validate: Error: missing header: x-restate-signature-scheme. Check identityKeys, and the deployment that is registered at its address. Further refusals are not reported.",
      ]);
    },
  );

  proves(["E68"], "is not registered by a server that signs with another key", async () => {
    const other = identityKey(generateKeyPairSync("ed25519").publicKey);
    const engine = restateEngine({ ingressUrl, adminUrl, port: 0, identityKeys: [other] });
    const refused: unknown = expect.stringContaining("401");
    await expect(engine.serve(new GatedExecutor(["other"]))).rejects.toMatchObject({
      code: "engine_failed",
      message: refused,
    });
    expect(takeWarnings()).toEqual([expect.stringContaining("JWT did not validate")]);
  });
});
