// Goal: the hosted workflow runs the same gate as a clone.
// Method: read the workflow as the host would. It does not run here.

import { readFileSync, statSync } from "node:fs";

import { expect } from "vitest";
import { parse } from "yaml";
import { z } from "zod";

import { proves } from "../harness/proves.ts";

const StepSchema = z.strictObject({
  uses: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
  run: z.string().optional(),
});
const WorkflowSchema = z.looseObject({
  permissions: z.record(z.string(), z.string()),
  jobs: z.record(
    z.string(),
    z.strictObject({
      "runs-on": z.string(),
      "timeout-minutes": z.int(),
      steps: z.array(StepSchema),
    }),
  ),
});

proves(["D700"], "runs .ci/run with a time limit and read permission only", () => {
  const { permissions, jobs } = WorkflowSchema.parse(
    parse(readFileSync(".github/workflows/ci.yml", "utf8")),
  );
  expect(permissions).toEqual({ contents: "read" });
  expect(Object.keys(jobs)).toEqual(["check"]);
  const { check } = jobs;
  expect([check?.["runs-on"], check?.["timeout-minutes"]]).toEqual(["ubuntu-latest", 60]);
  const [checkout, node, gate] = check?.steps ?? [];
  expect(checkout?.with).toEqual({ "persist-credentials": false });
  expect(node?.with).toEqual({ "node-version-file": "package.json", cache: "npm" });
  expect(gate).toEqual({ run: ".ci/run" });
  expect(statSync(".ci/run").mode & 0o111).not.toBe(0);
});
