/** `fairlead dev`: a user's module runs, is read again, and leaves nothing. */
import { execFileSync, spawn } from 'node:child_process';
import { watch } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { buildPage } from '../../build-page.ts';
import { readState, saveState } from '../../lib/dev/keep.ts';
import { DevServer } from '../../lib/dev/server.ts';
import { folderOfFile } from '../fixtures/folders.ts';

const project = resolve(import.meta.dirname, '../..');
const JOBS = `
  import { defineJobs, job } from 'fairlead/jobs';
  export const jobs = defineJobs({ report: job<{ month: number }, { url: string }>(), slow: job<{ ms: number }>() });
`;
const WORKER = `
  import { setTimeout as sleep } from 'node:timers/promises';
  import { worker } from 'fairlead/worker';
  import { jobs } from './jobs.ts';
  const version: string = 'v1';
  export const handler = worker(jobs, {
    report: async ({ month }) => ({ url: version + '/' + month }),
    slow: async ({ ms }, ctx) => void (await sleep(ms, undefined, { signal: ctx.signal })),
  });
`;

/** A user's project. */
async function appIn(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = folderOfFile('fairlead-dev-');
  const app = join(folder, `ü n ${String(Math.random()).slice(2)}`);
  await mkdir(app, { recursive: true });
  const all = { 'package.json': '{ "type": "module" }', 'jobs.ts': JOBS, 'worker.ts': WORKER, ...files };
  for (const [name, text] of Object.entries(all)) await writeFile(join(app, name), text);
  // The runner of these tests imports modules in its own way, and leaves those of packages to Node.js.
  await mkdir(join(app, 'node_modules'));
  await symlink(join(project, 'node_modules/esbuild'), join(app, 'node_modules/esbuild'));
  return app;
}

const pageFolder = folderOfFile('fairlead-dev-page-');
beforeAll(() => buildPage(pageFolder));

async function devIn(
  app: string,
  options: { readonly keep?: string; readonly speed?: number; readonly pageFolder?: string } = {},
) {
  const lines: string[] = [];
  const server = await DevServer.start({
    module: 'worker.ts',
    cwd: app,
    port: 0,
    speed: 1,
    keep: undefined,
    dashboardPort: 0,
    actor: 'ada',
    pageFolder,
    write: (line) => lines.push(line),
    columns: () => 80,
    ...options,
  });
  let isOpen = true;
  const close = async (): Promise<void> => {
    if (isOpen) await server.close();
    isOpen = false;
  };
  onTestFinished(close);
  const call = async (path: string, body?: unknown, method = 'POST'): Promise<Record<string, unknown>> => {
    const answer = await fetch(`${server.url}${path}`, {
      ...(body === undefined
        ? {}
        : { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    return (await answer.json()) as Record<string, unknown>;
  };
  const said = (text: RegExp): Promise<void> =>
    expect.poll(() => lines.join('\n'), { timeout: 20_000 }).toMatch(text);
  const submit = async (type: string, payload: object, more: object = {}): Promise<string> =>
    String((await call('/jobs', { type, payload, ...more })).jobId);
  const jobOf = async (id: string): Promise<Record<string, unknown>> =>
    (await call(`/jobs/${id}`)).job as Record<string, unknown>;
  return { server, lines, call, jobOf, said, submit, close };
}

/** `fairlead dev` as a process of its own. */
function commandIn(app: string, options: readonly string[], nodeOptions: readonly string[] = []) {
  const main = join(project, 'lib/cli/main.ts');
  const child = spawn(process.execPath, [...nodeOptions, main, 'dev', ...options], { cwd: app });
  onTestFinished(() => void child.kill('SIGKILL'));
  let out = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data) => {
      out += String(data);
    });
  const ended = new Promise<string>((done) => child.on('exit', (code) => done(`${code} ${out}`)));
  const submitted = async (body: object): Promise<string> => {
    await expect.poll(() => out, { timeout: 30_000 }).toMatch(/FAIRLEAD_URL=(\S+)/);
    const [, url = ''] = /FAIRLEAD_URL=(\S+)/.exec(out) ?? [];
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${url}/jobs`, { method: 'POST', headers, body: JSON.stringify(body) });
    return `${url}/jobs/${((await answer.json()) as { readonly jobId: string }).jobId}`;
  };
  return { child, ended, out: () => out, submitted };
}

it('runs jobs of other processes, which reach it by its URL alone, and prints a line for each', async () => {
  const { submit, jobOf, said, lines } = await devIn(await appIn());
  const id = await submit('report', { month: 3 });
  await said(/✓ report .* succeeded/);
  expect(await jobOf(id)).toMatchObject({ state: 'succeeded', result: { url: 'v1/3' } });
  expect(lines.every((line) => line.length <= 80)).toBe(true);
});

it('keeps the errors of handlers with the places in the user’s files', async () => {
  const failing = `
    import { worker } from 'fairlead/worker';
    interface Payload { readonly month: number }
    export const handler = worker({ report: ({ month }: Payload) => {
      throw new Error(String(month));
    } });`;
  const app = await appIn({ 'worker.ts': failing });
  const { submitted } = commandIn(app, ['worker.ts', '--port', '0']);
  const job = await submitted({ type: 'report', payload: { month: 1 } });
  const history = async (): Promise<string> => (await fetch(`${job}/history`)).text();
  await expect.poll(history, { timeout: 20_000 }).toContain(`${app}/worker.ts:5:`);
});

it('says of a handler that goes on after its time that it does: nothing else would show for minutes', async () => {
  const hung = `
    import { worker } from 'fairlead/worker';
    export const handler = worker({ report: () => new Promise(() => {}) });`;
  const declared = `export default { types: { report: { timeoutMs: '1s' } } };`;
  const { submit, said } = await devIn(await appIn({ 'worker.ts': hung, 'fairlead.config.ts': declared }));
  await submit('report', { month: 3 });
  await said(/! report \w{8} ignores its signal, and holds its slot/);
});

it('gives jobs the settings of their types, such as how long they may wait', async () => {
  const declared = `export default { types: { report: { expireAfter: '10m' } } };`;
  const { call, submit, jobOf } = await devIn(await appIn({ 'fairlead.config.ts': declared }));
  await call('/controls/pause', { scope: { type: 'report' } });
  const { submittedAtMs, expireAtMs } = await jobOf(await submit('report', { month: 3 }));
  expect(expireAtMs).toBe(Number(submittedAtMs) + 600_000);
});

it('takes the bodies of PutEvents', async () => {
  const { call, said } = await devIn(await appIn());
  const Entries = [
    {
      Source: 'app',
      DetailType: 'Job Requested',
      Detail: JSON.stringify({ type: 'report', payload: { month: 4 } }),
    },
  ];
  expect(await call('/events', { Entries })).toMatchObject({ FailedEntryCount: 0 });
  await said(/✓ report .* succeeded/);
});

it('reads saved files again, ten times in a row, and gives running jobs back without losing one', async () => {
  const app = await appIn();
  const { submit, jobOf, said, lines } = await devIn(app);
  const slow = await submit('slow', { ms: 500_000 });
  const reloads = (): number => lines.filter((line) => line.includes('reloaded in')).length;
  for (let version = 2; version <= 11; version += 1) {
    await expect.poll(async () => (await jobOf(slow)).state, { timeout: 20_000 }).toBe('running');
    const before = reloads();
    // In one step: a reader never finds half of it, and one save may still be told of twice.
    await writeFile(join(app, 'new'), WORKER.replace('v1', `v${version}`));
    await rename(join(app, 'new'), join(app, 'worker.ts'));
    await expect.poll(reloads, { timeout: 20_000 }).toBeGreaterThan(before);
  }
  await said(/given back by its worker/);
  // The last save may have been told of, and not been read.
  const answer = async (): Promise<unknown> => {
    const id = await submit('report', { month: 1 });
    await expect.poll(async () => (await jobOf(id)).state, { timeout: 20_000 }).toBe('succeeded');
    return (await jobOf(id)).result;
  };
  await expect.poll(answer, { timeout: 20_000 }).toEqual({ url: 'v11/1' });
  await expect.poll(async () => (await jobOf(slow)).state, { timeout: 20_000 }).toBe('running');
  expect(await jobOf(slow)).toMatchObject({ attempt: 1, workersLost: 0 });
});

it('goes on with the handlers before, if the saved file is wrong', async () => {
  const app = await appIn();
  const { submit, said } = await devIn(app);
  await writeFile(join(app, 'worker.ts'), 'export const handler = 7 +;');
  await said(/! not reloaded: module: cannot be read: worker\.ts:1:27: Unexpected ";"/);
  await submit('report', { month: 1 });
  await said(/✓ report/);
});

it.each(['with esbuild', 'by Node.js alone'])(
  '%s reads the module again once a file that it imports is there, also in a new folder',
  async (how) => {
    const app = await appIn();
    if (how === 'by Node.js alone') await rm(join(app, 'node_modules'), { recursive: true });
    const { submitted, out } = commandIn(app, ['worker.ts', '--port', '0']);
    await submitted({ type: 'report', payload: { month: 1 } });
    const later = WORKER.replace("'v1'", 'version1').replace(
      'const',
      "import { version1 } from './new/one.ts';\nconst",
    );
    await writeFile(join(app, 'worker.ts'), later);
    await expect.poll(out, { timeout: 20_000 }).toContain('! not reloaded');
    await mkdir(join(app, 'new'));
    await writeFile(join(app, 'new/one.ts'), "export { version1 } from './two.ts';");
    await expect.poll(out, { timeout: 20_000 }).toMatch(/! not reloaded.*two/);
    await writeFile(join(app, 'new/two.ts'), "export const version1 = 'v2';");
    await expect.poll(out, { timeout: 20_000 }).toContain('  reloaded in');
  },
);

it.each(['with esbuild', 'by Node.js alone'])(
  '%s reads the module again if a file was saved while it was read, in a folder that was not watched before',
  async (how) => {
    const app = await appIn();
    if (how === 'by Node.js alone') await rm(join(app, 'node_modules'), { recursive: true });
    const { submitted, out } = commandIn(app, ['worker.ts', '--port', '0']);
    await submitted({ type: 'report', payload: { month: 1 } });
    await mkdir(join(app, 'new'));
    const two = join(app, 'new/two.ts');
    await writeFile(two, "export const version1 = 'v1';");
    await writeFile(
      join(app, 'new/one.ts'),
      `import { readFileSync, writeFileSync } from 'node:fs';
      export { version1 } from './two.ts';
      if (readFileSync(${JSON.stringify(two)}, 'utf8').includes('v1'))
        writeFileSync(${JSON.stringify(two)}, "export const version1 = 'v2';");`,
    );
    const later = WORKER.replace("'v1'", 'version1').replace(
      'const',
      "import { version1 } from './new/one.ts';\nconst",
    );
    await writeFile(join(app, 'worker.ts'), later);
    await expect.poll(out, { timeout: 20_000 }).toMatch(/reloaded in[\s\S]*reloaded in/);
  },
);

it('answers its keys', async () => {
  const { server, said, submit, jobOf } = await devIn(
    await appIn({
      'fairlead.config.ts': `export default { types: { slow: { maxConcurrency: 1 } }, samples: { report: { month: 12 } } };`,
    }),
  );
  await server.press('s');
  await said(/submitted report[\s\S]*✓ report/);
  const first = await submit('slow', { ms: 500_000 });
  await submit('slow', { ms: 1 });
  await expect.poll(async () => (await jobOf(first)).state).toBe('running');
  await server.press('e');
  await said(/room under a cap: type\/slow runs 1 of at most 1/);
  await server.press('k');
  await said(/killed the worker of slow/);
  await expect.poll(async () => (await jobOf(first)).workersLost, { timeout: 20_000 }).toBe(1);
  await server.press('p');
  await said(/paused/);
  expect(await server.press('q')).toBe(false);
});

it('fires schedules, sooner under a higher speed', async () => {
  const nightly = `export default { schedules: { often: { type: 'report', payload: { month: 1 }, every: '10m' } } };`;
  const { said } = await devIn(await appIn({ 'fairlead.config.ts': nightly }), { speed: 3_600 });
  await said(/✓ report[\s\S]*✓ report/);
});

it('keeps jobs and pauses across restarts', async () => {
  const app = await appIn();
  const keep = join(app, 'kept');
  const before = await devIn(app, { keep });
  const slow = await before.submit('slow', { ms: 500_000 });
  const done = await before.submit('report', { month: 2 });
  await before.said(/✓ report/);
  await before.call('/controls/pause', { scope: { type: 'report' } });
  await before.close();
  const after = await devIn(app, { keep });
  await after.said(/1 job goes on/);
  await expect.poll(async () => (await after.jobOf(slow)).state, { timeout: 20_000 }).toBe('running');
  expect(await after.jobOf(done)).toMatchObject({ state: 'succeeded', result: { url: 'v1/2' } });
  await after.submit('report', { month: 3 });
  await after.said(/· report .* waits for the end of a pause/);
});

const COUNTING = `
  import { setTimeout as sleep } from 'node:timers/promises';
  import { worker } from 'fairlead/worker';
  export const handler = worker({ report: async () => {
    globalThis.startsOfTest = (globalThis.startsOfTest ?? 0) + 1;
    await sleep(1);
  } });`;
const starts = (): number => Number(Reflect.get(globalThis, 'startsOfTest') ?? 0);

it('makes one save at a time and one last, and starts no job meanwhile', async () => {
  const declared = `export default { types: { report: { maxConcurrency: 1 } } };`;
  const app = await appIn({ 'worker.ts': COUNTING, 'fairlead.config.ts': declared });
  const keep = join(app, 'kept');
  await mkdir(keep);
  // Nothing reads this pipe yet, so the first save does not end.
  execFileSync('mkfifo', [join(keep, 'state.new')]);
  const { submit, close } = await devIn(app, { keep });
  await sleep(3_200);
  const saves: string[] = [];
  const watcher = watch(keep, (_, name) => void saves.push(String(name)));
  onTestFinished(() => watcher.close());
  await Promise.all(Array.from({ length: 300 }, () => submit('report', {})));
  await expect.poll(starts).toBeGreaterThan(0);
  const closing = close();
  const before = starts();
  await sleep(200);
  await readFile(join(keep, 'state.new'));
  await closing;
  expect(saves.filter((name) => name === 'state')).toHaveLength(2);
  expect(before).toBeLessThan(300);
  expect(starts()).toBe(before);
});

it('says that the last state could not be saved, ends with a code that is not 0, and gives the folder free', async () => {
  const app = await appIn();
  const { child, ended, submitted } = commandIn(app, ['worker.ts', '--port', '0', '--keep', 'kept']);
  await submitted({ type: 'report', payload: { month: 1 } });
  await expect.poll(() => readdir(join(app, 'kept'))).toContain('state');
  await rm(join(app, 'kept'), { recursive: true });
  child.kill('SIGINT');
  expect(await ended).toMatch(
    /^2 [\s\S]*\nfairlead: --keep: kept does not have the last state: .*ENOENT[^\n]*\n$/,
  );
});

it('prints errors that a handler leaves behind, and goes on', async () => {
  const stray = `
    import { worker } from 'fairlead/worker';
    export const handler = worker({ report: ({ month }) => {
      setTimeout(() => { throw new Error('thrown ' + month); }, 1);
      void Promise.reject(new Error('rejected ' + month));
      setTimeout(() => { throw { toString() { throw new Error('no text'); } }; }, 1);
    } });`;
  const { submitted, out, child, ended } = commandIn(await appIn({ 'worker.ts': stray }), [
    'worker.ts',
    '--port',
    '0',
  ]);
  for (const month of [1, 2]) {
    await submitted({ type: 'report', payload: { month } });
    for (const error of [
      `Error: thrown ${month}`,
      `Error: rejected ${month}`,
      'a value that cannot be shown as text',
    ])
      await expect.poll(out).toMatch(new RegExp(`^! outside an attempt: ${error}$`, 'm'));
  }
  child.kill('SIGINT');
  expect(await ended).toMatch(/^0 /);
});

it('writes what it keeps when it has changed, and declares when the declaration has', async () => {
  const app = await appIn();
  const keep = join(app, 'kept');
  const versionOf = async ({ call }: Awaited<ReturnType<typeof devIn>>): Promise<unknown> =>
    ((await call('/declaration')).declaration as Readonly<Record<string, unknown>>).version;
  const before = await devIn(app, { keep });
  await writeFile(join(app, 'worker.ts'), WORKER.replace('v1', 'v2'));
  await before.said(/reloaded in/);
  expect(await versionOf(before)).toBe(1);
  await before.close();
  const after = await devIn(app, { keep });
  expect(await versionOf(after)).toBe(1);
  await writeFile(
    join(app, 'fairlead.config.ts'),
    'export default { types: { slow: { maxConcurrency: 2 } } };',
  );
  await writeFile(join(app, 'worker.ts'), WORKER.replace('v1', 'v3'));
  await after.said(/reloaded in/);
  await after.close();
  const last = await devIn(app, { keep });
  expect(await versionOf(last)).toBe(2);
  await last.close();

  const { savedAtMs, ...state } = (await readState(keep)) ?? expect.fail('nothing is kept');
  const folder = join(app, 'other');
  await mkdir(folder);
  const save = (saved?: Buffer): Promise<Buffer> =>
    saveState({ state, client: { nowMs: () => savedAtMs } }, folder, saved);
  const saved = await save();
  await rm(join(folder, 'state'));
  expect(await save(saved)).toEqual(saved);
  expect(await readdir(folder)).toEqual([]);
  state.store.lettersPut += 1;
  expect(await save(saved)).not.toEqual(saved);
  expect(await readdir(folder)).toEqual(['state']);
});

it('keeps schedules, costs, and the reasons and ends of pauses across restarts', async () => {
  const declared = `export default { types: { slow: {} }, schedules: { often: { type: 'report', payload: { month: 1 }, every: '10m' } } };`;
  const app = await appIn({ 'fairlead.config.ts': declared });
  const keep = join(app, 'kept');
  const before = await devIn(app, { keep });
  await before.call('/schedules/mine', { type: 'report', payload: { month: 5 }, every: '1h' }, 'PUT');
  await before.call('/controls/pause', { scope: { type: 'report' }, for: '1h', reason: 'a fair' });
  const slow = await before.submit('slow', { ms: 300 }, { fairnessKey: 'acme' });
  await expect.poll(async () => (await before.jobOf(slow)).state, { timeout: 20_000 }).toBe('succeeded');
  // The list of keys has those with jobs.
  await before.submit('report', { month: 1 }, { fairnessKey: 'acme' });
  const costOf = async ({ call }: typeof before): Promise<unknown> => {
    const { keys } = (await call('/keys')) as {
      readonly keys: readonly { readonly fairnessKey: string; readonly settledCostMs: number }[];
    };
    return keys.find(({ fairnessKey }) => fairnessKey === 'acme')?.settledCostMs;
  };
  await expect.poll(() => costOf(before), { timeout: 20_000 }).toBeGreaterThan(200);
  const seen = async ({ call }: typeof before) => ({
    often: await call('/schedules/often'),
    mine: await call('/schedules/mine'),
    controls: await call('/controls'),
    costMs: await costOf({ call } as typeof before),
  });
  const first = await seen(before);
  expect(first.mine).toMatchObject({ schedule: { id: 'mine' } });
  await before.close();
  const after = await devIn(app, { keep });
  await expect.poll(() => costOf(after), { timeout: 20_000 }).toBe(first.costMs);
  expect(await seen(after)).toEqual(first);
});

it('keeps dedupe keys, tags, refusals and declarations across restarts, and jobs of partitions that are gone', async () => {
  const declared = (partitions: number): string =>
    `export default { types: { slow: {} }, searchableTags: ['order'], partitions: ${partitions} };`;
  const app = await appIn({ 'fairlead.config.ts': declared(4) });
  const keep = join(app, 'kept');
  const first = await devIn(app, { keep });
  const deduped = { dedupe: { key: 'k' }, runAt: '+1h', tags: { order: '7' } };
  const id = await first.submit('report', { month: 1 }, deduped);
  await first.call('/controls/pause', { scope: { type: 'slow' } });
  const waiting = await Promise.all(
    ['a', 'b', 'c', 'd', 'e', 'f'].map((fairnessKey) => first.submit('slow', { ms: 1 }, { fairnessKey })),
  );
  const refused = { Source: 'app', DetailType: 'Job Requested', Detail: '{"type":"unknown"}' };
  await first.call('/events', { Entries: [refused] });
  const { rejections } = await first.call('/rejections');
  expect(rejections).toHaveLength(1);
  await first.close();
  await writeFile(join(app, 'fairlead.config.ts'), declared(1));
  const second = await devIn(app, { keep });
  expect(await second.submit('report', { month: 1 }, deduped)).toBe(id);
  expect(await second.call('/jobs?state=any&tag=order=7')).toMatchObject({ jobs: [{ id }] });
  expect(await second.call('/rejections')).toMatchObject({ rejections });
  expect(await second.call('/declaration')).toMatchObject({ declaration: { version: 2 } });
  await second.call('/controls/resume', { scope: { type: 'slow' } });
  for (const each of waiting)
    await expect.poll(async () => (await second.jobOf(each)).state, { timeout: 20_000 }).toBe('succeeded');
});

it('loses no job, and holds no cap or key, over restarts in the middle of work', {
  timeout: 60_000,
}, async () => {
  const app = await appIn({
    'fairlead.config.ts': `export default {
      partitions: 2,
      types: { report: { conflictGroup: 'album', limits: ['all'] }, slow: { maxConcurrency: 2 } },
      limits: { all: { total: 4, perKey: 2 } },
      fleets: { functions: { types: ['report'] }, processes: { types: ['slow'], slots: null } },
    };`,
  });
  const keep = join(app, 'kept');
  const ids: string[] = [];
  const ended = async ({ jobOf }: Awaited<ReturnType<typeof devIn>>): Promise<number> => {
    const jobs = await Promise.all(ids.map(jobOf));
    return jobs.filter(({ state }) => state === 'succeeded').length;
  };
  for (let life = 1; life <= 4; life += 1) {
    const server = await devIn(app, { keep });
    const before = await ended(server);
    for (let no = 0; no < 10; no += 1) {
      const more = { fairnessKey: `k${no % 7}`, resourceId: `album-${no % 2}` };
      ids.push(
        await server.submit('slow', { ms: 40 }, more),
        await server.submit('report', { month: no }, more),
      );
    }
    await expect.poll(() => ended(server), { timeout: 20_000 }).toBeGreaterThan(before);
    await server.close();
  }
  const last = await devIn(app, { keep });
  await expect.poll(() => ended(last), { timeout: 40_000 }).toBe(ids.length);
  const running = async (): Promise<number> => {
    const { capacity } = (await last.call('/capacity')) as unknown as {
      readonly capacity: { readonly scopes: readonly { readonly running: number }[] };
    };
    return Math.max(...capacity.scopes.map((scope) => scope.running));
  };
  await expect.poll(running, { timeout: 20_000 }).toBe(0);
});

it('goes on at the time that it had, where that is ahead of the clock', async () => {
  const app = await appIn();
  const keep = join(app, 'kept');
  const fast = await devIn(app, { keep, speed: 10_000 });
  const early = await fast.submit('report', { month: 1 }, { runAt: '+1h' });
  await expect.poll(async () => (await fast.jobOf(early)).state, { timeout: 20_000 }).toBe('succeeded');
  const { finishedAtMs } = await fast.jobOf(early);
  await fast.close();
  const after = await devIn(app, { keep });
  const late = await after.submit('report', { month: 1 });
  expect((await after.jobOf(late)).submittedAtMs).toBeGreaterThanOrEqual(Number(finishedAtMs));
});

it('gives a folder to one server at a time, and that of a killed one to the next', async () => {
  const app = await appIn();
  const keep = join(app, 'kept');
  const holder = await devIn(app, { keep });
  const { port } = new URL(holder.server.url);
  await expect(devIn(app, { keep })).rejects.toThrow(
    `another fairlead dev uses ${keep} (process ${process.pid}, port ${port}); end it, or name another folder`,
  );
  await holder.close();
  // The first process has ended; the second number is that of another program by now.
  for (const pid of [2 ** 30, process.pid]) {
    await writeFile(join(keep, 'lock-7'), JSON.stringify({ pid, port: Number(port) }));
    const next = await devIn(app, { keep });
    await next.close();
    expect(await readdir(keep)).toEqual(['state']);
  }
});

it.each([
  ['cut off', (file: Buffer) => file.subarray(0, -100)],
  ['changed', (file: Buffer) => Buffer.concat([file.subarray(0, -1), Buffer.from('?')])],
  ['empty', () => Buffer.from('')],
  ['something else', () => Buffer.from('{"jobs":[]}')],
])('refuses a state that is %s in one sentence, and leaves it alone', async (_, spoil) => {
  const app = await appIn();
  const keep = join(app, 'kept');
  const before = await devIn(app, { keep });
  await before.close();
  const spoilt = spoil(await readFile(join(keep, 'state')));
  await writeFile(join(keep, 'state'), spoilt);
  await expect(devIn(app, { keep })).rejects.toThrow(
    `--keep: ${join(keep, 'state')} is damaged, or another version wrote it; delete it to begin anew, or name another folder`,
  );
  expect(await readdir(keep)).toEqual(['state']);
  expect(await readFile(join(keep, 'state'))).toEqual(spoilt);
});

it('refuses a folder that is none, or has a server, a port that is taken, and a module that is no program, in one sentence, and ends', {
  timeout: 120_000,
}, async () => {
  const app = await appIn();
  const { server } = await devIn(app);
  const { port } = new URL(server.url);
  const started = (...options: readonly string[]) => commandIn(app, options);
  const ends = (...options: readonly string[]): Promise<string> => started('worker.ts', ...options).ended;
  expect(await ends('--port', port)).toMatch(
    /^2 fairlead: port: cannot be listened at \(EADDRINUSE\)[^\n]*Choose another[^\n]*\n$/,
  );
  expect(await ends('--port', '0', '--keep', 'worker.ts')).toMatch(
    /^2 fairlead: --keep: worker\.ts cannot be used \(EEXIST\); name a folder that you may write to\n$/,
  );
  expect(await ends('--port', '4310.5')).toBe('2 fairlead: --port: must be a whole number, not 4310.5\n');
  expect(await ends('--port', '0', '--keep', '/proc/x')).toMatch(
    /^2 fairlead: --keep: \/proc\/x cannot be used \(ENOENT\); name a folder that you may write to\n$/,
  );
  await writeFile(join(app, 'wrong.ts'), 'export const handler = 7 +;');
  expect(await started('wrong.ts', '--port', '0').ended).toMatch(
    /^2 fairlead: module: cannot be read: wrong\.ts:1:27: Unexpected ";"[^\n]*\n$/,
  );
  const kept = ['--port', '0', '--keep', 'kept'];
  const first = started('worker.ts', ...kept);
  await expect.poll(first.out, { timeout: 30_000 }).toContain('FAIRLEAD_URL');
  expect(await ends(...kept)).toMatch(
    new RegExp(
      `^2 fairlead: --keep: another fairlead dev uses kept \\(process ${first.child.pid}, port \\d+\\);[^\n]*\n$`,
    ),
  );
  first.child.kill('SIGKILL');
  await first.ended;
  await expect.poll(started('worker.ts', ...kept).out, { timeout: 30_000 }).toContain('FAIRLEAD_URL');
});

it.each(['with esbuild', 'by Node.js alone'])(
  'as a command %s loads no AWS SDK, ends at Ctrl-C, and leaves no file',
  async (how) => {
    const app = await appIn();
    if (how === 'by Node.js alone') await rm(join(app, 'node_modules'), { recursive: true });
    const files = (await readdir(app, { recursive: true })).toSorted();
    const loaded = `import { registerHooks } from 'node:module';
    registerHooks({ load: (url, context, next) => { if (url.includes('@aws-sdk')) process.stderr.write('SDK ' + url); return next(url, context); } });`;
    await writeFile(join(app, 'watch.mjs'), loaded);
    const options = ['worker.ts', '--port', '0'];
    const { child, ended, out, submitted } = commandIn(app, options, ['--import', './watch.mjs']);
    await submitted({ type: 'report', payload: { month: 1 } });
    await expect.poll(out, { timeout: 30_000 }).toMatch(/✓ report/);
    child.kill('SIGINT');
    expect(await ended).toMatch(/^0 /);
    expect(out()).not.toContain('SDK');
    expect((await readdir(app, { recursive: true })).toSorted()).toEqual([...files, 'watch.mjs'].toSorted());
  },
);

it('serves the dashboard beside it, which reads and changes, and counts from the first job on', async () => {
  const { submit, lines, said, call } = await devIn(await appIn());
  await submit('report', { month: 3 });
  await said(/✓ report .* succeeded/);
  const link = new URL(/dashboard: (\S+)/.exec(lines.join('\n'))?.[1] ?? '');
  expect(link.hostname).toBe('127.0.0.1');
  const headers = { 'content-type': 'application/json', 'x-fairlead-dashboard': '1', origin: link.origin };
  const token = JSON.stringify({ token: link.hash.slice(1) });
  const opening = await fetch(`${link.origin}/session`, { method: 'POST', headers, body: token });
  const cookie = String(opening.headers.get('set-cookie')).split(';')[0] ?? '';
  const look = (path: string) => fetch(`${link.origin}/api${path}`, { headers: { cookie } });
  expect(await (await look('/session')).json()).toEqual({ actor: 'ada', write: true });
  expect(await (await look('/statistics')).json()).toMatchObject({
    statistics: { isKept: true, minutes: [{ admitted: 1 }] },
  });
  const paused = await fetch(`${link.origin}/api/controls/pause`, {
    method: 'POST',
    headers: { ...headers, cookie },
    body: JSON.stringify({ scope: 'pool' }),
  });
  expect(paused.status).toBe(200);
  expect(await call('/controls')).toMatchObject({ controls: [{ scope: 'pool', paused: true }] });
  expect((await fetch(`${link.origin}/api/session`)).status).toBe(401);
});

it('answers no request under a name that is not of this machine', async () => {
  const { server } = await devIn(await appIn());
  const { port } = new URL(server.url);
  const statusUnder = (host: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const asked = request({ host: '127.0.0.1', port, path: '/fleets', headers: { host } }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
      asked.on('error', reject);
      asked.end();
    });
  expect(await statusUnder(`foreign.test:${port}`)).toBe(421);
  for (const name of ['localhost', '127.0.0.1', 'host.docker.internal'])
    expect(await statusUnder(`${name}:${port}`)).toBe(200);
});

it('goes on without a dashboard where its page is not built', async () => {
  const { lines, submit, said } = await devIn(await appIn(), { pageFolder: join(pageFolder, 'none') });
  expect(lines.join('\n')).toContain('no dashboard');
  await submit('report', { month: 4 });
  await said(/✓ report .* succeeded/);
});
