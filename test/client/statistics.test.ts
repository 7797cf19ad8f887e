/** Statistics: dispatchers count what starts and ends, and a client reads it minute by minute. */
import { describe, expect, it } from 'vitest';
import { ThrottledError } from '../../lib/core/errors.ts';
import { MINUTE_MS, type MinuteCounts, minuteOf } from '../../lib/core/statistics.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { httpDesk } from '../http/desk.ts';
import { FAILED, storeWith } from '../stage/stage.ts';
import { desk, errorOf, POOL } from './desk.ts';

const COUNTED = { ...POOL, statistics: true };

const totalOf = (minutes: readonly MinuteCounts[], name: 'admitted' | 'succeeded' | 'failed'): number =>
  minutes.reduce((sum, minute) => sum + minute[name], 0);
const timesIn = (minutes: readonly MinuteCounts[], name: 'waits' | 'runs'): number =>
  minutes.reduce((sum, minute) => sum + minute[name].reduce((all, count) => all + count, 0), 0);

/** Settles what has ended, by its hint. */
const settled = async ({ pass, store }: ReturnType<typeof desk>): Promise<void> => {
  await pass({ jobs: [...store.everyJob()], reason: 'stream' });
};

describe('statistics', () => {
  it('count each start and each end once, in the minute of its pass', async () => {
    const on = desk({ pool: COUNTED });
    const { client, work, advance, time } = on;
    for (let at = 0; at < 4; at += 1) {
      await client.submit({ type: 'resize', fairnessKey: `k${at}` });
      await advance(7_000);
      await work(at === 2 ? FAILED : undefined);
      await settled(on);
      await advance(MINUTE_MS);
    }
    const { isKept, minutes } = await client.statistics();
    expect(isKept).toBe(true);
    expect(minutes.map(({ minuteMs }) => minuteMs)).toEqual(
      minutes.map(({ minuteMs }) => minuteOf(minuteMs)),
    );
    expect(minutes.length).toBeGreaterThanOrEqual(4);
    expect(totalOf(minutes, 'admitted')).toBe(4);
    expect(totalOf(minutes, 'succeeded') + totalOf(minutes, 'failed')).toBe(
      4 - minutes.reduce((sum, { again }) => sum + again, 0),
    );
    expect(timesIn(minutes, 'waits')).toBe(4);
    expect(timesIn(minutes, 'runs')).toBe(4);
    const [first] = minutes;
    const from = new Date((first?.minuteMs ?? 0) + MINUTE_MS).toISOString();
    expect((await client.statistics({ from })).minutes).toEqual(minutes.slice(1));
    const before = await client.statistics({ to: new Date(NOW_MS - MINUTE_MS).toISOString() });
    expect(before.minutes).toEqual([]);
    expect(time.nowMs).toBeGreaterThan(NOW_MS);
  });

  it('of a pass whose commit is refused after the minute was stored are stored again, and counted once', async () => {
    const on = desk({ pool: COUNTED });
    const { client, advance, dispatcher, store, pass } = on;
    await client.submit({ type: 'resize', fairnessKey: 'a' });
    await pass();
    await advance(MINUTE_MS);
    let puts = 0;
    const overtaken = storeWith(store, {
      putStatistics: async (request) => {
        puts += 1;
        const outcome = await store.putStatistics(request);
        if (puts === 1) await pass({ reason: 'ingest' });
        return outcome;
      },
    });
    await client.submit({ type: 'resize', fairnessKey: 'b' });
    await pass({}, dispatcher({ store: overtaken }));
    const { minutes } = await client.statistics();
    expect(minutes.map(({ admitted }) => admitted)).toEqual([1, 1]);
    expect(puts).toBeGreaterThanOrEqual(1);
  });

  it('of a minute that cannot be stored are lost, and hold nothing up', async () => {
    const on = desk({ pool: COUNTED });
    const { client, advance, dispatcher, store, pass, logged } = on;
    await client.submit({ type: 'resize', fairnessKey: 'a' });
    await pass();
    await advance(MINUTE_MS);
    await client.submit({ type: 'resize', fairnessKey: 'b' });
    const failing = storeWith(store, {
      putStatistics: async () => {
        throw new ThrottledError('putStatistics: too many requests');
      },
    });
    expect((await pass({}, dispatcher({ store: failing }))).admitted).toBe(1);
    expect(logged.map(({ message }) => message)).toContain('the statistics of a minute were lost');
    expect((await client.statistics()).minutes.map(({ admitted }) => admitted)).toEqual([1]);
  });

  it('are kept by no pool that does not ask for them, and cost it nothing', async () => {
    const on = desk();
    const { client, work, store } = on;
    const billed: string[] = [];
    store.meter = (verb) => billed.push(verb);
    await client.submit({ type: 'resize' });
    await work();
    await settled(on);
    expect(billed).not.toContain('putStatistics');
    expect(await client.statistics()).toMatchObject({ isKept: false, minutes: [] });
  });

  it('of more than a day are refused, and of no time', async () => {
    const { client } = desk({ pool: COUNTED });
    const refused = (from: string, to: string) => errorOf(client.statistics({ from, to }));
    const day = { from: '2027-01-01T00:00:00Z', to: '2027-01-02T00:00:00Z' };
    expect((await client.statistics(day)).minutes).toEqual([]);
    const expected = { name: 'ValidationError', field: 'options.from' };
    expect(await refused('2027-01-01T00:00:00Z', '2027-01-02T00:02:00Z')).toMatchObject(expected);
    expect(await refused('2027-01-01T00:00:00Z', '2027-01-01T00:00:00Z')).toMatchObject(expected);
  });

  it('are answered over HTTP, and wrong bounds by a problem document', async () => {
    const { client, send, pass } = httpDesk({ pool: COUNTED });
    await client.submit({ type: 'resize' });
    await pass();
    const { status, body } = await send('GET', '/statistics');
    expect(status).toBe(200);
    expect(body).toMatchObject({ statistics: { isKept: true, minutes: [{ admitted: 1 }] } });
    for (const query of ['from=yesterday', 'from=2027-01-01T00:00:00Z&to=2026-01-01T00:00:00Z', 'since=now'])
      expect(await send('GET', `/statistics?${query}`)).toMatchObject({
        status: 400,
        body: { title: 'ValidationError' },
      });
  });
});
