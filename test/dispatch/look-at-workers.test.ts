/** Looks at the workers of a partition, between its passes: how many there are, whatever the queue does with their messages. */
import { describe, expect, it } from 'vitest';
import { lookAtWorkers } from '../../lib/dispatch/look-at-workers.ts';
import { LOOK_EVERY_MS } from '../../lib/dispatch/recovery/silence.ts';
import { WORKER_LEASE_MS } from '../../lib/dispatch/tuning.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';

const LIFE = { workerId: 'worker', incarnation: 'worker-1', fleet: 'images', slots: 1, occupants: [] };

interface Looks {
  readonly on: Stage;
  /** Epoch ms for which looks were asked for. */
  readonly asked: readonly number[];
  readonly look: (atMs: number) => ReturnType<typeof lookAtWorkers>;
  readonly pass: () => Promise<unknown>;
  /** The worker lives on for so long, and whatever is due happens. */
  readonly liveOn: (ms: number) => Promise<void>;
}

/** A job runs on a process that lives; each look comes as often, and as late, as `copies` says. */
async function looking(
  copies: (atMs: number) => readonly number[],
  failingVerb?: 'sendLook' | 'keepLookout',
  failing: <Answer>(call: () => Promise<Answer>) => Promise<Answer> = (call) => call(),
): Promise<Looks> {
  const on = stage({
    pool: {
      types: { resize: { timeoutMs: 3_600_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: null } },
    },
  });
  const asked: number[] = [];
  const queue = storeWith(on.queue, {
    sendLook: async (_partition, delayMs, atMs) => {
      if (failingVerb === 'sendLook') await failing(async () => undefined);
      asked.push(atMs);
      for (const lateMs of copies(atMs)) on.time.after(delayMs + lateMs, () => void look(atMs));
    },
  });
  const store = storeWith(on.store, {
    keepLookout: (asked) =>
      failingVerb === 'keepLookout'
        ? failing(() => on.store.keepLookout(asked))
        : on.store.keepLookout(asked),
  });
  const context = on.dispatcher({ queue, store });
  const look = (atMs: number): ReturnType<typeof lookAtWorkers> => lookAtWorkers(context, 0, atMs);
  const record = () => ({ ...LIFE, expiresAtMs: on.time.nowMs + WORKER_LEASE_MS });
  await on.store.registerWorker({ partition: 0, record: record() });
  await on.put(on.job());
  await on.pass({}, context);
  await on.startAll('images');
  await on.pass({}, context);
  const liveOn = async (ms: number): Promise<void> => {
    const untilMs = on.time.nowMs + ms;
    while (on.time.nowMs < untilMs) {
      await on.advance(Math.min(5_000, untilMs - on.time.nowMs));
      await on.store.heartbeat({ partition: 0, record: record() });
    }
  };
  return { on, asked, look, pass: () => on.pass({}, context), liveOn };
}

const lookoutOf = async ({ store, time }: Stage) =>
  (await store.loadPartition({ partition: 0, nowMs: time.nowMs })).lookout;

describe('looks at workers', () => {
  it('follow one another while a job runs on a process', async () => {
    const { asked, liveOn } = await looking(() => [0]);
    await liveOn(600_000);
    expect(asked.length).toBeGreaterThanOrEqual(Math.floor(600_000 / LOOK_EVERY_MS));
    expect(asked).toEqual(asked.toSorted((one, other) => one - other));
  });

  it.each([0, 1, 400, 2_000, 4_000, 9_000])(
    'do not multiply where each message comes three times, %d ms apart',
    async (apartMs) => {
      const once = await looking(() => [0]);
      await once.liveOn(90_000);
      const thrice = await looking(() => [0, apartMs, 2 * apartMs]);
      await thrice.liveOn(90_000);
      expect(thrice.asked).toEqual(once.asked);
    },
  );

  it('that were noted before another one change nothing and ask for nothing', async () => {
    const { on, asked, look, liveOn } = await looking(() => [0]);
    await liveOn(60_000);
    const before = await lookoutOf(on);
    const { length } = asked;
    expect(await look(asked[length - 2] ?? 0)).toBe('over');
    expect(await lookoutOf(on)).toEqual(before);
    expect(asked.length).toBe(length);
  });

  it.each(['sendLook', 'keepLookout'] as const)(
    'go on with the message that comes again, where %s fails',
    async (verb) => {
      let fails = false;
      const failing = async <Answer>(call: () => Promise<Answer>): Promise<Answer> => {
        if (!fails) return call();
        fails = false;
        throw new Error(`${verb} has no answer`);
      };
      const { on, asked, look, liveOn } = await looking(() => [], verb, failing);
      const [first = 0] = asked;
      await liveOn(first - on.time.nowMs);
      fails = true;
      await expect(look(first)).rejects.toThrow('has no answer');
      const { length } = asked;
      await liveOn(1_000);
      expect(await look(first)).toBe('goesOn');
      expect(asked.length).toBe(length + 1);
      // One that was sent and not noted is over.
      for (const atMs of asked.slice(1, -1)) expect(await look(atMs)).toBe('over');
      expect(await look(asked.at(-1) ?? 0)).toBe('goesOn');
    },
  );

  it('are taken up by the next pass where a message was lost', async () => {
    let isLost = false;
    const { asked, pass, liveOn } = await looking(() => (isLost ? [] : [0]));
    await liveOn(30_000);
    isLost = true;
    await liveOn(60_000);
    const { length } = asked;
    isLost = false;
    await liveOn(60_000);
    expect(asked.length).toBe(length);
    await pass();
    expect(asked.length).toBe(length + 1);
    await liveOn(60_000);
    expect(asked.length).toBeGreaterThan(length + 60_000 / (2 * LOOK_EVERY_MS));
  });
});
