// Runs before the rest of the page is created: requests the run of the address, and removes the
// token from the address. The run loads in parallel with the rest of the start, which takes as
// long.

import { route } from "./app/route.ts";
import { FollowedRun } from "./data/followed-run.ts";
import { takeToken } from "./data/token.ts";

const { value: first } = route;
/** The run of the first screen. The component that shows it closes it. */
export const firstRun = first.screen === "run" ? new FollowedRun(first.runId) : undefined;

takeToken();
