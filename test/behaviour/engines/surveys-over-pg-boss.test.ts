import { surveysOver } from "./surveys-suite.ts";

await surveysOver("pg-boss");
