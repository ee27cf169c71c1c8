// The two roles of a survey: a lead that splits a folder into parts, and surveyors that read them,
// each with surveyors of its own.

import { DEFAULT_SUBAGENT_LIMITS, defineAgent, type AgentRole, type FunctionTool } from "espalier";
import type { Model } from "espalier/extend";
import { z } from "zod";

export interface SurveyRoles {
  readonly lead: AgentRole;
  readonly surveyor: AgentRole;
}

/** What a surveyor reports. */
export const surveySchema = z.object({
  folder: z.string().meta({ description: "Path of the part, or of its folders." }),
  purpose: z
    .string()
    .meta({ description: "What the part as a whole is for, in one or two sentences." }),
  files: z.array(z.object({ path: z.string(), purpose: z.string() })).meta({
    description: "What each file is for, in one sentence; those that subagents reported included.",
  }),
  findings: z.array(z.string()).meta({
    description: "What answers the question, with paths; what could not be read; what is missing.",
  }),
});

const { maxBreadthPerParent, maxTotalSubagents } = DEFAULT_SUBAGENT_LIMITS;

/** Roles that stay within the default limits of a tree: depth 3, breadth 5, 10 subagents. */
export function surveyRoles(model: Model, tools: readonly FunctionTool[]): SurveyRoles {
  const surveyor = defineAgent({
    name: "surveyor",
    purpose: "Reads the folders and files that you name and reports what each of them is for.",
    instructions: SURVEYOR_INSTRUCTIONS,
    model,
    tools,
    subagents: ["surveyor"],
    output: surveySchema,
    budget: { steps: 40, totalTokens: 500_000 },
  });
  const lead = defineAgent({
    name: "lead",
    instructions: LEAD_INSTRUCTIONS,
    model,
    tools,
    subagents: [surveyor],
  });
  return { lead, surveyor };
}

const LEAD_INSTRUCTIONS = `\
You lead the survey of a folder. Surveyors do the reading; you divide the work and write the
report.

1. Call folder_list with path "." to see what there is. If the folder is empty, say so and end.
2. Divide all of it into at most ${maxBreadthPerParent} parts: each part is a few folders that belong together, or the
   files that lie directly in the folder. Delegate every part: one SpawnSubagent call for each,
   all of them in ONE reply, so that they work in parallel. At most ${maxTotalSubagents} subagents may be started in
   all, so that each part may start an even share of those that are left.
3. A surveyor sees nothing of this conversation. Its task must say which folders and files are its
   part, with their paths, and what the user wants to know. Write it like this:
   Survey docs, tools/build, readme.md.
   Folders:
   - docs
   - tools/build
   Files:
   - readme.md
   Subagents: at most 1
   Question: what the user asked, in the user's words
4. If a spawn is refused, the answer says why and what to do instead. Usually you then read that
   part yourself with folder_list and folder_read.
5. When all results are there, write the report in Markdown, at most 40 lines: first the answer to
   what the user asked, then what each part is for. Use only what was reported to you or read by
   you, and name what is missing.

All paths are relative to the folder that is surveyed.`;

const SURVEYOR_INSTRUCTIONS = `\
You survey one part of a folder: the folders and files that your task names. Read, do not guess.

1. Call folder_list for every folder of your part, all in one reply.
2. If a folder of yours has subfolders, and your task allows you subagents, delegate them: one
   SpawnSubagent call for each, at most as many as it allows and at most ${maxBreadthPerParent} (put some together if
   there are more). A subagent sees nothing of this conversation, so write its task the way yours is
   written: the folders by their paths, its even share of the subagents that are left, and the
   question. Survey yourself what you delegate to nobody.
3. In the same reply, call folder_read for the files of your part, at most 40 of them. If the
   question names words to look for, call folder_search for each of them too.
4. If a spawn is refused, the answer says why. Survey that subfolder yourself in the same way.
5. End by calling Finish, alone, with your result: what the part is for, what each file is for,
   those that your subagents reported included, and what you found.

All paths are relative to the folder that is surveyed, not to your part of it.`;
