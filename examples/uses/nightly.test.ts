import { testScheduler } from 'fairlead/testing';
import { expect, onTestFinished, test } from 'vitest';
import { declaration, handlersOf, jobs, OFFICES } from './nightly.ts';

test('each office has a report in each of its nights, also where clocks change', async () => {
  const mails: string[] = [];
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf({
      count: async () => 7,
      mail: async (office, text) => void mails.push(`${office}: ${text}`),
    }),
    // In Europe, the night of the 29th has no half past two.
    start: '2026-03-28T12:00:00Z',
  });
  onTestFinished(() => t.dispose());
  await t.advance('2d');
  const hours = t.started('report').map(({ fairnessKey, startedAt }) => {
    const timeZone = OFFICES[fairnessKey as keyof typeof OFFICES];
    const time = startedAt.toLocaleTimeString('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });
    return `${fairnessKey} ${time}`;
  });
  expect(hours).toEqual([
    'tokyo 02:30',
    'berlin 03:00',
    'newYork 02:30',
    'tokyo 02:30',
    'berlin 02:30',
    'newYork 02:30',
  ]);
  expect(mails).toHaveLength(6);
  expect(mails[0]).toBe('tokyo: 7 orders until 2026-03-29');
});

test('a report whose worker dies is not mailed twice', async () => {
  const keys: string[] = [];
  const t = await testScheduler(jobs, declaration, {
    handlers: handlersOf({ count: async () => 7, mail: async (_, __, key) => void keys.push(key) }),
    start: '2026-05-01T12:00:00Z',
    takes: { report: '1m' },
  });
  onTestFinished(() => t.dispose());
  await t.advance('330m');
  await t.advance('30s');
  const [report] = t.started('report');
  if (report === undefined) expect.fail('no report has started');
  t.crashWorker(report.jobId);
  await t.runUntilIdle();
  expect(t.job(report.jobId).state).toBe('succeeded');
  expect(keys).toEqual([report.jobId]);
});
