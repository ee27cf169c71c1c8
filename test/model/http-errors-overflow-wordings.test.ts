// Goal: a request that is too long is recognised by the wording of servers that have no code for
// it.
// Method: wordings that users of these servers have reported, and messages about rate limits and
// other fields.

import { expect } from "vitest";

import { classifyRefusal, classifyReport } from "../../src/model/http-errors.ts";
import { proves } from "../harness/proves.ts";

const TOO_LONG = [
  "Requested token count exceeds the model's maximum context length of 131072 tokens.", // SGLang
  "The input (265330 tokens) is longer than the model's context length (262144 tokens).", // Together
  "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", // Poolside
  "The number of tokens to keep from the initial prompt is greater than the context length", // LM Studio
  "The model is loaded with context length of only 32768 tokens, which is not enough.", // LM Studio
  "prompt token count of 100000 exceeds the limit of 65536", // GitHub Copilot
  "invalid params, context window exceeds limit (2013)", // MiniMax
  "Prompt has 12,000 tokens, but the configured context size is 8,192 tokens",
  "prompt too long; exceeded max context length by 12 tokens", // Ollama
  "Input tokens exceed the configured limit of 272000 tokens.", // OpenAI
  "The request payload size has exceed context limit.", // Bedrock
  "Current length is 30000 while limit is 8192", // Cerebras
  "Please reduce the length of the input messages. (parameter=input_tokens, value=199948)", // vLLM
  "The decoder prompt (length 9000) is longer than the maximum model length of 8192.", // vLLM
  "The prompt (length 9000) exceeds the model's maximum length of 8192",
  "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", // Anthropic
  "This endpoint's maximum context length is 128000 tokens. However, you requested 200000", // OpenRouter
  "Request token limit exceeded",
  "Input validation error: `inputs` must have less than 1024 tokens. Given: 1508", // Hugging Face
  "Request body too large for gpt-4o model. Max size: 8000 tokens.", // GitHub Models
  "Total tokens of image and text exceed max message tokens", // Volcengine
  "tokens in request more than max tokens allowed: 40961", // Qianfan
  "Input text is too long",
  "Your input exceeds the context window of this model. Please adjust your input and try again.",
  "The messages are too long",
];
for (const words of TOO_LONG)
  proves(["D560"], `recognises an overflow by "${words.slice(0, 50)}"`, () => {
    const codes = [
      classifyRefusal(400, undefined, words),
      classifyReport(["invalid_request_error"], undefined, words),
      classifyReport([], undefined, words),
    ];
    expect(codes).toEqual(codes.map(() => "model_context_overflow"));
  });

const OTHERS = [
  "Request too large for model on tokens per minute (TPM): Limit 6000, please reduce your message size.",
  "Rate limit reached: Too many tokens per minute",
  "Too many tokens per day, please wait before trying again.",
  "Too many tokens, please wait before trying again.", // Bedrock
  "Too many tokens: the request was throttled.",
  "Too many tokens for the quota of this project.",
  "Input tokens per minute limit exceeded",
  "Number of request tokens has exceeded your per-minute rate limit",
  "Too many tokens. Try again later.",
  "Too many input tokens: the request was throttled.",
  "Quota exceeded for quota metric 'Input tokens' and limit 'Input tokens PerMinutePerProject'.", // Vertex
  "This request would exceed your organization's rate limit of 40,000 input tokens per minute.", // Anthropic
  "Operation has exceeded token rate limit of your pricing tier. Please retry after 5 seconds.", // Azure
  "Invalid 'user': string too long. Expected a string with maximum length 64.",
  "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
  "Output token limit exceeded: max_tokens must be at most 4096",
  "prompt_cache_key is too long",
  "Number of tools exceeds the limit of 128",
  "Invalid value for input_length",
];
for (const words of OTHERS)
  proves(["D560"], `reports no overflow for "${words.slice(0, 50)}"`, () => {
    const codes = [classifyRefusal(400, undefined, words), classifyReport([], 429, words)];
    expect(codes).toEqual(["model_invalid_request", "model_rate_limited"]);
  });

proves(["D610"], "reports throttling in the middle of a stream as a rate limit", () => {
  const words = "Too many tokens, please wait before trying again.";
  expect([
    classifyReport([], undefined, words),
    classifyReport(["throttlingException"], undefined, "No."),
    classifyReport([], undefined, "The server is overloaded. Please try again later."),
  ]).toEqual(["model_rate_limited", "model_rate_limited", "model_unavailable"]);
});

proves(
  ["D560"],
  "reports a body of too many bytes as an overflow only with Anthropic's code",
  () => {
    expect([
      classifyRefusal(413, "request_too_large", "Request exceeds the maximum size"),
      classifyRefusal(413, "rate_limit_exceeded", "Request too large: tokens per minute"),
      classifyRefusal(400, "model_context_window_exceeded", "No."),
    ]).toEqual(["model_context_overflow", "model_invalid_request", "model_context_overflow"]);
  },
);
