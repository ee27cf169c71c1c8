import type { SettledStatus } from "espalier";

/** What the demo exits with, for each way in which its run settles. 2 is wrong use. */
export const EXIT_CODES: Readonly<Record<SettledStatus, number>> = {
  completed: 0,
  failed: 1,
  stopped: 3,
  paused: 4,
  cancelled: 130,
};
