// The environment of a command that runs while a test inspects it: its output so far, and signals
// that the test sends.

import { PassThrough, Writable } from "node:stream";

import type { Shell, ShellSignal } from "../../../src/cli/shell.ts";

/** Thrown in place of the end of the process. */
class Left extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`left with ${code}`);
    this.code = code;
  }
}

export class FakeShell implements Shell {
  readonly stdin = new PassThrough();
  readonly stdout = kept();
  readonly stderr = kept();
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly isVerbose = false;
  readonly #listeners: (readonly [ShellSignal, () => void])[] = [];

  constructor(cwd: string, env: Readonly<Record<string, string>> = {}) {
    this.cwd = cwd;
    this.env = env;
  }

  onSignal(signal: ShellSignal, listener: () => void): void {
    this.#listeners.push([signal, listener]);
  }

  /**
   * Sends a signal. Returns the exit code with which the command exits, or undefined if it
   * continues.
   */
  signal(given: ShellSignal): number | undefined {
    try {
      for (const [signal, listener] of this.#listeners) if (signal === given) listener();
      return undefined;
    } catch (cause) {
      if (cause instanceof Left) return cause.code;
      throw cause;
    }
  }

  leave(exitCode: number): never {
    throw new Left(exitCode);
  }

  /** The output so far. */
  get written(): { readonly stdout: string; readonly stderr: string } {
    return { stdout: this.stdout.text, stderr: this.stderr.text };
  }
}

/** Makes the shell a terminal with a person who reads and types. */
export function atTerminal(shell: FakeShell): void {
  Object.assign(shell.stderr, { isTTY: true, columns: 100, rows: 50 });
  Object.assign(shell.stdin, { isTTY: true, setRawMode: () => {} });
}

/** Resolves once the command has printed this on stderr after position `from`. */
export async function seenIn(shell: FakeShell, words: string, from = 0): Promise<void> {
  while (!shell.written.stderr.includes(words, from))
    await new Promise((resolve) => setImmediate(resolve));
}

/** Resolves with the address that a command prints. */
export async function addressIn(shell: FakeShell): Promise<string> {
  for (;;) {
    const [, url] = /Viewer: (\S+)/.exec(shell.written.stderr) ?? [];
    if (url !== undefined) return url;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

class KeptText extends Writable {
  text = "";

  override _write(piece: Buffer, _encoding: string, done: () => void): void {
    this.text += piece.toString("utf8");
    done();
  }
}

function kept(): KeptText {
  return new KeptText();
}
