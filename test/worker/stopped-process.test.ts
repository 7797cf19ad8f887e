/** A worker's process that was stopped as a whole, and goes on: its handlers may get their turn before its timers. */
import { expect, it } from 'vitest';
import { LazyAbort } from '../../lib/runtime/abort.ts';
import { LEASE_MARGIN_MS } from '../../lib/worker/membership.ts';
import { runWorker } from '../../lib/worker/process/process.ts';
import type { JobHandler } from '../../lib/worker/run-job.ts';
import { stage } from '../stage/stage.ts';

const LEASE_MS = 15_000;

it.each([
  ['stops a handler that looks at its signal when the lease is over, before any timer does', 0, true],
  ['lets a handler go on that looks in time', -1, false],
])('%s', async (_, beyondMs, isToStop) => {
  const on = stage({
    pool: { types: { resize: {} }, tiers: [{ tier: 'standard' }], fleets: { images: { types: ['resize'] } } },
  });
  await on.put(on.job());
  let stoppedForMs = 0;
  const clock = { ...on.clock, monotonicMs: () => on.clock.monotonicMs() + stoppedForMs };
  const seen: unknown[] = [];
  const shutdown = new AbortController();
  const resize: JobHandler = async (_payload, { signal }) => {
    seen.push(signal.aborted);
    // As if the whole process had been stopped in here: no timer has had its turn.
    stoppedForMs = LEASE_MS - LEASE_MARGIN_MS + beyondMs - (on.time.nowMs - registeredAtMs);
    try {
      signal.throwIfAborted();
      seen.push('effect');
    } catch (error) {
      seen.push((error as Error).name);
    }
    seen.push(signal.aborted);
    return null;
  };
  const registeredAtMs = on.time.nowMs;
  const { store, queue, configuration, random, log } = on;
  void runWorker({
    store,
    queue,
    configuration,
    clock,
    random,
    log,
    fleet: 'images',
    slots: 1,
    workerId: 'worker-1',
    leaseMs: LEASE_MS,
    handlers: { resize },
    signal: shutdown.signal,
    exit: () => {},
  });
  await on.advance(10);
  await on.pass();
  await on.advance(1_000);
  shutdown.abort();
  await on.advance(1_000);
  expect(seen).toEqual(isToStop ? [false, 'WorkerStoppedError', true] : [false, 'effect', false]);
});

it('gives a signal like any other: one that listens, and that others take', async () => {
  let looks = 0;
  const source = new LazyAbort(() => {
    looks += 1;
    if (looks === 2) source.abort(new Error('over'));
  });
  const { signal } = source;
  expect(source.signal).toBe(signal);
  const heard: string[] = [];
  signal.addEventListener('abort', () => heard.push('abort'));
  expect(signal.aborted).toBe(false);
  expect(() => signal.throwIfAborted()).toThrow('over');
  expect(signal.aborted).toBe(true);
  expect(heard).toEqual(['abort']);
  await expect(fetch('http://127.0.0.1:1', { signal })).rejects.toThrow('over');
});

it('gives a signal that is over, for the first reason, to whoever asks for it late', () => {
  const source = new LazyAbort(() => {});
  source.abort(new Error('first'));
  source.abort(new Error('second'));
  expect(source.signal.aborted).toBe(true);
  expect(source.signal.reason).toEqual(new Error('first'));
  const early = new LazyAbort(() => {});
  const { signal } = early;
  early.abort(new Error('first'));
  early.abort(new Error('second'));
  expect(signal.reason).toEqual(new Error('first'));
  expect(early.reason).toEqual(new Error('first'));
});
