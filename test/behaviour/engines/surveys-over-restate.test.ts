import { surveysOver } from "./surveys-suite.ts";

await surveysOver("restate");
