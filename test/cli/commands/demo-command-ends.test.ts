// Goal: the demo reports every way of ending: a failed or paused run, an unreachable trace
// endpoint, wrong input and Ctrl-C.
// Method: the real program as a separate process, whose environment contains only what the test
// sets.

import { expect, test } from "vitest";

import { proves } from "../../harness/proves.ts";
import {
  calls,
  OpenAiServer,
  says,
  status,
  type ServerReply,
} from "../../support/openai-server.ts";
import { OtlpSink } from "../../support/otlp-sink.ts";
import { demo, start } from "../../support/cli/demo-program.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const FILES = {
  "readme.md": "# The project\n",
  "core/engine.ts": "// Engine: turns the wheels.\n",
  "core/parts/wheel.ts": "/** A wheel that turns. */\n",
};

const RESTS: Readonly<
  Record<string, readonly [code: number, answers: ServerReply, shows: string]>
> = {
  "completes with an answer": [0, says("Nothing to see."), "✔ completed in"],
  "fails where the model refuses every call": [1, status(401), "✖ failed in"],
  "is stopped by a limit": [3, says("Cut o", { finishReason: "length" }), "■ stopped in"],
  "is stopped where the model only repeats a call": [
    3,
    calls(["folder_list", { path: "." }]),
    "■ stopped in",
  ],
};

for (const [what, [code, answers, shows]] of Object.entries(RESTS))
  proves(["S7.36"], `exits with ${code} and reports a run that ${what}`, async () => {
    await using server = await OpenAiServer.start(() => answers);
    const env = { OPENAI_BASE_URL: server.baseUrl, ESPALIER_MODEL: "some-model" };
    const ended = await demo({ env });
    expect(ended.code).toBe(code);
    expect(ended.stderr).toContain(shows);
    expect(ended.stderr).toMatch(/^Trace id /m);
  });

test.each(["refuse", "hang", "unavailable"] as const)(
  "completes if the endpoint is down (%s), and reports the lost trace",
  async (mode) => {
    using folder = temporaryFolder(FILES);
    await using sink = await OtlpSink.open(mode);
    const env = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: sink.tracesUrl };
    const { code, stderr } = await demo({ args: [folder.path], env });

    expect(code).toBe(0);
    expect(stderr).toContain("✔ completed in");
    const incomplete = /^Trace incomplete: (\d+) of \1 spans not (\w+) \(.+\)$/m;
    const [, , outcome] = incomplete.exec(stderr) ?? [];
    expect(outcome).toBe(mode === "hang" ? "confirmed" : "sent");
  },
);

test.each<{
  readonly name: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly says: string;
}>([
  { name: "a folder that is not there", args: ["nowhere"], says: 'There is no folder "nowhere"' },
  {
    name: "an address of Jaeger that is none",
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318",
      ESPALIER_JAEGER_URL: "localhost:16686",
    },
    says: "ESPALIER_JAEGER_URL: Expected baseUrl to be an http or https URL",
  },
  { name: "a file", args: ["package.json"], says: '"package.json" is not one' },
  { name: "too many words", args: ["src", "what", "is", "it"], says: "Too many arguments" },
  { name: "an empty task", args: ["src", " "], says: "got an empty one" },
  { name: "an unknown option", args: ["--slow"], says: "Unknown option '--slow'" },
  {
    name: "a model without a server",
    env: { ESPALIER_MODEL: "m" },
    says: "ESPALIER_MODEL needs OPENAI_API_KEY or OPENAI_BASE_URL",
  },
  {
    name: "a server that is no URL",
    env: { OPENAI_BASE_URL: "localhost", ESPALIER_MODEL: "m" },
    says: "Expected OPENAI_BASE_URL to be an http or https URL",
  },
])(
  "$name ends the demo with one clear line and exit code 2",
  async ({ args = [], env = {}, says }) => {
    const { code, stderr } = await demo({ args, env });

    expect(code).toBe(2);
    expect(stderr).toContain(says);
    expect(stderr).toMatch(/^[^\n]+\n$/);
  },
);

test("cancels the tree on Ctrl-C, shows the partial result and exits with 130", async () => {
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  await using server = await OpenAiServer.start(() => {
    ask();
    return new Promise(() => {});
  });
  const env = { OPENAI_BASE_URL: server.baseUrl, ESPALIER_MODEL: "some-model" };
  const program = start({ env });
  await asked;
  program.child.kill("SIGINT");
  const { code, stderr } = await program.ended;

  expect(code).toBe(130);
  expect(stderr).toContain("⊘ cancelled in");
  expect(stderr).toMatch(/^Trace id /m);
});

test("does not wait for the trace if Ctrl-C is pressed after the run", async () => {
  using folder = temporaryFolder(FILES);
  await using sink = await OtlpSink.open("hang");
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint };
  const program = start({ args: [folder.path], env });
  await program.seen("Trace id");
  program.child.kill("SIGINT");
  const { code, stderr } = await program.ended;

  expect(code).toBe(130);
  expect(stderr).not.toContain("Trace incomplete");
});

test("ends without an error if nobody reads its output any more", async () => {
  const program = start({});
  await program.seen("lead started");
  program.child.stdout.destroy();
  const { code, stderr } = await program.ended;

  expect([code, /Error|at file:/.test(stderr)]).toEqual([0, false]);
});
