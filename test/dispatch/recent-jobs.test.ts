/** What is kept of hints by id, by line, by key and by age says the same, whatever came in which order. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type RecentJob, RecentJobs } from '../../lib/dispatch/partition-cache.ts';
import { aJob } from '../fixtures/factories/job.ts';

const NAMES = 4;
const idOf = (n: number): string => `job-${n}`;
const lineOf = (key: number, n: number): string => `line-${key}-${n}`;
const keyOf = (n: number): string => `key-${n}`;

const id = fc.nat(12);
const act = fc.oneof(
  fc.record({ op: fc.constant('note'), id, line: fc.nat(NAMES - 1), key: fc.nat(NAMES - 1) } as const),
  fc.record({ op: fc.constant('forget'), id } as const),
  fc.record({ op: fc.constant('forgetOld'), ageMs: fc.nat(8), most: fc.nat(10) } as const),
  fc.record({ op: fc.constant('clear') } as const),
);
type Act = typeof act extends fc.Arbitrary<infer One> ? One : never;

/** The same in a list, the latest behind all others. */
function inList(
  list: readonly RecentJob[],
  done: Act,
  noted: RecentJob,
  nowMs: number,
): readonly RecentJob[] {
  if (done.op === 'clear') return [];
  if (done.op === 'forgetOld') {
    const young = list.filter(({ seenAtMs }) => seenAtMs >= nowMs - done.ageMs);
    return young.slice(Math.max(0, young.length - done.most));
  }
  const others = list.filter(({ job }) => job.id !== idOf(done.id));
  return done.op === 'forget' ? others : [...others, noted];
}

function inIndex(recent: RecentJobs, done: Act, noted: RecentJob, nowMs: number): void {
  if (done.op === 'note') recent.note(noted);
  else if (done.op === 'forget') recent.forget(idOf(done.id));
  else if (done.op === 'forgetOld') recent.forgetOld(nowMs - done.ageMs, done.most);
  else recent.clear();
}

function notedBy(done: Act, nowMs: number): RecentJob {
  const { id, line, key } = done.op === 'note' ? done : { id: 0, line: 0, key: 0 };
  const job = aJob({ id: idOf(id), fairnessKey: keyOf(key) });
  return { name: lineOf(key, line), job, rank: job.id, seenAtMs: nowMs };
}

it('is what going through all of them says', () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 60 }), (acts) => {
      const recent = new RecentJobs();
      let list: readonly RecentJob[] = [];
      for (const [nowMs, done] of acts.entries()) {
        const noted = notedBy(done, nowMs);
        inIndex(recent, done, noted, nowMs);
        list = inList(list, done, noted, nowMs);
        expect([...recent.all()]).toEqual(list);
        expect(recent.size).toBe(list.length);
        for (let at = 0; at < NAMES * NAMES; at += 1) {
          const name = lineOf(Math.floor(at / NAMES), at % NAMES);
          const inLine = list.filter((each) => each.name === name);
          expect([...recent.inLine(name)]).toEqual(inLine);
          expect(recent.hasLine(name)).toBe(inLine.length > 0);
        }
        for (let at = 0; at < NAMES; at += 1) {
          const ofKey = list.filter(({ job }) => job.fairnessKey === keyOf(at)).map(({ job }) => job);
          expect(new Set(recent.ofKey(keyOf(at)))).toEqual(new Set(ofKey));
        }
        expect(new Set(recent.keys())).toEqual(new Set(list.map(({ job }) => job.fairnessKey)));
        const lines = [...recent.oneOfEach()].map(({ name }) => name);
        expect(lines.sort()).toEqual([...new Set(list.map(({ name }) => name))].sort());
      }
    }),
    { numRuns: 60 },
  );
});
