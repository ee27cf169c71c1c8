// What is done before all else of the page is even made: the run that the address names is asked for, and the token leaves the address. The run
// comes while the rest is made, which takes as long.

import { route } from "./app/route.ts";
import { FollowedRun } from "./data/followed-run.ts";
import { takeToken } from "./data/token.ts";

const { value: first } = route;
/** The run that is shown first. The code that shows it closes it. */
export const firstRun = first.screen === "run" ? new FollowedRun(first.runId) : undefined;

takeToken();
