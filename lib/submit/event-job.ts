/** From an event of a business to the request of a job, as a rule of the construct says which part is which. */
import type { RequestRefusal } from './request.ts';

/** A place in an event: `$.detail`, and what stands in it. */
export const EVENT_PATH = /^\$\.detail(\.[A-Za-z0-9_-]+)*$/;

/**
 * What a message asks for whose rule names a job: each field but the type is a place in the event's detail.
 *
 * @param job - as the rule says, which only the deployment writes
 */
export function requestOfEvent(
  job: unknown,
  detail: unknown,
): { readonly detail: unknown } | { readonly refusal: RequestRefusal } {
  const request: Record<string, unknown> = {};
  for (const [field, given] of Object.entries(typeof job === 'object' && job !== null ? job : {})) {
    if (field === 'type') {
      request.type = given;
      continue;
    }
    const path = String(given);
    const value = EVENT_PATH.test(path) ? valueAt(detail, path.split('.').slice(2)) : undefined;
    if (value === undefined)
      return { refusal: { position: 0, field, reason: `is missing: the event has nothing at ${path}` } };
    // Keys are texts, and businesses number their customers.
    request[field] = field !== 'payload' && typeof value === 'number' ? String(value) : value;
  }
  return { detail: request };
}

const valueAt = (value: unknown, steps: readonly string[]): unknown =>
  steps.reduce<unknown>(
    (at, step) =>
      typeof at === 'object' && at !== null && Object.hasOwn(at, step)
        ? (at as Readonly<Record<string, unknown>>)[step]
        : undefined,
    value,
  );
