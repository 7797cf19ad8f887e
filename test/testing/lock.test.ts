import { utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { withLock } from '../../lib/testing/lock.mjs';
import { folderWith } from '../examples/folder.ts';

const WAIT_MS = 10_000;

describe('a lock between processes', () => {
  it('lets one in at a time, and everybody in the end', async () => {
    const path = join(await folderWith(), 'state/lock');
    let inside = 0;
    let most = 0;
    const visit = () =>
      withLock(path, { waitMs: WAIT_MS }, async () => {
        inside += 1;
        most = Math.max(most, inside);
        await new Promise(setImmediate);
        inside -= 1;
      });
    await Promise.all([visit(), visit(), visit()]);
    expect(most).toBe(1);
  });

  it('is free again after a failure', async () => {
    const path = join(await folderWith(), 'lock');
    const failing = withLock(path, { waitMs: WAIT_MS }, () => Promise.reject(new Error('failed')));
    await expect(failing).rejects.toThrow('failed');
    expect(await withLock(path, { waitMs: 0 }, async () => 'in')).toBe('in');
  });

  it('is taken over from a process that is gone', async () => {
    // No process has this number on Linux, where they end at 2^22.
    const root = await folderWith({ lock: `4999999\n${hostname()}\n` });
    const all = [1, 2, 3].map(() => withLock(join(root, 'lock'), { waitMs: WAIT_MS }, async () => 'in'));
    expect(await Promise.all(all)).toEqual(['in', 'in', 'in']);
  });

  it('is taken over from another machine once nobody has touched it for a minute', async () => {
    const root = await folderWith();
    const path = join(root, 'lock');
    await writeFile(path, '1\nanother-host\n');
    const old = new Date(Date.now() - 120_000);
    await utimes(path, old, old);
    expect(await withLock(path, { waitMs: 0 }, async () => 'in')).toBe('in');
  });

  it('says who holds it when waiting has taken too long', async () => {
    const root = await folderWith({ lock: `${process.pid}\n${hostname()}\n` });
    const waited: string[] = [];
    const waiting = withLock(
      join(root, 'lock'),
      { waitMs: 0, onWait: (pid: string) => waited.push(pid) },
      async () => 'in',
    );
    await expect(waiting).rejects.toThrow(new RegExp(`process ${process.pid} .*lock`));
  });

  it('is not waited for after the signal', async () => {
    const root = await folderWith({ lock: `${process.pid}\n${hostname()}\n` });
    const controller = new AbortController();
    const options = { waitMs: WAIT_MS, onWait: () => controller.abort(), signal: controller.signal };
    await expect(withLock(join(root, 'lock'), options, async () => 'in')).rejects.toThrow();
  });
});
