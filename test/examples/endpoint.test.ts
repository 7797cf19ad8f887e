import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { untilEndIsTold } from '../../examples/endpoint.ts';
import type { EmulatorExit } from '../../lib/testing/emulator.ts';

/** Something that speaks HTTP until it is closed. */
async function listening(): Promise<{ readonly endpoint: string; readonly close: () => Promise<void> }> {
  const server = createServer((_, response) => response.end());
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const close = (): Promise<void> =>
    new Promise((done) => {
      server.close(() => done());
      server.closeAllConnections();
    });
  onTestFinished(close);
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

const never = new Promise<EmulatorExit>(() => {});

describe('after something failed', () => {
  it('an emulator that answers is not waited for', async () => {
    const { endpoint } = await listening();
    await untilEndIsTold({ endpoint, exited: never });
  });

  it('the end of one that answers no more is told first', async () => {
    const { endpoint, close } = await listening();
    await close();
    const order: string[] = [];
    let end: (exit: EmulatorExit) => void = () => {};
    const exited = new Promise<EmulatorExit>((done) => {
      end = done;
    });
    exited.then(() => order.push('the emulator was killed'));
    const waited = untilEndIsTold({ endpoint, exited }).then(() => order.push('what failed'));
    // As late as the removal of temporary files makes it on a busy machine.
    setTimeout(() => end({ expected: false, reason: 'the emulator was killed' }), 50);
    await waited;
    expect(order).toEqual(['the emulator was killed', 'what failed']);
  });
});
