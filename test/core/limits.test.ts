/** The gates of limits in a scheduler that lives on. */
import { expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { LimitGates } from '../../lib/core/limits.ts';

it.each(['fairness key', 'user'])(
  'a cap that an operator gives one %s counts the jobs that run already',
  (by) => {
    const isOther = by === 'user';
    const gates = new LimitGates(
      resolveConfiguration({
        limits: { api: { total: 5, ...(isOther ? { keyedBy: 'user', perKey: 5 } : {}) } },
        types: { call: { limits: ['api'] } },
        fleets: { all: { types: ['call'], slots: 5 } },
      }),
    );
    const keys = { user: 'ada' };
    const [limit, key] = isOther ? [0, 'ada'] : [0, 'tenant'];
    gates.count({ limits: [limit], fairnessKey: 'tenant', keys, costMs: 1 });
    gates.override('api', key, { scope: `limit/api/${key}`, paused: false, maxConcurrency: 1 });
    expect(gates.obstaclesTo(0, { fairnessKey: 'tenant', keys })).toMatchObject([
      { why: 'cap', scope: `limit/api/${key}` },
    ]);
    gates.uncount({ limits: [limit], fairnessKey: 'tenant', keys, costMs: 1 }, 1, 5);
    expect(gates.obstaclesTo(0, { fairnessKey: 'tenant', keys })).toEqual([]);
  },
);
