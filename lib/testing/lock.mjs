/**
 * A lock between processes, kept in a file. It is plain JavaScript without dependencies for Node 20, because it guards the
 * installation of everything else.
 */
import { mkdir, open, readFile, stat, unlink, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 200;
/** How often the holder updates the time of its file. */
const TOUCH_MS = 5_000;
/** The age at which a file counts as left behind by a holder that has died. */
const STALE_MS = 60_000;
/** The age at which the file of a breaker counts as left behind. Breaking a stale lock takes far less time. */
const BREAK_STALE_MS = 10_000;

const hasCode = (error, code) => error instanceof Error && error.code === code;

/** @returns {Promise<boolean>} false if the file exists already */
async function createExclusively(path, text) {
  try {
    const file = await open(path, 'wx');
    try {
      await file.writeFile(text);
    } finally {
      await file.close();
    }
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  }
}

async function remove(path) {
  await unlink(path).catch((error) => {
    if (!hasCode(error, 'ENOENT')) throw error;
  });
}

const isAlive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return hasCode(error, 'EPERM');
  }
};

/** Returns the holder of the lock; undefined if the lock is free. `stale` says that the holder has died. */
async function holderOf(path) {
  try {
    const [text, { mtimeMs }] = await Promise.all([readFile(path, 'utf8'), stat(path)]);
    const [pid, host] = text.split('\n');
    const gone = host === hostname() && !isAlive(Number(pid));
    return { pid, stale: gone || Date.now() - mtimeMs > STALE_MS };
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Removes a stale lock. A second lock file keeps other processes from removing the lock that a new holder has just made. */
async function breakStale(path) {
  const breaker = `${path}.break`;
  if (await createExclusively(breaker, '')) {
    try {
      if ((await holderOf(path))?.stale) await remove(path);
    } finally {
      await remove(breaker);
    }
    return;
  }
  const made = await stat(breaker).catch(() => undefined);
  if (made !== undefined && Date.now() - made.mtimeMs > BREAK_STALE_MS) await remove(breaker);
}

/**
 * Runs `action` while no other process does so under the same path.
 *
 * @template T
 * @param {string} path the lock's file, whose folder is created
 * @param {{ waitMs: number, onWait?: (pid: string) => void, signal?: AbortSignal }} options
 * @param {() => Promise<T>} action
 * @returns {Promise<T>}
 * @throws an Error that names the holder if the lock is not free within `waitMs`
 */
export async function withLock(path, { waitMs, onWait, signal }, action) {
  await mkdir(dirname(path), { recursive: true });
  const giveUpAtMs = Date.now() + waitMs;
  let hasReported = false;
  while (!(await createExclusively(path, `${process.pid}\n${hostname()}\n`))) {
    const holder = await holderOf(path);
    if (holder?.stale) await breakStale(path);
    else if (holder !== undefined) {
      if (Date.now() > giveUpAtMs) {
        throw new Error(
          `process ${holder.pid} has held ${path} for ${Math.round(waitMs / 1000)} s; end it, or remove the file`,
        );
      }
      if (!hasReported) onWait?.(holder.pid);
      hasReported = true;
      await sleep(POLL_MS, undefined, { signal });
    }
  }
  const touch = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {});
  }, TOUCH_MS);
  touch.unref();
  try {
    signal?.throwIfAborted();
    return await action();
  } finally {
    clearInterval(touch);
    await remove(path);
  }
}
