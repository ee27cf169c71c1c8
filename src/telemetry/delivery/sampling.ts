import { trace, TraceFlags } from "@opentelemetry/api";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  type Sampler,
  type SamplingResult,
} from "@opentelemetry/sdk-trace-node";

import type { Sampling } from "./otel-variables.ts";

/** The SDK would make it of the same variables, but takes every trace for a word in capitals. */
export function samplerOf({ sampler, share }: Sampling): Sampler {
  const root = rootOf(sampler, share);
  return sampler.startsWith("parentbased_") ? new FollowingSampler(root) : root;
}

function rootOf(sampler: Sampling["sampler"], share: number): Sampler {
  if (sampler.endsWith("always_on")) return new AlwaysOnSampler();
  return sampler.endsWith("always_off")
    ? new AlwaysOffSampler()
    : new TraceIdRatioBasedSampler(share);
}

/**
 * Decides as `ParentBasedSampler` does, which reads every digit of the parent's ids to see whether a trace begins, as the tracer has
 * done just before.
 */
class FollowingSampler implements Sampler {
  readonly #root: Sampler;

  constructor(root: Sampler) {
    this.#root = root;
  }

  shouldSample(...asked: Parameters<Sampler["shouldSample"]>): SamplingResult {
    const [around, traceId] = asked;
    const parent = trace.getSpanContext(around);
    if (parent?.traceId !== traceId) return this.#root.shouldSample(...asked);
    const isTaken = (parent.traceFlags & TraceFlags.SAMPLED) !== 0;
    return { decision: isTaken ? RECORD_AND_SAMPLED : NOT_RECORD };
  }

  toString(): string {
    return `ParentBased{root=${this.#root.toString()}}`;
  }
}

const { RECORD_AND_SAMPLED, NOT_RECORD } = SamplingDecision;
