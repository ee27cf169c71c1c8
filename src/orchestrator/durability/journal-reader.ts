// JournalReader: the lines of a journal, or of a recording, as records. Owns how far it has read.

import { EspalierError } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import {
  JOURNAL_VERSION,
  JournalRecordSchema,
  READABLE_JOURNALS,
  type JournalRecord,
} from "./journal-record.ts";
import { RecordCodec } from "./record-codec.ts";

export class JournalReader {
  /** Writes what follows upon what was read. */
  readonly codec = new RecordCodec();
  #isFirst = true;

  /** The records of the next line. Throws `unsupported_version`, and for what cannot be read whatever says why. */
  read(line: string): readonly JournalRecord[] {
    return this.values(line).map((value) => JournalRecordSchema.parse(value));
  }

  /** The same, not checked but for the version. */
  values(line: string): readonly unknown[] {
    const values = this.codec.read(line);
    for (const value of values) {
      checkVersion(value, this.#isFirst);
      this.#isFirst = false;
    }
    return values;
  }
}

/** Throws `unsupported_version` if the first record of a journal, or a later one by which it is opened once more, says another version. */
function checkVersion(value: unknown, isFirst: boolean): void {
  if (!isRecord(value) || !(isFirst || value["type"] === "run")) return;
  const version = value["version"];
  if (typeof version !== "number" || READABLE_JOURNALS.some((one) => one === version)) return;
  throw new EspalierError({
    code: "unsupported_version",
    message: `Expected a journal of version ${JOURNAL_VERSION} at most, got version ${version}. Recover the run with the release that wrote it, or a later one.`,
    data: { expected: JOURNAL_VERSION, got: version },
  });
}
