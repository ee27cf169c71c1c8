// JournalReader: the lines of a journal, or of a recording, as records. Owns how far it has read.

import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, isRecord } from "../../kernel/json.ts";
import { JOURNAL_VERSION, recordFrom, type JournalRecord } from "./journal-record.ts";
import { RecordCodec } from "./record-codec.ts";

/** How many records are read in one turn of the event loop. */
export const RECORDS_PER_TURN = 200;

export class JournalReader {
  /** Writes what follows upon what was read. */
  readonly codec: RecordCodec;
  #isFirst: boolean;

  constructor(codec?: RecordCodec) {
    this.codec = codec ?? new RecordCodec();
    this.#isFirst = codec === undefined;
  }

  /** Makes readers that continue from here, any number of them: earlier lines need not be read again. */
  beginning(): () => JournalReader {
    if (this.#isFirst) return () => new JournalReader();
    const codec = this.codec.beginning();
    return () => new JournalReader(codec());
  }

  /** The records of the next line. Throws `unsupported_version`, or any error that says why a line cannot be read. */
  read(line: string): readonly JournalRecord[] {
    return this.values(line).map(recordFrom);
  }

  /** The same, not checked but for the version. */
  values(line: string): readonly unknown[] {
    const values: unknown[] = [];
    this.scan(line, (value) => values.push(deepFreeze(value)));
    return values;
  }

  /** The same, one after the other, each as it stands: a caller that keeps one, or a part of it, freezes it whole. */
  scan(line: string, see: (value: unknown) => void): void {
    this.codec.scan(line, (value) => {
      checkVersion(value, this.#isFirst);
      this.#isFirst = false;
      see(value);
    });
  }
}

/** Throws `unsupported_version` if the first record of a journal, or a later one by which it is opened once more, says another version. */
function checkVersion(value: unknown, isFirst: boolean): void {
  if (!isRecord(value) || !(isFirst || value["type"] === "run")) return;
  const version = value["version"];
  if (typeof version !== "number" || version === JOURNAL_VERSION) return;
  throw new EspalierError({
    code: "unsupported_version",
    message: `Expected a journal of version ${JOURNAL_VERSION}, got version ${version}. Read it with the version of espalier that wrote it.`,
    data: { expected: JOURNAL_VERSION, got: version },
  });
}
