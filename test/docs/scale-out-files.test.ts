// Goal: the services of the scale-out examples listen to this machine alone, and their workers get
// the settings that they read.
// Method: read the files as Docker and Node would. Docker does not run here.

import { readFileSync } from "node:fs";

import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";

const FOLDER = "examples/scale-out";
const ServiceSchema = z.looseObject({
  environment: z.record(z.string(), z.string()),
  ports: z.array(z.string()).default([]),
});
const { services } = z
  .looseObject({ services: z.record(z.string(), ServiceSchema) })
  .parse(parse(readFileSync(`${FOLDER}/compose.yaml`, "utf8")));

test("listens on this machine only", () => {
  expect(Object.values(services).flatMap(({ ports }) => ports)).toEqual([
    "127.0.0.1:5432:5432",
    "127.0.0.1:8080:8080",
    "127.0.0.1:9070:9070",
  ]);
});

test("sets only variables that the workers read, and admits requests of Restate only", () => {
  const { environment = {} } = services["worker"] ?? {};
  const read = ["engine.ts", "roles.ts"].map((file) => readFileSync(`${FOLDER}/${file}`, "utf8"));
  const names = new Set(read.join("\n").match(/\b[A-Z]+(?:_[A-Z]+)*\b/g));
  expect(Object.keys(environment).filter((name) => !names.has(name))).toEqual([]);
  expect(environment["HOST"]).toBe("0.0.0.0");
  expect(environment["IDENTITY_KEY"]).toBe("${IDENTITY_KEY:-}");
});
