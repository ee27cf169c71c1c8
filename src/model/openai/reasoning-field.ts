// The names of reasoning in messages. A file of its own: an import of the root loads no chat adapter.

/**
 * The field of a message that contains its reasoning. DeepSeek, Kimi, GLM and SGLang use the first,
 * OpenRouter, Groq, vLLM and Ollama the second.
 */
export type ReasoningField = "reasoning_content" | "reasoning";

export const REASONING_FIELDS: readonly ReasoningField[] = ["reasoning_content", "reasoning"];
