/** What the command line says of what became of a job, and of who did it. */
import { hostname, userInfo } from 'node:os';
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { FAILED } from '../stage/stage.ts';
import { counter } from './desk.ts';

const HERE = `${userInfo().username}@${hostname()}`;

describe('fairlead jobs history', () => {
  it('says in order who moved a job, what became of its attempts, and who tried it again', async () => {
    const { client, work, startEverywhere, end, pass, advance, fairlead, data } = counter();
    const { jobId } = await client.submit({ type: 'resize' });
    await fairlead('jobs', 'retime', jobId, '--in', '1h', '--as', 'ann');
    await fairlead('jobs', 'retime', jobId, '--in', '0s');
    await pass();
    const [started] = await startEverywhere();
    if (started === undefined) throw new Error('nothing was started');
    await advance(2_000);
    const stack = 'at work (worker.js:1:1)\ncause: Error: no\u001b[31m';
    const error = { name: 'Flaky', message: 'not \u001b[31mnow', stack };
    const again = await end(started, { kind: 'retry', error, runAtMs: started.job.startedAtMs ?? 0 });
    await pass({ jobs: [again], reason: 'stream' });
    const [dead] = await work(FAILED);
    if (dead === undefined) throw new Error('nothing was started again');
    const made = (await fairlead('jobs', 'retry', jobId)).out.trim();

    const { code, out, error: trouble } = await fairlead('jobs', 'history', jobId);
    expect({ code, trouble }).toEqual({ code: 0, trouble: '' });
    const on = String.raw`on \S+ of fleet images`;
    expect(out).toMatch(
      new RegExp(
        [
          `^job ${jobId} is failed`,
          `2027-01-15T08:00:00.000Z  submitted`,
          String.raw`\S+  moved by ann from 2027-01-15T08:00:00.000Z to 2027-01-15T09:00:00.000Z`,
          String.raw`\S+  moved by ${HERE} from 2027-01-15T09:00:00.000Z to 2027-01-15T08:00:00.000Z`,
          String.raw`\S+  attempt 1 ${on}: failed after 2 s, Flaky: not \\u\{1b\}\[31mnow; tried again from \S+ on, from its checkpoint, if it left one`,
          String.raw`    at work \(worker\.js:1:1\)`,
          String.raw`    cause: Error: no\\u\{1b\}\[31m`,
          String.raw`\S+  attempt 2 ${on}: failed after 0 ms, Broken: it broke`,
          String.raw`\S+  tried again as ${made} by ${HERE}`,
          '$',
        ].join('\n'),
      ),
    );
    const { history } = await data('jobs', 'history', jobId);
    expect(history).toEqual(JSON.parse(JSON.stringify(await client.history(jobId))));
    expect((await fairlead('jobs', 'history', made)).out).toContain(`another try of ${jobId} by ${HERE}`);
  });

  it('says who cancelled a job, and where it was then', async () => {
    const { client, pass, startEverywhere, fairlead } = counter();
    const [waiting, running] = [
      await client.submit({ type: 'report', runAt: '2100-01-01T00:00:00Z' }),
      await client.submit({ type: 'resize' }),
    ];
    await pass();
    await startEverywhere();
    for (const { jobId } of [waiting, running]) await fairlead('jobs', 'cancel', jobId, '--as', 'ann');
    const said = async (id: string): Promise<string> => (await fairlead('jobs', 'history', id)).out;
    expect(await said(waiting.jobId)).toContain('cancelled by ann, scheduled until then');
    expect(await said(running.jobId)).toMatch(/running\n.*its worker was asked to stop by ann/);
  });

  it('counts what it does not keep', async () => {
    const { client, fairlead } = counter();
    const { jobId } = await client.submit({ type: 'resize' });
    for (let hours = 1; hours <= 25; hours += 1)
      await client.retime(jobId, { runAt: new Date(4_000_000_000_000 + hours).toISOString() });
    expect((await fairlead('jobs', 'history', jobId)).out).toContain(
      '… 5 events were dropped: 0 attempts, 0 of them lost, and 5 others',
    );
  });

  it('names who redrives dead letters', async () => {
    const { client, deadLetter, fairlead } = counter();
    const letters: Job[] = [await deadLetter(), await deadLetter()];
    await fairlead('dead-letters', 'redrive', '--all', '--as', 'ann');
    for (const { id } of letters)
      expect((await client.history(id)).events.at(-1)).toMatchObject({ kind: 'redriven', by: 'ann' });
  });

  it('of no job ends with 3', async () => {
    const { fairlead } = counter();
    expect(await fairlead('jobs', 'history', 'nobody')).toMatchObject({ code: 3, out: '' });
  });

  it.each(['', 'x'.repeat(129), '日'.repeat(43)])(
    'refuses %j for a name, and changes nothing',
    async (name) => {
      const { client, everything, fairlead } = counter();
      const { jobId } = await client.submit({ type: 'resize' });
      const before = everything();
      for (const words of [
        ['jobs', 'cancel', jobId],
        ['jobs', 'retime', jobId, '--in', '1h'],
        ['jobs', 'retry', jobId],
        ['dead-letters', 'redrive', '--all'],
      ]) {
        const { code, error } = await fairlead(...words, '--as', name);
        expect(code).toBe(2);
        expect(error).toMatch(/--as: must (not be empty|be at most 128 bytes)/);
      }
      expect(everything()).toBe(before);
    },
  );
});
