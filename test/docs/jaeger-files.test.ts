// Goal: the Jaeger of the examples listens to this machine alone, has its files, and highlights
// tags that spans really have.
// Method: read its files as Docker and Jaeger would. Neither runs here.

import { existsSync, globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";

import { proves } from "../harness/proves.ts";
import * as names from "../../src/telemetry/gen-ai-attributes.ts";

const FOLDER = "examples/jaeger";
const read = (file: string): string => readFileSync(`${FOLDER}/${file}`, "utf8");

const ComposeSchema = z.strictObject({
  services: z.strictObject({
    jaeger: z.strictObject({
      image: z.string(),
      working_dir: z.string(),
      command: z.array(z.string()),
      environment: z.record(z.string(), z.string()),
      ports: z.array(z.string()),
      volumes: z.array(z.string()),
    }),
  }),
});

const endpoint = z.strictObject({ endpoint: z.string() });
const JaegerSchema = z.strictObject({
  service: z.strictObject({
    extensions: z.array(z.string()),
    pipelines: z.record(
      z.string(),
      z.strictObject({ receivers: z.array(z.string()), exporters: z.array(z.string()) }),
    ),
    telemetry: z.strictObject({ metrics: z.strictObject({ level: z.string() }) }),
  }),
  extensions: z.strictObject({
    jaeger_storage: z.strictObject({
      backends: z.record(
        z.string(),
        z.strictObject({ memory: z.strictObject({ max_traces: z.int() }) }),
      ),
    }),
    jaeger_query: z.strictObject({
      storage: z.strictObject({ traces: z.string() }),
      enable_tracing: z.boolean(),
      ui: z.strictObject({ config_file: z.string() }),
      http: endpoint,
      grpc: endpoint,
    }),
  }),
  receivers: z.record(z.string(), z.strictObject({ protocols: z.record(z.string(), endpoint) })),
  exporters: z.record(z.string(), z.strictObject({ trace_storage: z.string() })),
});

const UiSchema = z.strictObject({
  topTagPrefixes: z.array(z.string()),
  linkPatterns: z.array(
    z.strictObject({
      type: z.literal("tags"),
      key: z.string(),
      url: z.string(),
      text: z.string(),
    }),
  ),
});

const { jaeger } = ComposeSchema.parse(parse(read("compose.yaml"))).services;
const config = JaegerSchema.parse(parse(read("jaeger.yaml")));
const page = UiSchema.parse(JSON.parse(read("jaeger-ui.json")));

test("listens on this machine only", () => {
  expect(jaeger.ports).toEqual(["127.0.0.1:16686:16686", "127.0.0.1:4318:4318"]);
  const { http, grpc } = config.extensions.jaeger_query;
  const received = config.receivers["otlp"]?.protocols["http"]?.endpoint;
  const host = "${env:JAEGER_LISTEN_HOST:-localhost}";
  expect([http.endpoint, grpc.endpoint, received]).toEqual([
    `${host}:16686`,
    `${host}:16685`,
    `${host}:4318`,
  ]);
});

test("mounts the files that the configuration names, and uses one version everywhere", () => {
  const mounted = jaeger.volumes.map((volume) => volume.split(":"));
  const { working_dir: folder } = jaeger;
  for (const [here = "", there] of mounted) {
    expect([existsSync(`${FOLDER}/${here}`), there]).toEqual([
      true,
      `${folder}/${here.replace("./", "")}`,
    ]);
  }
  expect(jaeger.command).toEqual(["--config", "jaeger.yaml"]);
  const files = mounted.map(([here]) => here);
  expect(files).toEqual(["./jaeger.yaml", config.extensions.jaeger_query.ui.config_file]);
  const documents = [...globSync("docs/*.md"), "README.md"].map((file) =>
    readFileSync(file, "utf8"),
  );
  const versions = documents
    .flatMap((text) => [...text.matchAll(/jaegertracing\/jaeger:([\w.]+)/g)])
    .map(([, version]) => version);
  expect(new Set(versions)).toEqual(new Set([jaeger.image.split(":")[1]]));
});

test("defines every component that the configuration names", () => {
  const { service, extensions, receivers, exporters } = config;
  expect(service.extensions).toEqual(Object.keys(extensions));
  expect(service.pipelines["traces"]).toEqual({
    receivers: Object.keys(receivers),
    exporters: Object.keys(exporters),
  });
  const [storage] = Object.keys(extensions.jaeger_storage.backends);
  expect([
    extensions.jaeger_query.storage.traces,
    exporters["jaeger_storage_exporter"]?.trace_storage,
  ]).toEqual([storage, storage]);
});

test("links every tag with the id of another trace to that trace, and no other tag", () => {
  const traceIds = Object.values(names.ESPALIER).filter((name) => name.endsWith(".trace_id"));
  expect(new Set(page.linkPatterns.map(({ key, url }) => [key, url]))).toEqual(
    new Set(traceIds.map((name) => [name, `/trace/#{${name}}`])),
  );
});

test("disables Jaeger's own traces and metrics, for which no port is open", () => {
  expect(jaeger.environment["OTEL_TRACES_SAMPLER"]).toBe("always_off");
  expect(config.extensions.jaeger_query.enable_tracing).toBe(false);
  expect(config.service.telemetry.metrics.level).toBe("none");
});

/** Returns the position of a tag by the settings of the pages. */
function rankOf(name: string): number {
  return page.topTagPrefixes.findIndex((prefix) => name.startsWith(prefix));
}

proves(["S7.34"], "lists outcome, reason, refusal and the totals of a subtree first", () => {
  const attributes = [
    ...Object.values(names.GEN_AI),
    ...Object.values(names.ESPALIER),
    ...Object.values(names.SUBTREE),
    names.ERROR_TYPE,
  ];
  const ordered = attributes.toSorted((left, right) => rankOf(left) - rankOf(right));
  const { outcome, stopReason, refusalCode, refusalMaximum, refusalCurrent } = names.ESPALIER;
  const refusal = [refusalCode, refusalMaximum, refusalCurrent];
  const first = [
    outcome,
    stopReason,
    names.ERROR_TYPE,
    ...refusal,
    ...Object.values(names.SUBTREE),
  ];
  expect(ordered.slice(0, first.length)).toEqual(first);
  expect(attributes.filter((name) => rankOf(name) === -1)).toEqual([]);
});

proves(["S7.34"], "documents which tab and which grouping to choose", () => {
  const [, section = ""] =
    /### Find slow or expensive agents\n([\s\S]*?)\n#/.exec(
      readFileSync("docs/jaeger.md", "utf8"),
    ) ?? [];
  const tabs = [...section.matchAll(/\*\*(Trace \w+)\*\*/g)].map(([, tab]) => tab);
  expect(tabs).toEqual(["Trace Timeline", "Trace Statistics", "Trace Flamegraph", "Trace Graph"]);
  const groupings = [...section.matchAll(/`(gen_ai\.[\w.]+)`/g)].map(([, tag]) => tag);
  const { agentName, requestModel, toolName } = names.GEN_AI;
  expect(groupings).toEqual([agentName, requestModel, toolName]);
});

test("names only attributes that spans have in the documents about Jaeger and linked traces", () => {
  const known = new Set<string>();
  for (const group of Object.values(names)) {
    if (typeof group !== "object") continue;
    for (const name of Object.values(group)) known.add(name);
  }
  const files = ["docs/jaeger.md", "docs/linked-traces.md"];
  const text = files.map((file) => readFileSync(file, "utf8")).join("\n");
  const spoken = [...text.matchAll(/\b(?:espalier|gen_ai)\.[a-z_]+(?:\.[a-z_]+)*/g)].map(
    ([name]) => name,
  );
  expect(spoken.length).toBeGreaterThan(20);
  const isKnown = (name: string): boolean =>
    known.has(name) || [...known].some((other) => other.startsWith(`${name}.`));
  expect([...new Set(spoken)].filter((name) => !isKnown(name))).toEqual([]);
});
