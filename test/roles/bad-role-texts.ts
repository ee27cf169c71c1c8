// Role files with one fault each, and the expected errors.

import { FILE_FIELDS } from "../../src/roles/role-file-options.ts";
import { roleFile } from "./role-folder.ts";

const FIELDS = FILE_FIELDS.join(", ");
const QUOTES = "Put text with a colon or a # in quotes.";
const FENCES = "Put the front matter between two lines of ---.";
const AXES =
  "inputTokens, cachedInputTokens, outputTokens, totalTokens, costUsd, steps, toolCalls, timeMs";
const NAME = "letters, digits, _ and -, at most 64, a letter first";

/** The fault; the text of `researcher.md`; line and message. */
export const BAD_ROLE_TEXTS: readonly (readonly [string, string, number, string])[] = [
  ["nothing", "", 1, `Expected the first line to be ---, got "". ${FENCES}`],
  ["no front matter", "# Hi", 1, `Expected the first line to be ---, got "# Hi". ${FENCES}`],
  [
    "a blank line before it",
    `\n${roleFile("model: fast")}`,
    1,
    `Expected the first line to be ---, got "". ${FENCES}`,
  ],
  [
    "no end of it",
    "---\nmodel: fast\n ---\nWork.",
    1,
    `Expected a second line of ---, got the end of the file. ${FENCES}`,
  ],
  [
    "no text below",
    "---\nmodel: fast\n---\n \n\t\n",
    3,
    "Expected text below the front matter, got none. Write the instructions of the agent there.",
  ],
  [
    "no YAML",
    roleFile("model: fast", "description: Writes: texts"),
    3,
    `Expected valid YAML, got an error: Nested mappings are not allowed in compact mappings. ${QUOTES}`,
  ],
  [
    "a tab",
    roleFile("model: fast", "budget:", "\tsteps: 1"),
    4,
    `Expected valid YAML, got an error: Tabs are not allowed as indentation. ${QUOTES}`,
  ],
  [
    "a key twice",
    roleFile("model: fast", "budget:", "  steps: 1", "  steps: 2"),
    5,
    "Expected every key once, got one twice. Remove the duplicate.",
  ],
  [
    "two documents",
    roleFile("model: fast", "...", "model: fast"),
    4,
    "Expected one YAML document, got more. Leave out the line that ends the first.",
  ],
  [
    "another version of YAML",
    roleFile("%YAML 1.1", "--- # with other rules", "model: fast"),
    2,
    "Expected one YAML document, got more. Leave out the line that ends the first.",
  ],
  [
    "a key that is a list",
    roleFile("model: fast", "? [a]", ": b"),
    3,
    "Expected keys that are strings, got something else. Write lines such as model: fast.",
  ],
  [
    "a list",
    roleFile("- model"),
    2,
    "Expected keys with values, got a list. Write lines such as model: fast.",
  ],
  [
    "a text",
    roleFile("# said:", "fast"),
    3,
    'Expected keys with values, got "fast". Write lines such as model: fast.',
  ],
  [
    "null",
    roleFile("~"),
    2,
    "Expected the front matter to have a value, got none. Give it one, or leave it out.",
  ],
  [
    "a key without value",
    roleFile("model: fast", "contextPolicy:", "  metadataKeys:"),
    4,
    "Expected contextPolicy.metadataKeys to have a value, got none. Give it one, or leave it out.",
  ],
  [
    "a list with a hole",
    roleFile("model: fast", "tools:", "  - search", "  -"),
    5,
    "Expected tools[1] to have a value, got none. Give it one, or leave it out.",
  ],
  [
    "an anchor",
    roleFile("model: &model fast"),
    2,
    "Expected plain values, got the anchor &model. Write the value out, without it.",
  ],
  [
    "an alias",
    roleFile("model: fast", "description: *model"),
    3,
    "Expected plain values, got the alias *model. Write the value out, without it.",
  ],
  [
    "a tag of YAML",
    roleFile("model: fast", "name: !!str 5"),
    3,
    "Expected plain values, got the tag !!str. Write the value out, without it.",
  ],
  [
    "a tag of a key",
    roleFile("? !!str model", ": fast"),
    2,
    "Expected plain values, got the tag !!str. Write the value out, without it.",
  ],
  [
    "a tag of one's own",
    roleFile("model: !env MODEL"),
    2,
    "Expected plain values, got the tag !env. Write the value out, without it.",
  ],
  [
    "too much front matter",
    roleFile(`description: ${"x".repeat(40_000)}`),
    1,
    "Expected at most 32768 characters of front matter, got 40013. Write the instructions below it.",
  ],
  [
    "an unknown field",
    roleFile("model: fast", "colour: red"),
    3,
    `Expected researcher.colour to be one of ${FIELDS}, got "colour". Correct the name.`,
  ],
  [
    "an unknown field of a group",
    roleFile("model: fast", "budget:", "  steps: 1", "  stps: 1"),
    5,
    `Expected researcher.budget.stps to be one of ${AXES}, got "stps". Use steps.`,
  ],
  [
    "a key of every object",
    roleFile("model: fast", "__proto__: { steps: 1 }"),
    3,
    `Expected researcher.__proto__ to be one of ${FIELDS}, got "__proto__". Correct the name.`,
  ],
  [
    "such a key in a group",
    roleFile("model: fast", "budget:", "  __proto__:", "    steps: 1"),
    4,
    `Expected researcher.budget.__proto__ to be one of ${AXES}, got "__proto__". Correct the name.`,
  ],
  [
    "a key of YAML 1.1",
    roleFile("model: fast", "<<: { steps: 1 }"),
    3,
    `Expected researcher.<< to be one of ${FIELDS}, got "<<". Correct the name.`,
  ],
  [
    "instructions in the wrong place",
    roleFile("instructions: Work.", "model: fast"),
    2,
    'Expected researcher.instructions to be the text below the front matter, got "Work.". Move it there.',
  ],
  [
    "what is code",
    roleFile("model: fast", "hooks: [watch]"),
    3,
    "Expected researcher.hooks to be set in code, got an array. Leave it out here, and use extend: { researcher: { hooks } }.",
  ],
  [
    "code in a group",
    roleFile("model: fast", "contextPolicy:", "  selectMessages: last"),
    4,
    'Expected researcher.contextPolicy.selectMessages to be a function, got "last". Pass a function that receives the messages and returns those for the subagent.',
  ],
  [
    "a name that is none",
    roleFile("model: fast", "name: the lead"),
    3,
    `Expected agent.name to be ${NAME}, got "the lead". Choose another name.`,
  ],
  [
    "a number for a name",
    roleFile("model: fast", "name: 5"),
    3,
    `Expected agent.name to be ${NAME}, got 5. Choose another name.`,
  ],
  [
    "no name, and something else",
    roleFile("name: ''", "model: slow"),
    3,
    'Expected agent.model to be the name of a given model (fast, strong), got "slow". Correct the name, or add it to models.',
  ],
  [
    "no model",
    roleFile("description: Works"),
    1,
    "Expected researcher.model to be the name of a model, got undefined. Add a line such as model: fast.",
  ],
  [
    "nothing in the front matter",
    roleFile("# nothing"),
    1,
    "Expected researcher.model to be the name of a model, got undefined. Add a line such as model: fast.",
  ],
  [
    "an unknown model",
    roleFile("model: constructor"),
    2,
    'Expected researcher.model to be the name of a given model (fast, strong), got "constructor". Correct the name, or add it to models.',
  ],
  [
    "a model that is no text",
    roleFile("model: 5"),
    2,
    "Expected researcher.model to be the name of a model, got 5. Write it in quotes.",
  ],
  [
    "an unknown tool",
    roleFile("model: fast", "tools:", "  - search", "  - find"),
    5,
    'Expected researcher.tools[1] to be the name of a given tool (search, save), got "find". Correct the name, or give the tool where the files are read.',
  ],
  [
    "tools that are no list",
    roleFile("model: fast", "tools: search"),
    3,
    'Expected researcher.tools to be a list of names, got "search". Put it in brackets.',
  ],
  [
    "a tool twice",
    roleFile("model: fast", "tools: [search, search]"),
    3,
    'Expected researcher.tools[1] to be listed once, got "search". Leave one out.',
  ],
  [
    "a subagent that is no name",
    roleFile("model: fast", "subagents: [{ name: writer }]"),
    3,
    "Expected researcher.subagents[0] to be a name, got an object. Write it in quotes.",
  ],
  [
    "a number that does not fit",
    roleFile("model: fast", "budget:", "  totalTokens: 100", "  steps: -1"),
    5,
    "Expected researcher.budget.steps to be a whole number from 0 up, got -1. Leave it out for no limit.",
  ],
  [
    "a number that is none",
    roleFile("model: fast", "temperature: .nan"),
    3,
    "Expected researcher.temperature to be a number from 0 to 2, got NaN. Leave it out for the provider's default.",
  ],
  [
    "yes for true",
    roleFile("model: fast", "showBudget: yes"),
    3,
    'Expected researcher.showBudget to be true or false, got "yes". Set true or false.',
  ],
  [
    "fields that contradict each other",
    roleFile("model: fast", "contextPolicy:", "  inheritMessages: false", "  messageWindowSize: 3"),
    5,
    "Expected researcher.contextPolicy.messageWindowSize to be left out without inheritMessages, got 3. Switch inheritMessages on.",
  ],
  [
    "a wrong item",
    roleFile("model: fast", "contextPolicy:", "  injectedTexts:", "    - One.", "    - ''"),
    6,
    'Expected researcher.contextPolicy.injectedTexts[1] to be a non-empty string, got "". Pass some text, or remove the entry.',
  ],
];
