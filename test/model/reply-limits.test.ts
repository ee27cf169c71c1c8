// Goal: a reply with too many ids or too much data is refused before it is stored.
// Method: a meter that counts ids and data up to their limit, and one byte beyond it.

import { expect } from "vitest";

import { failures } from "../../src/model/openai/openai-errors.ts";
import { computeReplyLimits, ReplyMeter } from "../../src/model/reply-limits.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";

const LIMITS = computeReplyLimits(10);
const { besideBytes } = LIMITS;

proves(["S7.3"], "counts ids and data together, unless data has a limit of its own", () => {
  const shared = new ReplyMeter(LIMITS, failures);
  shared.countData(besideBytes - 16);
  shared.countOpened();
  const message = `a reply with more than ${besideBytes} bytes of ids and data`;
  expect(thrownBy(() => shared.countData(1)).message).toContain(message);
  expect(thrownBy(() => shared.countOpened()).message).toContain(message);
  const apart = new ReplyMeter(LIMITS, failures, besideBytes);
  apart.countData(besideBytes);
  apart.countOpened();
  expect(thrownBy(() => apart.countData(1)).message).toContain(message);
});
