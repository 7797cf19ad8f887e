/**
 * Turns a business event into a job request. The EventBridge rule that the construct made says which field of the event
 * fills which field of the job.
 */
import type { RequestRefusal } from './request.ts';

/** A path into the event: `$.detail`, followed by the names of nested fields. */
export const EVENT_PATH = /^\$\.detail(\.[A-Za-z0-9_-]+)*$/;

/** The fields of a rule's job that fill a tag, a key, or units, of the name that follows. */
export const NAMED_FIELDS = { tags: 'tags.', keys: 'keys.', units: 'units.' } as const;

/**
 * Builds a job request from an event whose rule names a job. The rule gives the type itself; for every other field it
 * gives a path into the event's detail.
 *
 * @param job - the rule's job; only the deployment can write it
 */
export function requestOfEvent(
  job: unknown,
  detail: unknown,
): { readonly detail: unknown } | { readonly refusal: RequestRefusal } {
  const request: Record<string, unknown> = {};
  const named = Object.entries(NAMED_FIELDS).map(([to, prefix]) => ({
    to,
    prefix,
    values: new Map<string, unknown>(),
  }));
  for (const [field, given] of Object.entries(typeof job === 'object' && job !== null ? job : {})) {
    if (field === 'type') {
      request.type = given;
      continue;
    }
    const path = String(given);
    const value = EVENT_PATH.test(path) ? valueAt(detail, path.split('.').slice(2)) : undefined;
    if (value === undefined)
      return { refusal: { position: 0, field, reason: `is missing: the event has no value at ${path}` } };
    // Keys are strings, and many businesses number their customers.
    const group = named.find(({ prefix }) => field.startsWith(prefix));
    const isText = field !== 'payload' && group?.to !== 'units';
    const text = isText && typeof value === 'number' ? String(value) : value;
    if (group === undefined) request[field] = text;
    else group.values.set(field.slice(group.prefix.length), text);
  }
  for (const { to, values } of named) if (values.size > 0) request[to] = Object.fromEntries(values);
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
