// The roles of a survey: a lead that splits a folder into parts, surveyors that read them, each
// with its own surveyor, and a skimmer with a tight budget.

import { defineAgent, type AgentRole, type FunctionTool, type Model } from "espalier";
import { z } from "zod";

export const SURVEYOR = "surveyor";
export const SKIMMER = "skimmer";
export const SPAWN_TOOL = "SpawnSubagent";
/** Tool that needs an approval. */
export const WHOLE_TOOL = "folder_read_whole";
/** Maximum number of subagents of the lead. */
export const MAX_SURVEY_PARTS = 4;

/** The report of a surveyor. */
export const surveySchema = z.object({
  folder: z.string().meta({ description: "Path of the part, or of its folders." }),
  purpose: z.string().meta({ description: "What the part is for, in one or two sentences." }),
  files: z.array(z.object({ path: z.string(), purpose: z.string() })),
  findings: z.array(z.string()).meta({ description: "Answers, with paths; what is missing." }),
});
export type Survey = z.infer<typeof surveySchema>;

/** Returns the lead of a survey of a folder, which the tools read. */
export function createSurveyLead(model: Model, tools: readonly FunctionTool[]): AgentRole {
  const reader = { instructions: SURVEYOR_INSTRUCTIONS, model, tools, output: surveySchema };
  const surveyor = defineAgent({
    ...reader,
    name: SURVEYOR,
    description: "Reads the folders and files that you name and reports what each of them is for.",
    subagents: [SURVEYOR],
    budget: { steps: 40, totalTokens: 500_000 },
  });
  const skimmer = defineAgent({
    ...reader,
    name: SKIMMER,
    description: `Reports like a surveyor, but has only 3 steps. For a part that matters less.`,
    budget: { steps: 3, totalTokens: 100_000 },
    wrapUp: true,
  });
  return defineAgent({
    name: "lead",
    instructions: LEAD_INSTRUCTIONS,
    model,
    tools,
    subagents: [surveyor, skimmer],
    limits: { maxDepth: 2, maxBreadthPerParent: MAX_SURVEY_PARTS },
  });
}

const LEAD_INSTRUCTIONS = `\
You lead the survey of a folder. Surveyors read; you divide the work and write the report.
1. Call folder_list with path ".", and folder_search for each word that the question looks for.
2. Divide everything into at most ${MAX_SURVEY_PARTS} parts. Delegate each with one SpawnSubagent call, all in
   ONE reply. Give the least important part to a skimmer, the others to surveyors. They see nothing
   of this conversation: a task names folders and files, and the question in the user's words.
3. If a spawn is refused, the answer says why. Usually you then read that part yourself.
4. Write the report in Markdown, at most 40 lines: first the answer to the user, then what each
   part is for. Use only what was reported to you or read by you. Name what is missing.
All paths are relative to the folder that is surveyed.`;

const SURVEYOR_INSTRUCTIONS = `\
You survey one part of a folder: the folders and files that your task names. Read, do not guess.
1. Call folder_list for every folder of your part, all in one reply.
2. If they have subfolders and you have SpawnSubagent, delegate the subfolders with one call. Its
   task names them and the question: a subagent sees nothing of this conversation.
3. Call folder_read for at most 24 files of your part, several in one reply. Only if the beginning
   of the most important file is not enough, call ${WHOLE_TOOL} for it.
4. End by calling Finish, alone: what the part and each file is for, and what you found.
All paths are relative to the folder that is surveyed, not to your part of it.`;
