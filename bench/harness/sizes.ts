/** How much work each workload has. */
export interface Sizes {
  /** Runs before a measurement. */
  readonly warmUps: number;
  /** Runs that are measured, of W1 and W2. */
  readonly repeats: number;
  /** W1: runs before its second measurement. */
  readonly longWarmUps: number;
  /** W1: tool steps. */
  readonly steps: number;
  /** W2: subagents. */
  readonly children: number;
  /** W3: agents, and measured runs. */
  readonly chain: number;
  readonly chainRepeats: number;
  /** W4: runs that wait at once, and those of each warm-up. */
  readonly waiting: number;
  readonly waitingWarmUp: number;
  /** W5: pieces of a reply, and replies of which the first piece is awaited. */
  readonly deltas: number;
  readonly firstDeltas: number;
  /** W7: tool steps, measured runs, and steps over which a cost is averaged. */
  readonly longSteps: number;
  readonly longRepeats: number;
  readonly window: number;
  /** responses: calls that are measured. */
  readonly calls: number;
  /** spawn: subagents of the small tree, all subagents in small trees that are measured, and subagents of the large tree. */
  readonly smallTree: number;
  readonly smallTrees: number;
  readonly largeTree: number;
  /** flat: steps of its long run, and of those that it is compared with. */
  readonly flatSteps: number;
  readonly shortSteps: number;
  /** endless: the caps under which replies never end. */
  readonly endlessCaps: readonly number[];
  /** spans: agents whose spans end in one burst. */
  readonly burstAgents: number;
}

export const FULL: Sizes = {
  warmUps: 3,
  repeats: 5,
  longWarmUps: 60,
  steps: 50,
  children: 100,
  chain: 5,
  chainRepeats: 10,
  waiting: 1_000,
  waitingWarmUp: 100,
  deltas: 5_000,
  firstDeltas: 100,
  longSteps: 400,
  longRepeats: 3,
  window: 20,
  calls: 1_000,
  smallTree: 100,
  smallTrees: 1_000,
  largeTree: 10_000,
  flatSteps: 2_000,
  shortSteps: 100,
  endlessCaps: [8_192, 128_000],
  burstAgents: 1_000,
};

/** To see that everything works; the figures mean nothing. */
export const SMALL: Sizes = {
  warmUps: 0,
  repeats: 1,
  longWarmUps: 1,
  steps: 2,
  children: 3,
  chain: 2,
  chainRepeats: 1,
  waiting: 5,
  waitingWarmUp: 1,
  deltas: 10,
  firstDeltas: 2,
  longSteps: 10,
  longRepeats: 1,
  window: 4,
  calls: 2,
  smallTree: 10,
  smallTrees: 10,
  largeTree: 100,
  flatSteps: 20,
  shortSteps: 10,
  endlessCaps: [16],
  burstAgents: 10,
};
