/** One way to do the workloads. */
export interface Contender {
  /** One agent, `count` steps with a tool call each, then its answer. */
  steps(count: number): Promise<void>;
  /** A lead that delegates to `count` children at once, three steps each. */
  children(count: number): Promise<void>;
  /** The same, but each child's only model call is held back by the server until it is asked to release them. */
  waiting(count: number): Promise<void>;
  close(): Promise<void>;
}
