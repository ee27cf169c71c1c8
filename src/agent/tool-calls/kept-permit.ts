// What is known of a call that was under way when its process died: permissions are kept before they are acted upon, so that no approver
// is asked twice, and a call that must not be repeated is not.

import { JsonValueSchema } from "../../protocol/json-value.ts";
import { z } from "../../protocol/late-zod.ts";
import { rebindCall, type OwnCall } from "../../tools/bind-call.ts";
import { toolEffectName } from "../effect-names.ts";
import { authorize } from "./authorize.ts";
import { INTERRUPTED } from "./failed-outcome.ts";
import type { OpenCall } from "./open-call.ts";
import { permittedAgain, type Permission } from "./questions.ts";

/** Gives the permission that is known, or asks for it and keeps what was allowed. */
export function authorizeOnce(call: OpenCall, bound: OwnCall): Permission | Promise<Permission> {
  const { agent, place, planned } = call;
  const { log } = agent;
  if (!isRepeatable(bound.tool) && log?.hadBegun(toolEffectName(place, planned)) === true)
    return { type: "impossible", outcome: INTERRUPTED };
  if (bound.type === "delegation" && log?.hasChildOf(planned.call.callId) === true)
    return { type: "adopted", bound };
  const permit = log?.outcome(permitName(call));
  if (permit !== undefined) return permittedBefore(call, bound, permit);
  const asked = authorize(call, bound);
  const isAtOnce = !(asked instanceof Promise) && planned.deferral === undefined;
  return isAtOnce ? asked : kept(call, asked);
}

export function isRepeatable(tool: OwnCall["tool"]): boolean {
  return tool.kind !== "function" || tool.isRepeatable;
}

/** The call with the arguments that were allowed before its process died, if its schema and the guards still allow them. */
async function permittedBefore(
  call: OpenCall,
  { tool }: OwnCall,
  permit: unknown,
): Promise<Permission> {
  const bound = rebindCall(tool, PermitSchema.parse(permit).arguments);
  return bound.type === "rejected"
    ? { type: "refused", rejected: bound }
    : await permittedAgain(call, bound);
}

const PermitSchema = z.strictObject({ arguments: JsonValueSchema });

async function kept(call: OpenCall, asked: Permission | Promise<Permission>): Promise<Permission> {
  const permission = await asked;
  if (permission.type === "granted")
    await call.agent.log?.keep(permitName(call), { arguments: permission.bound.input });
  return permission;
}

/** `permit.3.1`: an effect within the effect of the call. */
function permitName({ place, planned }: OpenCall): string {
  return `permit.${place.stepNumber}.${planned.index}`;
}
