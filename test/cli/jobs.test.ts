import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { connect } from '../../lib/cli/connect.ts';
import { EnvironmentError, MisconfiguredError } from '../../lib/core/errors.ts';
import type { TypeView } from '../../lib/operate/inspect.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { FAILED, storeWith } from '../stage/stage.ts';
import { counter, fileOf } from './desk.ts';

describe('jobs submit', () => {
  it('prints the id of the job, which has what was asked for', async () => {
    const { fairlead, store, open } = counter();
    const { code, out, error } = await fairlead(
      'jobs',
      'submit',
      'resize',
      ...['--payload', '{"page":1}', '--priority', '7', '--key', 'tenant-a', '--resource', 'album-1'],
      ...['--mode', 'onDemand', '--idempotency-key', 'k', '--label', 'March invoices'],
      ...['--tag', 'order=4711', '--tag', 'note=a=b'],
    );
    expect({ code, error }).toEqual({ code: 0, error: '' });
    const [job] = [...store.everyJob()];
    expect(out).toBe(`${job?.id} pending\n`);
    expect(job).toMatchObject({
      payload: { page: 1 },
      priority: 7,
      fairnessKey: 'tenant-a',
      resourceId: 'album-1',
      label: 'March invoices',
      tags: { order: '4711', note: 'a=b' },
      mode: 'onDemand',
    });
    expect(open()).toBe(0);
  });

  it('takes the payload from a file', async () => {
    const { fairlead, store } = counter();
    await fairlead('jobs', 'submit', 'resize', '--payload-file', fileOf('\uFEFF[1, 2]'));
    expect([...store.everyJob()][0]?.payload).toEqual([1, 2]);
  });

  it('says when the job was submitted before', async () => {
    const { fairlead, data } = counter();
    await data('jobs', 'submit', 'resize', '--idempotency-key', 'k');
    const { out } = await fairlead('jobs', 'submit', 'resize', '--idempotency-key', 'k');
    expect(out).toMatch(/was submitted before/);
    expect(await data('jobs', 'submit', 'resize', '--idempotency-key', 'k')).toMatchObject({
      repeated: true,
    });
  });

  it('of a key with other content fails with 1', async () => {
    const { fairlead } = counter();
    await fairlead('jobs', 'submit', 'resize', '--idempotency-key', 'k');
    const { code, error } = await fairlead(
      'jobs',
      'submit',
      'resize',
      '--idempotency-key',
      'k',
      '--priority',
      '1',
    );
    expect(code).toBe(1);
    expect(error).toMatch(/^fairlead: the idempotency key belongs to job \w+.*\n$/);
  });

  it('takes many from a file, and ends with 1 if one was refused', async () => {
    const { fairlead, data, store } = counter();
    const good = fileOf(JSON.stringify({ jobs: [{ type: 'resize' }, { type: 'report' }] }));
    expect(await data('jobs', 'submit', '--file', good)).toMatchObject({
      requests: [{ kind: 'accepted' }, { kind: 'accepted' }],
    });
    const mixed = fileOf(JSON.stringify([{ type: 'resize' }, { type: 'resise' }]));
    const { code, out } = await fairlead('jobs', 'submit', '--file', mixed);
    expect(code).toBe(1);
    expect(out).toMatch(/refused .*type: unknown job type "resise"/);
    const asJson = await fairlead('jobs', 'submit', '--file', mixed, '--json');
    expect(asJson.code).toBe(1);
    expect(JSON.parse(asJson.out)).toMatchObject({
      requests: [
        { kind: 'accepted' },
        { kind: 'refused', error: { name: 'ValidationError', field: 'type' } },
      ],
    });
    expect([...store.everyJob()]).toHaveLength(4);
  });
});

describe('jobs run', () => {
  it('prints the result', async () => {
    const { fairlead, advance, pass, startEverywhere, end, finish } = counter();
    const running = fairlead('jobs', 'run', 'resize', '--payload', '1');
    await advance(0);
    await pass();
    for (const started of await startEverywhere())
      await end(started, { kind: 'succeeded', result: { width: 640 } });
    const { code, out } = await finish(running);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({ width: 640 });
  });

  it('of a job that fails ends with 1 and its error', async () => {
    const { fairlead, advance, pass, startEverywhere, end, finish } = counter();
    const running = fairlead('jobs', 'run', 'resize');
    await advance(0);
    await pass();
    for (const started of await startEverywhere()) await end(started, FAILED);
    const { code, out, error } = await finish(running);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(error).toMatch(/Broken: it broke/);
  });

  it('ends with 4 when the time is up, and cancels only if it is told to', async () => {
    const { fairlead, finish, store } = counter();
    const patient = await finish(fairlead('jobs', 'run', 'resize', '--timeout', '2s'));
    expect(patient.code).toBe(4);
    expect(patient.error).toMatch(/had not ended after 2000 ms \(pending\); it continues/);
    expect([...store.everyJob()].map(({ state }) => state)).toEqual(['pending']);
    const owner = await finish(
      fairlead('jobs', 'run', 'resize', '--timeout', '2s', '--cancel-on-exit', '--json'),
    );
    expect(owner.code).toBe(4);
    expect(JSON.parse(owner.error)).toMatchObject({ error: { name: 'WaitTimeoutError' } });
    expect([...store.everyJob()].map(({ state }) => state).sort()).toEqual(['cancelled', 'pending']);
  });

  it('ends with 130 when it is interrupted', async () => {
    const { fairleadIn, advance, finish, store, open } = counter();
    const abort = new AbortController();
    const running = fairleadIn({ signal: abort.signal }, 'jobs', 'run', 'resize', '--cancel-on-exit');
    await advance(0);
    abort.abort();
    expect((await finish(running)).code).toBe(130);
    expect([...store.everyJob()].map(({ state }) => state)).toEqual(['cancelled']);
    expect(open()).toBe(0);
  });
});

describe('jobs get, list, cancel, retime and retry', () => {
  it('get shows the job', async () => {
    const { fairlead, data, put, job } = counter();
    const [stored] = await put(
      job({ resourceId: 'album-1', label: 'March\u001b[2J', progress: { page: 3 } }),
    );
    const { code, out } = await fairlead('jobs', 'get', stored?.id ?? '');
    expect(code).toBe(0);
    expect(out).toMatch(/state {2,}pending/);
    expect(out).toMatch(/label {2,}March\\u\{1b\}\[2J/);
    expect(out).toMatch(/progress {2,}\{"page":3\}/);
    expect(await data('jobs', 'get', stored?.id ?? '')).toEqual({ job: stored });
  });

  it('list shows only jobs that have all the tags, and the tags where columns are not cut', async () => {
    const { fairlead, data, put, job } = counter();
    const [both] = await put(
      job({ tags: { order: '4711', shop: 'a' } }),
      job({ tags: { order: '4711' } }),
      job({ tags: { order: '4712', shop: 'a' } }),
      job(),
    );
    const asked = ['jobs', 'list', '--tag', 'order=4711', '--tag', 'shop=a'];
    expect(await data(...asked)).toEqual({ jobs: [both], more: false });
    expect((await fairlead(...asked, '--wide')).out).toMatch(/order=4711 shop=a/);
    expect(await fairlead('jobs', 'list', '--tag', 'order')).toMatchObject({ code: 2 });
  });

  describe('of all jobs that match', () => {
    const SELECTED = ['jobs', 'cancel', '--tag', 'order=4711'] as const;
    const crowd = async () => {
      const at = counter();
      await at.put(at.job({ tags: { order: '4711' } }), at.job({ tags: { order: '4711' } }), at.job());
      const states = () => [...at.store.everyJob()].map(({ state }) => state);
      return { ...at, states };
    };

    it('counts with --dry-run', async () => {
      const { fairlead, data, states } = await crowd();
      expect((await fairlead(...SELECTED, '--dry-run')).out).toBe('matches: 2 jobs\n');
      expect(await data(...SELECTED, '--dry-run')).toEqual({ matches: 2, more: false, dryRun: true });
      expect((await fairlead(...SELECTED, '--dry-run', '--limit', '1')).out).toBe(
        'matches: 1 job (as many as --limit allows; there may be more)\n',
      );
      expect(states()).toEqual(['pending', 'pending', 'pending']);
    });

    it('refuses with the count where no terminal can be asked', async () => {
      const { fairlead, states } = await crowd();
      const { code, error } = await fairlead(...SELECTED);
      expect(code).toBe(2);
      expect(error).toMatch(/would cancel 2 jobs; repeat the command with --yes/);
      expect(states()).toEqual(['pending', 'pending', 'pending']);
    });

    it('asks at a terminal, and does as told', async () => {
      const { fairleadIn, states } = await crowd();
      const questions: string[] = [];
      const answering = (answer: boolean) => ({
        columns: 80,
        ask: async (question: string) => {
          questions.push(question);
          return answer;
        },
      });
      expect((await fairleadIn(answering(false), ...SELECTED)).out).toBe('nothing was changed\n');
      expect(states()).toEqual(['pending', 'pending', 'pending']);
      const { code, out } = await fairleadIn(answering(true), ...SELECTED);
      expect({ code, cancelled: out.match(/cancelled/g)?.length }).toEqual({ code: 0, cancelled: 2 });
      expect(questions).toEqual(['cancel 2 jobs?', 'cancel 2 jobs?']);
      expect(states().toSorted()).toEqual(['cancelled', 'cancelled', 'pending']);
      expect((await fairleadIn(answering(true), ...SELECTED)).out).toBe('matches: 0 jobs\n');
    });

    it('does it at once with --yes', async () => {
      const { data, fairlead, states } = await crowd();
      const { entries, more } = await data('jobs', 'retime', '--tag', 'order=4711', '--in', '1h', '--yes');
      expect(more).toBe(false);
      expect(entries).toMatchObject([{ kind: 'moved' }, { kind: 'moved' }]);
      expect(states().toSorted()).toEqual(['pending', 'scheduled', 'scheduled']);
      await fairlead('jobs', 'cancel', '--state', 'scheduled', '--yes');
      expect(states().toSorted()).toEqual(['cancelled', 'cancelled', 'pending']);
    });
  });

  it.each([['get'], ['cancel'], ['retry'], ['explain']])('%s of no job ends with 3', async (verb) => {
    const { fairlead } = counter();
    const { code, out, error } = await fairlead('jobs', verb, 'nobody');
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(error).toMatch(/^fairlead: no job has the id "nobody".*\n$/);
  });

  it('list shows a table, and says when there are others', async () => {
    const { fairlead, data, put, job } = counter();
    await put(job(), job(), job({ type: 'report' }));
    const { out } = await fairlead('jobs', 'list', '--limit', '2');
    expect(out.split('\n').filter((line) => line.includes('pending'))).toHaveLength(2);
    expect(out).toMatch(/and more: raise --limit/);
    expect(await data('jobs', 'list', '--type', 'report')).toMatchObject({
      jobs: [{ type: 'report' }],
      more: false,
    });
    expect((await fairlead('jobs', 'list', '--state', 'running')).out).toBe('no such jobs\n');
  });

  it('list of what failed names the errors', async () => {
    const { fairlead, deadLetter } = counter();
    await deadLetter();
    expect((await fairlead('jobs', 'list', '--state', 'failed')).out).toMatch(/Broken: it broke/);
  });

  it('cancel says what became of it, and ends with 1 when it came too late', async () => {
    const { fairlead, put, job, work } = counter();
    const [first] = await put(job());
    expect(await fairlead('jobs', 'cancel', first?.id ?? '')).toMatchObject({
      code: 0,
      out: `${first?.id} it will not run\n`,
    });
    expect((await fairlead('jobs', 'cancel', first?.id ?? '')).code).toBe(0);
    const [second] = await put(job());
    await work();
    expect(await fairlead('jobs', 'cancel', second?.id ?? '')).toMatchObject({
      code: 1,
      out: `${second?.id} too late: it is succeeded\n`,
    });
  });

  it('retime says from when on the job may run, by an instant or from now on', async () => {
    const { fairlead, data, put, job, time, store } = counter();
    const [waiting] = await put(job());
    const id = waiting?.id ?? '';
    const at = await fairlead('jobs', 'retime', id, '--run-at', '2100-01-31T10:00:00+02:00');
    expect(at).toEqual({ code: 0, out: `${id} will not run before 2100-01-31T08:00:00.000Z\n`, error: '' });
    const runAtMs = time.nowMs + 90 * 60_000;
    expect(await data('jobs', 'retime', id, '--in', '1.5h')).toMatchObject({
      job: { id, state: 'scheduled', runAtMs },
    });
    expect(store.inspectJob(id)?.runAtMs).toBe(runAtMs);
    expect((await fairlead('jobs', 'retime', id, '--in', '0s')).out).toBe(`${id} may run now\n`);
    expect(store.inspectJob(id)?.state).toBe('pending');
  });

  it('retime that comes too late ends with 1 and says why, one of no job with 3', async () => {
    const { fairlead, put, job, pass, startEverywhere } = counter();
    const [runs] = await put(job());
    await pass();
    await startEverywhere();
    const late = await fairlead('jobs', 'retime', runs?.id ?? '', '--in', '5m');
    expect({ code: late.code, out: late.out }).toEqual({ code: 1, out: '' });
    expect(late.error).toMatch(/^fairlead: job \S+ is running; only waiting jobs can be moved.*\n$/);
    const none = await fairlead('jobs', 'retime', 'nobody', '--in', '5m', '--json');
    expect({ code: none.code, out: none.out }).toEqual({ code: 3, out: '' });
    expect(JSON.parse(none.error)).toMatchObject({ error: { name: 'NotFoundError' } });
  });

  it('retime moves a job that a fleet was told of, while nobody has started it', async () => {
    const { fairlead, put, job, pass, startEverywhere, stateOf } = counter();
    const [told] = await put(job());
    const id = told?.id ?? '';
    await pass();
    expect(stateOf(id)).toBe('claimed');
    expect(await fairlead('jobs', 'retime', id, '--in', '5m')).toMatchObject({ code: 0, error: '' });
    expect(await startEverywhere()).toEqual([]);
    expect(stateOf(id)).toBe('scheduled');
  });

  it('retry prints the new job, the same each time, and refuses what has not failed with 1', async () => {
    const { fairlead, data, deadLetter, put, job } = counter();
    const failed = await deadLetter();
    const { jobId } = await data('jobs', 'retry', failed.id);
    expect((await fairlead('jobs', 'retry', failed.id)).out).toBe(`${jobId} (was made before)\n`);
    const [waiting] = await put(job());
    const { code, error } = await fairlead('jobs', 'retry', waiting?.id ?? '');
    expect(code).toBe(1);
    expect(error).toMatch(/only failed jobs can be tried again/);
  });

  it('explain says what would hold it if something else were so', async () => {
    const { client, fairlead, data, put, job } = counter();
    await client.pause({ type: 'resize' });
    const [waiting] = await put(job());
    const id = waiting?.id ?? '';
    const { out } = await fairlead('jobs', 'explain', id, '--if', 'type:resize.paused=false');
    expect(out).toMatch(/^if type:resize\.paused=false, and nothing else changes:\n/);
    expect(out).toContain('the next pass');
    const { explanation } = (await data('jobs', 'explain', id, '--if', 'tier:standard=7')) as {
      explanation: { waitsFor: readonly unknown[] };
    };
    expect(explanation.waitsFor).toEqual([{ why: 'paused', scope: 'type/resize' }]);
  });

  it('explain says why, in sentences and as data', async () => {
    const { fairlead, data, put, job } = counter();
    const [waiting] = await put(job({ label: 'March invoices' }));
    await fairlead('pause', '--type', 'resize');
    const { out } = await fairlead('jobs', 'explain', waiting?.id ?? '');
    expect(out).toMatch(/the end of a pause: type\/resize/);
    expect(out).toMatch(/^label: March invoices$/m);
    expect(await data('jobs', 'explain', waiting?.id ?? '')).toMatchObject({
      explanation: {
        state: 'pending',
        job: { label: 'March invoices' },
        waitsFor: [{ why: 'paused', scope: 'type/resize' }],
      },
    });
  });
});

describe('keys and fleets', () => {
  it('keys shows costs and backlog', async () => {
    const { fairlead, data, put, job } = counter();
    await put(job({ fairnessKey: 'tenant-a' }), job({ fairnessKey: '\u001b[31mred' }));
    const { out } = await fairlead('keys');
    expect(out).toMatch(/tenant-a/);
    // Names are the producers' words: none of them steers the terminal.
    expect(out).not.toContain('\u001b');
    expect(await data('keys', '--limit', '1', '--count', '0')).toMatchObject({
      keys: [{ waiting: 0 }],
      more: true,
    });
    expect((await counter().fairlead('keys')).out).toBe('no key has jobs\n');
  });

  it('declaration shows what is declared, and how far each partition is with it', async () => {
    const { fairlead, data } = counter();
    const { out } = await fairlead('declaration');
    expect(out).toMatch(/types .* resize, report/);
    expect(out).toMatch(/notified of .* applied .* jobs moved/);
    expect(await data('declaration')).toMatchObject({
      declaration: {
        fleets: ['images', 'general'],
        formerTypes: [],
        partitions: [{ partition: 0, told: 0, moved: 0 }],
      },
    });
  });

  it('types shows their terms, and within what their attempts are over, once enough of them were seen', async () => {
    const { fairlead, data, put, job, pass, startAll, advance, end } = counter();
    const take = async (ms: number): Promise<void> => {
      await put(job({ type: 'resize' }));
      await pass();
      const [started] = await startAll('images');
      if (started === undefined) throw new Error('nothing started');
      await advance(ms);
      const ended = await end(started);
      await pass({ jobs: [ended], reason: 'stream' });
    };
    for (const ms of [2_000, 2_000, 2_000, 2_000]) await take(ms);
    expect(await data('types')).toMatchObject({ types: [{ type: 'resize', samples: 4 }, { samples: 0 }] });
    expect((await fairlead('types')).out).toMatch(/resize .* 4 .* s .* -/);
    await take(3_000);
    const { types } = (await data('types')) as { readonly types: readonly TypeView[] };
    expect(types[0]?.ordinarilyWithinMs).toBeGreaterThan(3_000);
    expect(types[0]?.ordinarilyWithinMs).toBeLessThan(6_000);
    expect(types[1]).not.toHaveProperty('meanMs');
    // One that takes longer is pointed at, and goes on all the same.
    const [slow] = await put(job({ type: 'resize' }));
    await pass();
    await startAll('images');
    await advance(2_000);
    expect((await fairlead('jobs', 'explain', slow?.id ?? '')).out).not.toContain('ordinarily');
    await advance(6_000);
    expect((await fairlead('jobs', 'explain', slow?.id ?? '')).out).toMatch(
      /has reported no progress, and attempts of its type usually end within .* s: it may be lost/,
    );
  });

  it('fleets shows slots and workers', async () => {
    const { fairlead, data, store, time } = counter();
    const load = { lagMs: 1_250, memoryMb: 345 };
    const expiresAtMs = time.nowMs + 30_000;
    await store.registerWorker({
      partition: 0,
      record: aWorkerRecord({ fleet: 'general', expiresAtMs, heardAtMs: time.nowMs, load }),
    });
    const { out } = await fairlead('fleets');
    // What is left of 30 s when clocks may differ by 5.
    expect(out).toMatch(/worker .* lease .*expires in/);
    expect(out).toMatch(/worker-\d+ .* 25 s /);
    expect(out).toMatch(/images .*resize/);
    expect(out).toMatch(/worker-\d+ .*general.*1.?250 ms.*345 MiB/);
    expect(await data('fleets')).toMatchObject({
      fleets: [{ fleet: 'images' }, { fleet: 'general', slots: 2, workers: [{ load }] }],
    });
  });
});

describe('dead-letters unreadable', () => {
  it('lists what cannot be read, where it stood, and what to do', async () => {
    const { data, fairlead, fairleadIn, anotherClient, store } = counter();
    expect((await fairlead('dead-letters', 'unreadable')).out).toContain(
      'all items that were read are readable',
    );
    const item = {
      key: 'job/x job',
      reason: 'item job/x job: attribute mode is 7; correct or delete the item',
      line: 'due/0',
      rank: '1/x',
      seenAtMs: NOW_MS,
    };
    const client = anotherClient({ store: storeWith(store, { listUnreadable: async () => [item] }) });
    const connect = async () => ({ client, close: () => {} });
    const { out } = await fairleadIn({ connect }, 'dead-letters', 'unreadable');
    for (const part of [item.line, item.reason, new Date(NOW_MS).toISOString()]) expect(out).toContain(part);
    expect(await data('dead-letters', 'unreadable')).toEqual({ unreadable: [] });
  });
});

describe('dead-letters', () => {
  it('are listed by default', async () => {
    const { fairlead, data, deadLetter } = counter();
    const failed = await deadLetter();
    expect((await fairlead('dead-letters')).out).toContain(failed.id);
    expect(await data('dead-letters', 'list', '--error', 'Broken')).toMatchObject({
      deadLetters: [{ id: failed.id }],
    });
    expect(await data('dead-letters', '--error', 'Timeout')).toEqual({ deadLetters: [], more: false });
  });

  it('are tried again by a filter or all of them, but never without being told which', async () => {
    const { fairlead, data, deadLetter, everything } = counter();
    const failed = await deadLetter();
    const before = everything();
    for (const words of [[], ['--all', '--type', 'resize']]) {
      const { code, error } = await fairlead('dead-letters', 'redrive', ...words);
      expect(code).toBe(2);
      expect(error).toMatch(/give a filter, or --all/);
    }
    expect(everything()).toBe(before);
    expect((await fairlead('dead-letters', 'redrive', '--type', 'report')).out).toBe(
      'no such dead letters\n',
    );
    expect(await data('dead-letters', 'redrive', '--all')).toMatchObject({
      redriven: [{ deadLetterId: failed.id, kind: 'redriven' }],
    });
  });
});

describe('pause, resume, drain and override', () => {
  it.each([
    [['--pool'], 'pool'],
    [['--tier', 'urgent'], 'tier/urgent'],
    [['--type', 'resize'], 'type/resize'],
    [['--fleet', 'images'], 'fleet/images'],
    [['--key', 'tenant-a'], 'key/tenant-a'],
  ])('%j is paused, listed and resumed', async (words, scope) => {
    const { fairlead, data } = counter();
    expect((await fairlead('pause', ...words)).out).toMatch(/: paused by \S+@\S+\n$/);
    expect(await data('override')).toMatchObject({ controls: [{ scope, paused: true }] });
    expect((await fairlead('resume', ...words)).out).toBe(`${scope}: as configured\n`);
    expect((await fairlead('override', 'list')).out).toBe('no overrides: everything is as configured\n');
  });

  it('drain waits, tells how many still run, and ends with 4 when the time is up', async () => {
    const { fairlead, put, job, pass, startEverywhere, finish, data, end } = counter();
    await put(job());
    await pass();
    const [started] = await startEverywhere();
    const late = await finish(fairlead('drain', '--type', 'resize', '--timeout', '3s'));
    expect(late.code).toBe(4);
    expect(late.error).toMatch(
      /^waiting for 1 running job to end, at most 3 s\nfairlead: type\/resize is paused, and 1 of its jobs still ran/,
    );
    const draining = data('drain', '--type', 'resize');
    if (started !== undefined) await pass({ jobs: [await end(started)], reason: 'stream' });
    await pass();
    expect(await finish(draining)).toEqual({ drained: true });
  });

  it('override sets and clears caps and weights', async () => {
    const { fairlead, data } = counter();
    expect(
      (await fairlead('override', 'set', '--type', 'resize', '--max-concurrency', '3', '--as', 'grace')).out,
    ).toBe('type/resize: cap 3 by grace\n');
    expect(
      (
        await fairlead(
          ...['override', 'set', '--key', 'tenant-a', '--weight', '2.5', '--max-concurrency', '1'],
          ...['--for', '10m', '--reason', 'a big import', '--as', 'grace'],
        )
      ).out,
    ).toMatch(
      /^key\/tenant-a: cap 1 by grace until \S+: a big import; weight 2.5 by grace until \S+: a big import\n$/,
    );
    expect((await fairlead('override', 'history')).out.split('\n')).toHaveLength(4);
    expect(await data('override', 'clear', '--key', 'tenant-a')).toMatchObject({
      control: { scope: 'key/tenant-a', paused: false },
    });
    expect(await data('override', 'clear', '--type', 'resize')).toMatchObject({
      control: { scope: 'type/resize', paused: false },
    });
  });
});

describe('trouble', () => {
  it('with the store is one line and 1', async () => {
    const { fairleadIn, anotherClient, store } = counter();
    const getJobs = () =>
      Promise.reject(new MisconfiguredError('the table is missing;\ncheck FAIRLEAD_TABLE'));
    const client = anotherClient({ store: storeWith(store, { getJobs }) });
    const connect = async () => ({ client, close: () => {} });
    const { code, error } = await fairleadIn({ connect }, 'jobs', 'get', 'a');
    expect({ code, error }).toEqual({
      code: 1,
      error: 'fairlead: the table is missing; check FAIRLEAD_TABLE\n',
    });
  });

  it('with the environment is one line and 2', async () => {
    const { fairleadIn } = counter();
    const connect = () =>
      Promise.reject(new EnvironmentError('FAIRLEAD_TABLE is not set', { setting: 'FAIRLEAD_TABLE' }));
    expect(await fairleadIn({ connect }, 'fleets')).toMatchObject({
      code: 2,
      error: expect.stringMatching(/^fairlead: FAIRLEAD_TABLE is not set; .*`fairlead env --stack .*\n$/),
    });
  });

  it('that nobody foresaw ends with 1 and where it happened', async () => {
    const { fairleadIn } = counter();
    const connect = () => Promise.reject(new TypeError('what is this'));
    const { code, error } = await fairleadIn({ connect }, 'fleets');
    expect(code).toBe(1);
    expect(error).toMatch(/TypeError: what is this\n +at /);
  });
});

describe('a file of settings', () => {
  it('that is not there is a wrong argument', async () => {
    await expect(connect('/no/such/file')).rejects.toMatchObject({
      name: 'UsageError',
      message: expect.stringMatching(/^--env-file: \/no\/such\/file cannot be read/),
    });
  });
});

describe('as a process of its own', () => {
  const main = fileURLToPath(new URL('../../lib/cli/main.ts', import.meta.url));
  const spawned = (words: readonly string[], env: Readonly<Record<string, string>>) =>
    new Promise<{ code: number | null; out: string; error: string }>((resolve) => {
      const child = execFile(process.execPath, [main, ...words], { env }, (_, out, error) => {
        resolve({ code: child.exitCode, out, error });
      });
    });

  it('it reads its settings from a file, and says in one line what is wrong with them', async () => {
    const nothing = await spawned(['fleets'], {});
    expect(nothing).toMatchObject({ code: 2, out: '' });
    expect(nothing.error).toMatch(/^fairlead: FAIRLEAD_TABLE is not set; .*\n$/);
    const file = fileOf('FAIRLEAD_TABLE=jobs\n');
    for (const name of ['-f', '--env-file']) {
      const half = await spawned(['fleets', name, file], {});
      expect(half).toMatchObject({ code: 2, out: '' });
      expect(half.error).toMatch(/^fairlead: FAIRLEAD_WAKE_QUEUE is not set; .*\n$/);
    }
    const missing = await spawned(['fleets', '-f', `${file}.not`], {});
    expect(missing).toMatchObject({ code: 2, out: '' });
    expect(missing.error).toMatch(/^fairlead: --env-file: .*\.not cannot be read .*\n$/);
    const asData = await spawned(['fleets', '--json', '-f', `${file}.not`], {});
    expect(JSON.parse(asData.error)).toMatchObject({ error: { name: 'UsageError' } });
    // Node looks for the long name among a script's words, too, and is faster: nothing of ours can run before it.
    const taken = await spawned(['fleets', '--env-file', `${file}.not`], {});
    expect(taken).toMatchObject({ code: 9, out: '' });
    expect(taken.error).toMatch(/not: not found\n$/);
  });
});
