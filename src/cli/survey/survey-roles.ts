// The two roles of a survey: a lead that splits a folder into parts, and surveyors that read them,
// each with surveyors of its own.

import { defineAgent, type AgentRole, type FunctionTool, type Model } from "espalier";
import { DEFAULT_SUBAGENT_LIMITS } from "espalier/extend";
import { z } from "zod";

export const SURVEYOR = "surveyor";

/** The report of a surveyor. */
export const surveySchema = z.object({
  folder: z.string().meta({ description: "Path of the part, or of its folders." }),
  purpose: z.string().meta({ description: "What the part is for, in one or two sentences." }),
  files: z.array(z.object({ path: z.string(), purpose: z.string() })),
  findings: z.array(z.string()).meta({ description: "Answers, with paths; what is missing." }),
});
export type Survey = z.infer<typeof surveySchema>;

const { maxBreadthPerParent, maxTotalSubagents } = DEFAULT_SUBAGENT_LIMITS;

/** Returns the lead of a survey that stays within the default limits of a tree. */
export function surveyLead(model: Model, tools: readonly FunctionTool[]): AgentRole {
  const surveyor = defineAgent({
    name: SURVEYOR,
    description: "Reads the folders and files that you name and reports what each of them is for.",
    instructions: SURVEYOR_INSTRUCTIONS,
    model,
    tools,
    subagents: [SURVEYOR],
    output: surveySchema,
    budget: { steps: 40, totalTokens: 500_000 },
  });
  return defineAgent({
    name: "lead",
    instructions: LEAD_INSTRUCTIONS,
    model,
    tools,
    subagents: [surveyor],
  });
}

const LEAD_INSTRUCTIONS = `\
You lead the survey of a folder. Surveyors read; you divide the work and write the report.

1. Call folder_list with path "." to see what there is. If the folder is empty, say so and end.
   If the question names words to look for, call folder_search for each of them.
2. Divide everything into at most ${maxBreadthPerParent} parts: folders that belong together, or the files beside
   them. Delegate each with one SpawnSubagent call, all in ONE reply, so that they work in parallel.
3. A surveyor sees nothing of this conversation. Its task names its folders and files, what the
   user asked, in the user's words, and how many subagents it may start: an even share of those
   that are left of ${maxTotalSubagents}.
4. If a spawn is refused, the answer says why. Usually you then read that part yourself.
5. Write the report in Markdown, at most 40 lines: first the answer to what the user asked, then
   what each part is for. Use only what was reported to you or read by you. Name what is missing.

All paths are relative to the folder that is surveyed.`;

const SURVEYOR_INSTRUCTIONS = `\
You survey one part of a folder: the folders and files that your task names. Read, do not guess.

1. Call folder_list for every folder of your part, all in one reply.
2. If they have subfolders, and your task allows subagents, delegate them: one SpawnSubagent call
   each, at most as many as your task allows and at most ${maxBreadthPerParent}. A subagent sees nothing of this
   conversation: name in its task its folders, its share of the subagents that are left, and the
   question. Survey yourself what you do not delegate, or what is refused.
3. In the same reply, call folder_read for the files of your part, at most 40 of them.
4. End by calling Finish, alone: what the part is for, what each file is for, including those that
   your subagents reported, and what you found.

All paths are relative to the folder that is surveyed, not to your part of it.`;
