// Reads the properties of a model once for each agent. A getter that throws fails the set-up of the
// agent, and is never called again once the agent is announced (T3).

import { omitUndefined, sameJson } from "../kernel/json.ts";
import { createUnreadableModelError } from "./check-model.ts";
import { asFallback } from "./fallback.ts";
import type { Model } from "./model.ts";

/** A model of `withFallback` has the replay keys of all its models. */
type ReadableModel = Model & { readonly replayKeys?: readonly string[] };

/** The properties of a model, and copies of the models behind a fallback. */
interface Properties {
  readonly own: Omit<ReadableModel, "generate" | "countTokens" | "limits">;
  readonly limits: Model["limits"];
  readonly generate: Model["generate"];
  readonly canCount: boolean;
  readonly behind: readonly Model[];
}

const copies = new WeakMap<Model, { readonly properties: Properties; readonly model: Model }>();

/**
 * Returns a frozen copy of a model, whose methods call the model itself. The copy is the same
 * object as long as the properties are the same: prices are cached by it. `owner` names the role in
 * errors.
 *
 * @throws EspalierError `invalid_argument` if a property cannot be read.
 */
export function readModel(owner: string, source: Model): Model {
  try {
    const properties = readProperties(owner, source);
    const known = copies.get(source);
    const { limits, generate, canCount, behind, own } = properties;
    const before = known?.properties;
    const isSame =
      before !== undefined &&
      before.limits === limits &&
      before.generate === generate &&
      before.canCount === canCount &&
      behind.every((model, index) => model === before.behind[index]) &&
      sameJson(before.own, own);
    if (known !== undefined && isSame) return known.model;
    const model = copyModel(source, properties);
    copies.set(source, { properties, model });
    return model;
  } catch (cause) {
    throw createUnreadableModelError(`${owner}.model`, cause);
  }
}

function readProperties(owner: string, source: ReadableModel): Properties {
  const { provider, id, replayKey, replayKeys, minOutputTokens } = source;
  const { apiType, serviceTier, price, baseUrl, limits, inputModalities, server } = source;
  const { supportsStructuredOutputs, supportsToolChoice } = source;
  const fields = { replayKey, replayKeys, supportsStructuredOutputs, supportsToolChoice };
  const more = { minOutputTokens, apiType, serviceTier, price, baseUrl, inputModalities, server };
  const behind = (replayKeys && asFallback(source)?.models) ?? [];
  return {
    own: { provider, id, ...omitUndefined({ ...fields, ...more }) },
    limits,
    // oxlint-disable-next-line typescript/unbound-method -- the copy binds it
    generate: source.generate,
    canCount: source.countTokens !== undefined,
    behind: behind.map((model) => readModel(owner, model)),
  };
}

function copyModel(source: Model, { own, limits, generate, canCount, behind }: Properties): Model {
  const { server, inputModalities } = own;
  const model: Model = {
    ...own,
    ...omitUndefined({
      limits,
      inputModalities: inputModalities && Object.freeze([...inputModalities]),
      server: server && Object.freeze({ ...server }),
      countTokens: canCount ? countTokens : undefined,
    }),
    generate: generate.bind(source),
  };
  Object.freeze(model);
  if (behind.length > 0) asFallback(source)?.copyWith(behind).register(model);
  return model;

  function countTokens(...call: Parameters<NonNullable<Model["countTokens"]>>): number {
    if (source.countTokens === undefined) throw new Error("its countTokens was removed");
    return source.countTokens(...call);
  }
}
