// Goal: unusable options are refused at once, unreachable servers give coded errors, and workers
// listen to other machines only if requests are signed.
// Method: no Restate; addresses at which nothing listens, or another server does.

import { createServer, connect } from "node:http2";

import { describe, expect, test } from "vitest";

import { createServiceName } from "../../../src/engine/restate/restate-object.ts";
import {
  restateEngine,
  type RestateEngineOptions,
} from "../../../src/engine/restate/restate-engine.ts";
import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { freePort } from "../../support/free-port.ts";
import { outputWithout } from "../../support/without-package.ts";
import { GatedExecutor } from "../../support/engine/gated-executor.ts";

const ingressUrl = "http://127.0.0.1:8080";
const adminUrl = "http://127.0.0.1:9070";
const KEY = "publickeyv1_2G8dCQhArfvGpzPw5Vx2ALciR4xCLHfS5YaT93XjNxX9";
const ticket = { runId: RunIdSchema().parse("run_1"), role: "lead", version: "1" };

function messageFor(options: unknown): unknown {
  try {
    return Reflect.apply(restateEngine, undefined, [options]);
  } catch (error) {
    return [Reflect.get(Object(error), "code"), Reflect.get(Object(error), "message")];
  }
}

describe("options", () => {
  const NO_URL =
    "to be a URL that begins with http:// or https://, without user, query and fragment, got";
  const NO_KEY = "to be an array of keys that begin with publickeyv1_, got";
  const COPY = "Copy the key that Restate prints when it starts with a private key for requests.";
  const refused: readonly [object, string][] = [
    [{}, `Expected options.ingressUrl ${NO_URL} undefined. Put secrets into headers.`],
    [
      { ingressUrl: "127.0.0.1:8080" },
      `Expected options.ingressUrl ${NO_URL} "127.0.0.1:8080". Put secrets into headers.`,
    ],
    [
      { ingressUrl, adminUrl: "" },
      `Expected options.adminUrl ${NO_URL} "". Put secrets into headers.`,
    ],
    [
      { ingressUrl, ingress: 1 },
      `Expected options.ingress to be one of ingressUrl, adminUrl, headers, host, port, workerUrl, identityKeys, got "ingress". Use ingressUrl.`,
    ],
    [
      { ingressUrl, headers: { a: 1 } },
      "Expected options.headers to be an object of strings, got an object. Remove headers without a value.",
    ],
    [
      { ingressUrl, host: "127.0.0.1:80" },
      `Expected options.host to be an IP address or a host name, got "127.0.0.1:80". Leave out the port.`,
    ],
    [
      { ingressUrl, port: -1 },
      "Expected options.port to be a whole number from 0 up, got -1. Leave it out for the default, 9080.",
    ],
    [
      { ingressUrl, port: 65_536 },
      "Expected options.port to be at most 65535, got 65536. Leave it out for the default, 9080.",
    ],
    [{ ingressUrl, identityKeys: [] }, `Expected options.identityKeys ${NO_KEY} an array. ${COPY}`],
    [
      { ingressUrl, identityKeys: KEY },
      `Expected options.identityKeys ${NO_KEY} "${KEY}". ${COPY}`,
    ],
    [
      { ingressUrl, workerUrl: "http://w" },
      `Expected options.workerUrl to be left out without adminUrl, got "http://w". Set adminUrl as well, or register the address yourself.`,
    ],
    [
      { ingressUrl, adminUrl, host: "0.0.0.0", identityKeys: [KEY] },
      `Expected options.workerUrl to be set when host is a wildcard address, got undefined. Set the address under which Restate reaches the workers.`,
    ],
  ];
  for (const [options, message] of refused)
    proves(["E69"], `refuses ${JSON.stringify(options)}`, () =>
      expect(messageFor(options)).toEqual(["invalid_argument", message]),
    );

  for (const host of [
    "0.0.0.0",
    "::",
    "10.0.0.7",
    "workers.example",
    "127.example",
    "::ffff:10.0.0.7",
  ])
    proves(["E68"], `refuses to listen at ${host} without keys`, () => {
      const message = `Expected options.host to be a loopback host, got "${host}". Set identityKeys to the public keys of Restate's request identity, or listen on 127.0.0.1. Without keys, anyone who reaches the port can start runs.`;
      expect(messageFor({ ingressUrl, host })).toEqual(["invalid_argument", message]);
      expect(messageFor({ ingressUrl, host, identityKeys: [KEY] })).toHaveProperty("serve");
    });

  for (const host of ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
    test(`accepts ${host} without keys`, () => {
      expect(messageFor({ ingressUrl, host })).toHaveProperty("serve");
    });

  proves(["E69"], "refuses malformed keys before anything listens", async () => {
    const engine = restateEngine({ ingressUrl, port: 0, identityKeys: ["publickeyv1_abc"] });
    await expect(engine.serve(new GatedExecutor(["a"]))).rejects.toMatchObject({
      code: "invalid_argument",
      message:
        "Expected options.identityKeys to be public keys of Restate's request identity, got: decoded key should have length of 32, was 3. Copy the key that Restate prints when it starts.",
    });
  });
});

describe("service names", () => {
  proves(["E60"], "are valid in Restate for any role, and differ for each role and version", () => {
    const pairs = [
      ["lead", "1"],
      ["lead", "2"],
      ["lead.1", ""],
      ["Ü/ü ..", "1"],
      ["", "1"],
      ["a".repeat(500), "1"],
      ["a".repeat(501), "1"],
    ] as const;
    const names = pairs.map(([role, version]) => createServiceName(role, version));
    expect(names.filter((name) => !/^[a-zA-Z][a-zA-Z0-9._-]{0,127}$/.test(name))).toEqual([]);
    expect(new Set(names).size).toBe(pairs.length);
    // Stable across releases: a registered name must stay valid.
    expect(names[0]).toBe("espalier.lead.78eb5cf8a2e638ab1e8de2b3a0309931");
  });
});

describe("an unreachable server or missing package", () => {
  async function failing(options: Partial<RestateEngineOptions>, of: "lead" | "serve") {
    const engine = restateEngine({ ingressUrl, ...options });
    const done = of === "lead" ? engine.enqueue(ticket) : engine.serve(new GatedExecutor(["lead"]));
    return done.then(
      () => expect.fail("It did not reject."),
      (error: unknown) => error,
    );
  }

  proves(["E67"], "is reported with its address after some attempts", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const port = url.slice("http://127.0.0.1:".length);
    expect(await failing({ ingressUrl: `${url}/` }, "lead")).toMatchObject({
      code: "engine_failed",
      message: `Expected Restate at ${url} to accept the run, got connect ECONNREFUSED 127.0.0.1:${port}. Check that it is running and reachable, and try again.`,
      data: { url },
    });
    expect(await failing({ adminUrl: url, port: 0, workerUrl: "http://w" }, "serve")).toMatchObject(
      {
        code: "engine_failed",
        message: `Expected Restate at ${url} to register the worker at http://w, got connect ECONNREFUSED 127.0.0.1:${port}. Check that it is running and reachable, and try again.`,
        data: { url },
      },
    );
  });

  proves(["E67"], "is not the cause if the port is in use, which is reported", async () => {
    const server = createServer();
    const port = await freePort();
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    afterwards(() => server.close());
    expect(await failing({ port }, "serve")).toMatchObject({
      code: "engine_failed",
      message: `Cannot listen at 127.0.0.1, port ${port}: listen EADDRINUSE: address already in use 127.0.0.1:${port}. Choose another port, or end the process that uses it.`,
      data: { host: "127.0.0.1", port },
    });
  });

  for (const [missing, without, call] of [
    [
      "@restatedev/restate-sdk-clients",
      "no run can be sent to Restate",
      `enqueue(${JSON.stringify(ticket)})`,
    ],
    [
      "@restatedev/restate-sdk",
      "no run of Restate can be executed",
      "serve({ roles: [], version: '', maxRuns: 1 })",
    ],
  ] as const)
    proves(["E69"], `names ${missing} and how to install it`, () => {
      const output = outputWithout(
        missing,
        `import { restateEngine } from "./src/engine/restate/restate-engine.ts";
         await restateEngine({ ingressUrl: "${ingressUrl}" }).${call}.catch(({ code, message, data }) => console.log(JSON.stringify({ code, message, data })));`,
      );
      expect(JSON.parse(output)).toEqual({
        code: "missing_package",
        message: `The package ${missing} is not installed: without it, ${without}. Run: npm install ${missing}.`,
        data: { package: missing },
      });
    });
});

proves(
  ["E64"],
  "limits the concurrent streams of a connection to the runs that a worker can execute",
  async () => {
    const port = await freePort();
    const worker = await restateEngine({ ingressUrl, port }).serve(new GatedExecutor(["lead"]));
    const session = connect(`http://127.0.0.1:${port}`);
    const settings = await new Promise<unknown>((resolve) =>
      session.once("remoteSettings", resolve),
    );
    const closed = new Promise((resolve) => session.once("close", resolve));
    await worker.close();
    await worker.close();
    await closed;
    expect(settings).toMatchObject({ maxConcurrentStreams: 10 });
  },
);
