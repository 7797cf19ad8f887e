/** What a worker process needs of its environment, and says when it is missing. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { runFleetWorker } from '../../lib/worker/fleet-worker.ts';
import { aDeclaration, pretendDeclared } from '../fixtures/declared.ts';

const DECLARATION = aDeclaration(
  resolveConfiguration({ types: { render: {} }, fleets: { boxes: { types: ['render'] } } }),
);
const ENVIRONMENT: Readonly<Record<string, string>> = {
  FAIRLEAD_FLEET: 'boxes',
  FAIRLEAD_TABLE: 'table',
  FAIRLEAD_WAKE_QUEUE: 'http://127.0.0.1/wakes',
  AWS_REGION: 'us-east-1',
};

describe('a worker process', () => {
  beforeEach(() => pretendDeclared(DECLARATION));
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  const withEnvironment = (changes: Readonly<Record<string, string | undefined>> = {}): void => {
    for (const [name, value] of Object.entries({ ...ENVIRONMENT, ...changes })) vi.stubEnv(name, value);
  };

  it.each(['FAIRLEAD_FLEET', 'FAIRLEAD_TABLE', 'FAIRLEAD_WAKE_QUEUE'])(
    'says what is missing, and where it comes from: %s',
    async (name) => {
      for (const value of [undefined, '']) {
        withEnvironment({ [name]: value });
        const run = runFleetWorker({ render: () => null });
        await expect(run).rejects.toThrow(
          `${name} is not set: give the process the environment that \`scheduler.workerEnvironment(fleet)\` returns`,
        );
        await expect(run).rejects.toMatchObject({ name: 'EnvironmentError' });
      }
    },
  );

  it('refuses a heartbeat that is too late for its lease before it looks at anything outside', async () => {
    await expect(
      runFleetWorker({ render: () => null }, { heartbeatMs: '20s', leaseMs: 15_000 }),
    ).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: /^heartbeatMs: must be below .*, got 20000\. /,
    });
    await expect(runFleetWorker({ render: () => null }, { heartbeatMs: 12_000 })).rejects.toThrow(
      'must be below leaseMs - 3000, got 12000',
    );
  });

  it('refuses a table in which nothing is declared, and a fleet that is not declared', async () => {
    pretendDeclared(undefined);
    withEnvironment();
    await expect(runFleetWorker({ render: () => null })).rejects.toMatchObject({
      name: 'MisconfiguredError',
    });
    pretendDeclared(DECLARATION);
    withEnvironment({ FAIRLEAD_FLEET: 'other' });
    await expect(runFleetWorker({ render: () => null })).rejects.toThrow(
      'fleet: is not a fleet of the pool, got "other". The pool has: boxes',
    );
  });

  it('refuses handlers that do not cover its fleet, and leaves no listener behind', async () => {
    withEnvironment();
    const before = process.listenerCount('SIGTERM');
    await expect(runFleetWorker({ index: () => null })).rejects.toThrow('has none for render');
    expect(process.listenerCount('SIGTERM')).toBe(before);
  });

  it('gives a request up that is not answered, and asks again', { timeout: 30_000 }, async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => void sockets.push(socket)).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    withEnvironment({
      AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    });
    vi.restoreAllMocks();
    const running = runFleetWorker({ render: () => null });
    await vi.waitUntil(() => sockets.length > 1, { timeout: 20_000 });
    silent.close();
    for (const socket of sockets) socket.destroy();
    process.emit('SIGTERM');
    expect((await running).end).toBe('stopped');
  });
});
