import { describe, expect, it } from 'vitest';
import { runProgram } from '../../lib/cli/program.ts';
import type { Job } from '../../lib/core/job.ts';
import type { OutcomeEvent } from '../../lib/events/contract.ts';
import type { EndedFilter } from '../../lib/store/contract/ended.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';

const ended = (changes: Partial<Job> = {}): Job =>
  aJob({ state: 'succeeded', finishedAtMs: NOW_MS, version: 4, ...changes });

/** Runs the command on such pages; `takes` says of each event whether the bus takes it. */
async function publish(
  pages: readonly (readonly Job[])[],
  words: readonly string[],
  takes: (event: OutcomeEvent) => boolean = () => true,
) {
  const said = { out: '', error: '' };
  const filters: EndedFilter[] = [];
  const published: OutcomeEvent[] = [];
  let isClosed = false;
  const code = await runProgram(
    ['outcomes', 'publish', ...words],
    { out: (text) => (said.out += text), error: (text) => (said.error += text) },
    {
      connect: () => Promise.reject(new Error('nothing is to be connected')),
      nowMs: () => NOW_MS,
      connectPublisher: async () => ({
        ended: {
          async *endedJobs(filter) {
            filters.push(filter);
            yield* pages;
          },
        },
        events: {
          publish: async (events) => {
            published.push(...events.filter(takes));
            return events.filter((event) => !takes(event)).map((event) => ({ event }));
          },
        },
        close: () => {
          isClosed = true;
        },
      }),
    },
  );
  return { code, ...said, filters, published, isClosed };
}

describe('fairlead outcomes publish', () => {
  const since = new Date(NOW_MS - 3_600_000).toISOString();

  it('publishes what ended, with the ids and versions that it had', async () => {
    const jobs = Array.from({ length: 250 }, () => ended());
    const told = await publish(
      [jobs.slice(0, 120), [], jobs.slice(120)],
      ['--since', since, '--type', 'resize', '--state', 'succeeded', '--json'],
    );
    expect(told).toMatchObject({ code: 0, isClosed: true });
    expect(JSON.parse(told.out)).toEqual({ outcomes: 250, dryRun: false });
    expect(told.filters).toEqual([
      { sinceMs: NOW_MS - 3_600_000, untilMs: NOW_MS, type: 'resize', state: 'succeeded' },
    ]);
    expect(told.published.map(({ detail }) => detail)).toMatchObject(
      jobs.map(({ id, version }) => ({ id, version })),
    );
  });

  it('only counts, where it is asked to', async () => {
    const told = await publish([[ended()]], ['--since', since, '--dry-run']);
    expect([told.code, told.out, told.published]).toEqual([0, '1 outcome events would be published\n', []]);
  });

  it('fails where the bus does not take them, and closes', async () => {
    const told = await publish([[ended()]], ['--since', since], () => false);
    expect(told).toMatchObject({ code: 1, isClosed: true });
    expect(told.error).toContain('did not take 1 of 1');
  });

  it.each([[[]], [['--since', 'yesterday']], [['--since', since, '--state', 'running']]])(
    'refuses %j',
    async (words) => {
      expect(await publish([], words)).toMatchObject({ code: 2, filters: [] });
    },
  );
});
