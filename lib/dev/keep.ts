/** Keeps everything that a development server holds in a folder, across its restarts, for one server at a time. */
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { EnvironmentError } from '../core/errors.ts';
import { isTerminal, TERMINAL_TTL_MS } from '../core/job.ts';
import { afterRelease } from '../core/retry.ts';
import type { LocalScheduler } from '../local/scheduler.ts';
import { storeAnnounced } from '../submit/submit.ts';

type KeptState = LocalScheduler['state'] & {
  /** The server's time when it was saved. */
  readonly savedAtMs: number;
};

const FILE = 'state';
/** The beginning of the file. The checksum of the state follows, then `savedAtMs`, then the state. */
const HEADER = Buffer.from('fairlead dev 1\n');
const CHECKSUM_BYTES = 32;
const TIME_AT = HEADER.length + CHECKSUM_BYTES;
const TIME_BYTES = 8;

const checksumOf = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();

/**
 * Writes everything, in one step: a reader finds this state or the one before. What equals `saved` is not written again.
 *
 * @param saved - the answer of the last call
 */
export async function saveState(
  {
    state,
    client,
  }: Pick<LocalScheduler, 'state'> & { readonly client: Pick<LocalScheduler['client'], 'nowMs'> },
  folder: string,
  saved?: Buffer,
): Promise<Buffer> {
  const bytes = serialize(state);
  const now = checksumOf(bytes);
  if (saved?.equals(now)) return saved;
  const time = Buffer.alloc(TIME_BYTES);
  time.writeDoubleBE(client.nowMs());
  const path = join(folder, FILE);
  await writeFile(`${path}.new`, Buffer.concat([HEADER, now, time, bytes]));
  await rename(`${path}.new`, path);
  return now;
}

/**
 * Reads what is kept; undefined: nothing yet.
 * @throws EnvironmentError - the file is damaged, or not one that this version wrote
 */
export async function readState(folder: string): Promise<KeptState | undefined> {
  const path = join(folder, FILE);
  let file: Buffer;
  try {
    file = await readFile(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw unusable(folder, error);
  }
  const bytes = file.subarray(TIME_AT + TIME_BYTES);
  const head = Buffer.concat([HEADER, checksumOf(bytes)]);
  try {
    if (head.equals(file.subarray(0, TIME_AT)))
      return { ...(deserialize(bytes) as LocalScheduler['state']), savedAtMs: file.readDoubleBE(TIME_AT) };
  } catch {
    // Another version of Node.js has written it, and the sentence below says what to do.
  }
  throw new EnvironmentError(
    `--keep: ${path} is damaged, or another version wrote it; delete it to begin anew, or name another folder`,
  );
}

const codeOf = (error: unknown): unknown =>
  error instanceof Error && 'code' in error ? error.code : undefined;

const unusable = (folder: string, cause: unknown): EnvironmentError =>
  new EnvironmentError(
    `--keep: ${folder} cannot be used (${String(codeOf(cause) ?? cause)}); name a folder that you may write to`,
    { cause },
  );

const LOCK = /^lock-(\d+)$/;
/** Each try that fails was lost to another server, which has started or has ended since. */
const TRIES_MAX = 20;

/**
 * Takes the folder for this server. A lock counts while its process lives and answers at its port, so that of a killed server
 * counts no more. A server that finds such a lock takes the next number, which only one process can do.
 *
 * @param port - the port at which this server answers already
 * @returns a function that gives the folder free
 * @throws EnvironmentError - another server has it
 */
export async function takeFolder(folder: string, port: number): Promise<() => Promise<void>> {
  try {
    await makeFolder(folder);
    for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
      const numbers = (await readdir(folder)).flatMap((name) => Number(LOCK.exec(name)?.[1] ?? []));
      const newest = Math.max(0, ...numbers);
      if (newest > 0) await requireGone(folder, join(folder, `lock-${newest}`));
      const path = join(folder, `lock-${newest + 1}`);
      if (!(await isWrittenFirst(path, JSON.stringify({ pid: process.pid, port })))) continue;
      for (const number of numbers) await rm(join(folder, `lock-${number}`), { force: true });
      return () => rm(path, { force: true });
    }
  } catch (error) {
    throw error instanceof EnvironmentError ? error : unusable(folder, error);
  }
  throw unusable(folder, 'other servers start and end there');
}

/** Makes a folder, with those above it. Node's own `recursive` tries for ever in a file system that refuses folders, as /proc does. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    if (codeOf(error) === 'EEXIST' && (await stat(folder)).isDirectory()) return;
    if (codeOf(error) !== 'ENOENT' || existsSync(dirname(folder))) throw error;
    await makeFolder(dirname(folder));
    await makeFolder(folder);
  }
}

/** Writes a file that does not exist yet, in one step. Returns false if it exists. */
async function isWrittenFirst(path: string, text: string): Promise<boolean> {
  const own = `${path}-${randomUUID()}`;
  await writeFile(own, text);
  try {
    await link(own, path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(own, { force: true });
  }
}

async function requireGone(folder: string, path: string): Promise<void> {
  const { pid, port } = await holderOf(path);
  if (!isAlive(pid) || !(await answersAt(port))) return;
  throw new EnvironmentError(
    `--keep: another fairlead dev uses ${folder} (process ${pid}, port ${port}); end it, or name another folder`,
  );
}

/** Returns the process that a lock names; 0 if it names none, or its server has just removed it. */
async function holderOf(path: string): Promise<{ readonly pid: number; readonly port: number }> {
  try {
    const { pid, port } = JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>;
    return { pid: Number(pid), port: Number(port) };
  } catch (error) {
    if (error instanceof SyntaxError || codeOf(error) === 'ENOENT') return { pid: 0, port: 0 };
    throw error;
  }
}

function isAlive(pid: number): boolean {
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

const answersAt = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    const done = (answers: boolean) => (): void => {
      socket.destroy();
      resolve(answers);
    };
    socket.once('connect', done(true)).once('error', done(false));
  });

/**
 * Ends what the process before has left open: its attempts are given back, what it reserved and never started is given up, and its
 * workers leave. Returns the number of jobs that have not ended.
 */
export async function endFormerLife(scheduler: LocalScheduler): Promise<number> {
  const { store, client } = scheduler;
  const nowMs = client.nowMs();
  const open = [...store.everyJob()].filter(({ state }) => !isTerminal(state));
  const reserved = new Map(
    [...store.state.partitions.values()].flatMap(({ reservations }) =>
      [...reservations.values()].flatMap(({ jobs }) =>
        [...jobs.values()].map(({ id, version }) => [id, version] as const),
      ),
    ),
  );
  // The lines of jobs that ran may have been retired since.
  await storeAnnounced(client, open, async () => {
    for (const job of open) {
      const { id, state, version, claim } = job;
      if (state === 'running')
        await store.endUnfinished({
          job,
          verdict: afterRelease('the development server ended', nowMs, false),
          as: 'released',
          nowMs,
          expiresAtMs: nowMs + TERMINAL_TTL_MS,
        });
      else if (claim !== undefined && state === 'claimed')
        await store.giveBack({ job, claimId: claim.claimId, nowMs });
      else if (state === 'pending' && reserved.get(id) === version)
        await store.raiseVersion({ jobId: id, version });
    }
  });
  // The stream's records of attempts that had ended are gone, so the next passes are told of everything that holds capacity.
  for (const id of reserved.keys()) {
    const job = store.inspectJob(id);
    if (job !== undefined) scheduler.remind(job);
  }
  for (const [partition, { workers, leader }] of store.state.partitions) {
    for (const worker of [...workers.values()]) await store.deregisterWorker({ partition, worker });
    if (leader !== undefined) await store.stopLeading({ partition, holder: leader.holder });
    scheduler.wake(partition);
  }
  return open.length;
}
