// Preloaded by `NODE_OPTIONS` into the processes that tests start: a connection to another host
// ends them.

import { keepToLoopback } from "./loopback-only.ts";

keepToLoopback((host) => {
  throw new Error(`Expected a test to keep to this machine, got ${host}.`);
});
