/** Servers, forwarders and attempts of the tests. */
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ForwardedAttempt, Forwarder, forwardUrl } from '../../lib/worker/forward.ts';

const closing: (() => unknown)[] = [];
/** Has it called at the end of the test. */
export const later = (close: () => unknown): void => void closing.push(close);

export async function closeAll(): Promise<void> {
  for (const close of closing.splice(0)) await close();
}

export async function listening(
  listener: RequestListener,
): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

export async function forwarderTo(url: string): Promise<Forwarder> {
  const forwarder = new Forwarder(forwardUrl(url));
  await forwarder.listen();
  closing.push(() => forwarder.close());
  return forwarder;
}

interface Kept {
  readonly progress: unknown[];
  readonly checkpoints: unknown[];
}

export function anAttempt(changes: Partial<ForwardedAttempt> = {}): ForwardedAttempt & Kept {
  const kept: Kept = { progress: [], checkpoints: [] };
  return {
    ...kept,
    id: 'job-1',
    type: 'resize',
    limits: [],
    attempt: 1,
    fencingToken: 7,
    deadline: new Date('2030-01-01T00:00:00Z'),
    signal: new AbortController().signal,
    heartbeat: (data) => kept.progress.push(data),
    checkpoint: async (data) => {
      kept.checkpoints.push(data);
    },
    ...changes,
  };
}
