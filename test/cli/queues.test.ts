/** `fairlead queues`: what stands among the dead letters, with its reason, and what becomes of it. */
import { beforeEach, describe, expect, it } from 'vitest';
import { runProgram } from '../../lib/cli/program.ts';
import type { DeadLetterView } from '../../lib/queue/contract.ts';

let dead: Record<string, DeadLetterView[]>;
let sent: string[];
let open: number;

const letter = (body: string, reason?: string): DeadLetterView => ({
  sentAtMs: Date.UTC(2026, 10, 28),
  body,
  ...(reason === undefined ? {} : { reason }),
});

beforeEach(() => {
  open = 0;
  sent = [];
  dead = {
    ingest: [
      letter('{"detail-type":"Job Requested"}', 'NO_PERMISSIONS: not allowed'),
      letter('x'.repeat(500)),
    ],
    outcomes: [],
  };
});

async function fairlead(...words: readonly string[]) {
  const said = { out: '', error: '' };
  const code = await runProgram(
    ['queues', ...words],
    { out: (text) => (said.out += text), error: (text) => (said.error += text) },
    {
      connect: () => Promise.reject(new Error('nothing is to be connected')),
      connectQueues: async () => {
        open += 1;
        const letters = (queue: string): DeadLetterView[] => dead[queue] ?? [];
        return {
          queues: {
            names: Object.keys(dead),
            look: async (queue) => {
              const shown = [...letters(queue)];
              return { queue, waiting: 2, taken: 1, deadLetters: shown.length, shown };
            },
            redrive: async (queue, max) => {
              const moved = letters(queue).splice(0, max);
              sent.push(...moved.map(({ body }) => `${queue} ${body}`));
              return { sentBack: moved.length, kept: queue === 'outcomes' ? 2 : 0 };
            },
            purge: async (queue) => void letters(queue).splice(0),
          },
          close: () => {
            open -= 1;
          },
        };
      },
    },
  );
  expect(open).toBe(0);
  return { code, ...said };
}

describe('fairlead queues', () => {
  it.each([[], ['list']])(
    'shows both queues, and each dead letter with its reason (%s)',
    async (...words) => {
      const { code, out } = await fairlead(...words);
      expect(code).toBe(0);
      expect(out).toMatch(/ingest.*2.*1.*2[\s\S]*outcomes.*2.*1.*0/);
      expect(out).toMatch(
        /ingest, sent 2026-11-28T00:00:00.000Z: NO_PERMISSIONS: not allowed\n.*Job Requested/,
      );
      expect(out).toMatch(/was not processed in as many deliveries as the queue allows\n {2}x{160}…/);
    },
  );

  it('shows all of it to machines', async () => {
    const { out } = await fairlead('list', '--json');
    expect(JSON.parse(out).queues[0]).toMatchObject({ queue: 'ingest', deadLetters: 2, shown: dead.ingest });
  });

  it('sends dead letters back, as many as are asked for', async () => {
    expect(await fairlead('redrive', 'ingest', '--limit', '1')).toMatchObject({
      code: 0,
      out: '1 sent back to ingest; there may be more: raise --limit\n',
    });
    expect(sent).toEqual(['ingest {"detail-type":"Job Requested"}']);
    expect(await fairlead('redrive', 'ingest')).toMatchObject({ out: '1 sent back to ingest\n' });
    expect((await fairlead('redrive', 'outcomes')).out).toMatch(
      /^0 sent back to outcomes; 2 stay, because they are no job requests/,
    );
  });

  it('deletes them only if it is told twice', async () => {
    const { code, error } = await fairlead('purge', 'ingest');
    expect([code, error]).toEqual([2, expect.stringMatching(/would delete 2 dead letters of ingest.*--yes/)]);
    expect(dead.ingest).toHaveLength(2);
    expect(await fairlead('purge', 'ingest', '--yes')).toMatchObject({
      code: 0,
      out: '2 dead letters of ingest deleted\n',
    });
    expect(dead.ingest).toEqual([]);
  });

  it.each([
    [['redrive', 'wakes'], /"wakes" is not a queue with dead letters; there are: ingest, outcomes/],
    [['purge', 'wakes', '--yes'], /"wakes" is not a queue/],
    [['redrive', 'ingest', '--limit', '0'], /--limit: must be a whole number/],
    [['redirve', 'ingest'], /unknown command "redirve". Did you mean "redrive"/],
  ])('refuses %s', async (words, message) => {
    const { code, error } = await fairlead(...words);
    expect([code, error]).toEqual([2, expect.stringMatching(message)]);
  });
});
