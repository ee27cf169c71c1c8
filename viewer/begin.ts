// What is done before all else of the page is even made: the token leaves the address, and the run that the address names is asked for. It comes
// while the rest is made, which takes as long.

import { route } from "./app/route.ts";
import { LiveRun } from "./data/live-run.ts";
import { takeToken } from "./data/token.ts";

takeToken();

const { value: first } = route;
/** The run that is shown first. Whoever shows it closes it. */
export const firstRun = first.screen === "run" ? new LiveRun(first.runId) : undefined;
