/**
 * Roles over HTTP: each operation is called by each role, and the store's verbs that it uses are compared with those that the role's IAM policy
 * is for (`test/contract/roles.ts`, which a test compares with the deployed policies).
 */
import { describe, expect, it } from 'vitest';
import { API_ROLES, type ApiRole } from '../../lib/core/api-roles.ts';
import { httpApp } from '../../lib/http/app.ts';
import { OPERATIONS } from '../../lib/http/operations.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { desk } from '../client/desk.ts';
import { ROLES } from '../contract/roles.ts';

/** What there is to operate on. */
interface Things {
  readonly pending: string;
  readonly scheduled: string;
  readonly failed: string;
}

type Case = readonly [path: (things: Things) => string, body?: (things: Things) => object];

const at = (path: string): Case => [() => path];

/** A request of each operation that does what the operation is for. */
const CASES: Readonly<Record<string, Case>> = {
  submit: [() => '/jobs', () => ({ type: 'resize', idempotencyKey: 'another' })],
  submitMany: [() => '/jobs/batch', () => ({ jobs: [{ type: 'resize' }, { type: 'report', runAt: '+1h' }] })],
  waitMany: [() => '/jobs/wait', ({ failed }) => ({ jobs: [failed] })],
  cancelMany: [() => '/jobs/cancel', () => ({ filter: { state: 'pending' } })],
  retimeMany: [() => '/jobs/retime', () => ({ filter: { state: 'scheduled' }, runAt: '+2h' })],
  list: at('/jobs?state=pending'),
  count: at('/jobs/count?state=pending'),
  find: at('/jobs/named?idempotencyKey=one'),
  get: [({ pending }) => `/jobs/${pending}`],
  wait: [({ failed }) => `/jobs/${failed}/wait`],
  explain: [({ pending }) => `/jobs/${pending}/explanation`],
  history: [({ failed }) => `/jobs/${failed}/history`],
  cancel: [({ pending }) => `/jobs/${pending}/cancel`],
  retime: [({ scheduled }) => `/jobs/${scheduled}/retime`, () => ({ runAt: '+3h' })],
  setPriority: [({ pending }) => `/jobs/${pending}/priority`, () => ({ priority: 7 })],
  retry: [({ failed }) => `/jobs/${failed}/retry`],
  deadLetters: at('/dead-letters'),
  redrive: [() => '/dead-letters/redrive', () => ({ filter: {} })],
  rejections: at('/rejections'),
  unreadable: at('/unreadable'),
  keys: at('/keys'),
  capacity: at('/capacity'),
  statistics: at('/statistics'),
  locks: at('/locks'),
  fleets: at('/fleets'),
  types: at('/types'),
  declaration: at('/declaration'),
  dispatchers: at('/dispatchers'),
  controls: at('/controls'),
  pause: [() => '/controls/pause', () => ({ scope: { type: 'resize' } })],
  resume: [() => '/controls/resume', () => ({ scope: { type: 'resize' } })],
  override: [() => '/controls/override', () => ({ scope: 'pool', change: { maxConcurrency: 3 } })],
  drain: [() => '/controls/drain', () => ({ scope: { type: 'report' } })],
  listSchedules: at('/schedules'),
  getSchedule: at('/schedules/nightly'),
  putSchedule: [() => '/schedules/other', () => ({ type: 'report', every: '1h' })],
  deleteSchedule: at('/schedules/nightly'),
  pauseSchedule: at('/schedules/nightly/pause'),
  resumeSchedule: at('/schedules/paused/resume'),
  runSchedule: at('/schedules/nightly/run'),
  nextFirings: at('/schedules/nightly/next'),
};

/** The same store, which notes the verbs that it is asked for. */
function noting(store: JobStore, used: Set<string>): JobStore {
  return new Proxy(store, {
    get: (_, name) => {
      const verb: unknown = Reflect.get(store, name);
      if (typeof verb !== 'function' || typeof name !== 'string') return verb;
      return (...given: readonly unknown[]) => {
        used.add(name);
        return verb.apply(store, given);
      };
    },
  });
}

async function calledBy(
  role: ApiRole,
  id: string,
): Promise<{ readonly status: number; readonly verbs: ReadonlySet<string> }> {
  const scene = desk();
  const failed = await scene.deadLetter();
  const pending = await scene.client.submit({ type: 'resize', idempotencyKey: 'one', resourceId: 'a' });
  const scheduled = await scene.client.submit({ type: 'report', runAt: '+1h' });
  await scene.client.schedules.put('nightly', { type: 'report', cron: '0 2 * * *' });
  await scene.client.schedules.put('paused', { type: 'report', cron: '0 3 * * *' });
  await scene.client.schedules.pause('paused');
  const verbs = new Set<string>();
  const client = scene.anotherClient({ store: noting(scene.store, verbs) });
  const app = httpApp({ client, role, waitMs: 50 });
  const operation = OPERATIONS.find((each) => each.id === id);
  const [path, body = () => ({})] = CASES[id] ?? at('/');
  const things = { failed: failed.id, pending: pending.jobId, scheduled: scheduled.jobId };
  const method = operation?.method.toUpperCase() ?? 'GET';
  const { status } = await scene.finish(
    Promise.resolve(
      app.request(path(things), {
        method,
        headers: { 'content-type': 'application/json' },
        ...(method === 'GET' ? {} : { body: JSON.stringify(body(things)) }),
      }),
    ),
  );
  return { status, verbs };
}

it('has a case for each operation', () => {
  expect(Object.keys(CASES).toSorted()).toEqual(OPERATIONS.map(({ id }) => id).toSorted());
});

describe.each(OPERATIONS.map(({ id }) => id))('%s', (id) => {
  it('is let through to the roles whose policy has all that it does, and to no other', async () => {
    const { status, verbs } = await calledBy('operate', id);
    // Nobody makes the pass that a drain waits for.
    expect(id === 'drain' ? status === 504 : status < 300, String(status)).toBe(true);
    expect(verbs.size).toBeGreaterThan(0);
    const mayByIam = (role: ApiRole): boolean =>
      [...verbs].every((verb) => (ROLES[role].verbs as readonly string[]).includes(verb));
    for (const role of API_ROLES) {
      const called = await calledBy(role, id);
      const isRefused = called.status === 403;
      expect({ role, may: !isRefused, verbs: [...verbs] }).toEqual({
        role,
        may: mayByIam(role),
        verbs: [...verbs],
      });
      if (isRefused) expect([...called.verbs]).toEqual([]);
    }
  });
});
