// A place where a process that a tool kills is started again each time, as by a service manager.

import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { z } from "zod";

import type { NotedCall, PoisonWorkerOptions } from "./engine/poison-worker.ts";
import { afterwards } from "../harness/afterwards.ts";
import { wholeLines } from "./line-log.ts";

const NotedCallSchema = z.object({ runId: z.string(), tool: z.string(), pid: z.number() });

const PROGRAM = join(import.meta.dirname, "engine/poison-worker.ts");
/** A heap so small that a tool soon exhausts it. */
const EXEC_ARGV = ["--conditions=@espalier/source", "--no-warnings", "--max-old-space-size=128"];

/** A folder that is removed after the test. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "poison-"));
  afterwards(() => rmSync(folder, { recursive: true }));
  return folder;
}

export class PoisonPlace {
  /** Processes that have died by their tool. */
  deaths = 0;
  readonly #options: PoisonWorkerOptions;
  readonly #children = new Set<ChildProcess>();
  #isOver = false;
  readonly #serving = Promise.withResolvers<void>();

  /** Keeps so many processes running until the test is over. */
  static open(options: readonly PoisonWorkerOptions[]): PoisonPlace {
    const [first] = options;
    if (first === undefined) throw new Error("Expected the options of a process.");
    const place = new PoisonPlace(first);
    for (const one of options) place.#keepRunning(one);
    return place;
  }

  private constructor(options: PoisonWorkerOptions) {
    this.#options = options;
    afterwards(() => this.close());
  }

  /** Resolves once the first process serves. */
  serves(): Promise<void> {
    return this.#serving.promise;
  }

  /** The calls of this tool that have begun. */
  calls(tool: string): readonly NotedCall[] {
    const noted = wholeLines(this.#options.log).map((line) => NotedCallSchema.parse(line));
    return noted.filter((call) => call.tool === tool);
  }

  #keepRunning(options: PoisonWorkerOptions): void {
    if (this.#isOver) return;
    const execArgv = EXEC_ARGV;
    const child = fork(PROGRAM, [JSON.stringify(options)], {
      execArgv,
      stdio: ["ignore", "ignore", process.env["POISON_DEBUG"] ? "inherit" : "ignore", "ipc"],
    });
    child.once("message", () => this.#serving.resolve());
    this.#children.add(child);
    child.once("exit", (code) => {
      this.#children.delete(child);
      // A service without an engine ends by itself once its runs are over.
      if (this.#isOver || code === 0) return;
      this.deaths += 1;
      this.#keepRunning(options);
    });
  }

  /** Ends all processes. */
  async close(): Promise<void> {
    this.#isOver = true;
    await Promise.all(
      [...this.#children].map(async (child) => {
        const ended = once(child, "exit");
        child.kill("SIGKILL");
        await ended;
      }),
    );
  }
}
