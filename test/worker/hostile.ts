/** Whatever a handler may give its worker, and the ways in which it gives it. */
import type { JobHandler } from '../../lib/worker/run-job.ts';

export const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};
export const trap = (): never => {
  throw revoked();
};
export const trapped = (target: object): object =>
  new Proxy(target, {
    get: trap,
    has: trap,
    ownKeys: trap,
    getPrototypeOf: trap,
    getOwnPropertyDescriptor: trap,
  });
export const withTrapAt = (name: string): Error => Object.defineProperty(new Error('x'), name, { get: trap });
const round = new Error('round');
round.cause = new AggregateError([round], 'many', { cause: round });

export const HOSTILE: readonly (readonly [string, unknown])[] = [
  ['a proxy that was revoked', revoked()],
  ['a proxy whose traps throw', trapped({})],
  ['a proxy of an error whose traps throw', trapped(new Error('x'))],
  ...['name', 'message', 'stack', 'cause', 'errors', 'code'].map(
    (name) => [`an error whose ${name} throws`, withTrapAt(name)] as const,
  ),
  ...['error', 'suppressed'].map(
    (name) =>
      [
        `a suppressed error whose ${name} throws`,
        Object.assign(withTrapAt(name), { name: 'SuppressedError' }),
      ] as const,
  ),
  [
    'an error whose message is no text and cannot be one',
    Object.assign(new Error('x'), { message: revoked() }),
  ],
  ['an error whose cause is a revoked proxy', new Error('x', { cause: revoked() })],
  ['an error whose causes go round', round],
  ['an error of errors that cannot be read', new AggregateError([revoked(), trapped([])], 'many')],
  ['what throws a revoked proxy when it is made JSON', { toJSON: trap }],
  ['what throws a revoked proxy when it is made text', { toString: trap, [Symbol.toPrimitive]: trap }],
  ['an object without a prototype', Object.create(null)],
  ['a symbol', Symbol('s')],
];

export const WAYS: readonly (readonly [string, (given: unknown) => JobHandler])[] = [
  [
    'thrown',
    (given) => () => {
      throw given;
    },
  ],
  ['rejected with', (given) => () => Promise.reject(given)],
  ['returned', (given) => () => given as never],
  ['returned by a promise', (given) => async () => ({ inner: given }) as never],
  [
    'kept as a checkpoint',
    (given) =>
      async (_, { checkpoint }) => {
        await checkpoint(given as never);
        return null;
      },
  ],
  [
    'told as progress',
    (given) =>
      (_, { heartbeat }) => {
        heartbeat(given as never);
        return null;
      },
  ],
  [
    'put into its context',
    (given) => (_, context) => {
      Object.assign(context, { signal: given });
      return null;
    },
  ],
];
