/** The part of an answer that reaches the page: secrets are hidden, and lists are short. */
import type { Json } from '../core/job.ts';
import { maskOf } from './mask.ts';

type Fields = { readonly [name: string]: Json };

const isFields = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** How many lines of a stack group failures: the message, and where it was thrown. */
const STACK_LINES = 8;

/** Returns a job for a list, which shows no payload, no result and no history. */
function listed(job: Json): Json {
  if (!isFields(job)) return job;
  const { payload: _payload, result: _result, history: _history, error, ...rest } = job;
  if (!isFields(error)) return rest;
  const { stack, ...said } = error;
  const lines = typeof stack === 'string' ? stack.split('\n').slice(0, STACK_LINES).join('\n') : undefined;
  return { ...rest, error: { ...said, ...(lines === undefined ? {} : { stack: lines }) } };
}

/** Returns a function that prepares answers for the page. */
export function forPage(masked?: readonly string[]): (answer: Json) => Json {
  const mask = maskOf(masked);
  return (answer) => {
    if (!isFields(answer)) return answer;
    const { jobs } = answer;
    return mask(Array.isArray(jobs) ? { ...answer, jobs: jobs.map(listed) } : answer);
  };
}
