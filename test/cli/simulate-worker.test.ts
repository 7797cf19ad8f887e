/** A worker that the product refuses is a wrong file, and its field is named. */
import { expect, it } from 'vitest';
import { simulated } from './run.ts';

it.each([
  ['slots', { worker: 'w', fleet: 'f', slots: 2_001 }],
  ['worker', { worker: '漢'.repeat(200), fleet: 'f', slots: 1 }],
])('names %s, and ends with exit code 2', async (field, worker) => {
  const { code, error } = await simulated({
    schema: 'fairlead/1',
    scenarios: [
      {
        id: 'x',
        untilMs: 1_000,
        configuration: { types: { a: {} }, fleets: { f: { types: ['a'] } } },
        workers: [worker],
      },
    ],
  });
  expect({ code, error }).toEqual({
    code: 2,
    error: expect.stringContaining(`scenarios[0].workers[0].${field}`),
  });
});
