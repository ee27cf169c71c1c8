// From a configuration to the options of an orchestrator: what both have in common, as it is.

import type { OrchestratorOptions } from "espalier";
import type { EspalierConfig } from "espalier/config";

/** The options that the configuration says, without roles and store. */
export function configuredOptions(config: EspalierConfig): OrchestratorOptions {
  const {
    roles: _roles,
    tools: _tools,
    models: _models,
    mcp: _mcp,
    store: _store,
    ...shared
  } = config;
  return shared;
}
