import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { SCORE_DEFAULTS } from '../../lib/core/defaults.ts';
import { WHOLE } from '../../lib/core/estimate.ts';
import type { WaitingJob } from '../../lib/core/job.ts';
import { JobHeaps } from '../../lib/core/job-heaps.ts';
import { JobTable, NONE } from '../../lib/core/job-table.ts';
import { compareRanked, rank } from '../../lib/core/score.ts';
import { FEWER_RUNS } from './random-pass.ts';

// Few priorities and instants, 64 seconds apart for each priority: many ranks are equal.
const job = (step: number, priority: number, id: string): WaitingJob => ({
  id,
  type: 'a',
  priority,
  mode: 'queued',
  fairnessKey: 'k',
  readyAtMs: step * 64_000,
  version: 1,
  attempt: 1,
});

const byRank = (a: WaitingJob, b: WaitingJob): number => compareRanked(a, b, SCORE_DEFAULTS);

const operations = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant('push' as const),
        heap: fc.nat(2),
        step: fc.nat(4),
        priority: fc.nat(2),
        salt: fc.nat(99),
      }),
    },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('pop' as const), heap: fc.nat(2) }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant('remove' as const), heap: fc.nat(2), which: fc.nat(50) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant('more' as const), heap: fc.nat(2), more: fc.boolean() }),
    },
  ),
  { maxLength: 200, size: 'max' },
);

vi.setConfig({ testTimeout: 120_000 });

describe('heaps of jobs', () => {
  it('give jobs in the order of their ranks, then ages, then ids, whatever was put in and taken out', () => {
    fc.assert(
      fc.property(operations, (list) => {
        const table = new JobTable();
        const heaps = new JobHeaps(table);
        heaps.ensure(3);
        const model: { readonly job: WaitingJob; readonly number: number }[][] = [[], [], []];
        const more = [false, false, false];
        let count = 0;
        for (const operation of list) {
          const { heap } = operation;
          const own = model[heap] ?? [];
          switch (operation.kind) {
            case 'push': {
              count += 1;
              const id = `${String(operation.salt).padStart(2, '0')}-${count}`;
              const pushed = job(operation.step, operation.priority, id);
              const number = table.add(pushed, WHOLE, heap, operation.salt);
              own.push({ job: pushed, number });
              own.sort((a, b) => byRank(a.job, b.job));
              expect(heaps.push(heap, number, rank(pushed, SCORE_DEFAULTS))).toBe(own[0]?.number === number);
              break;
            }
            case 'pop': {
              const first = own.shift();
              if (first === undefined) break;
              heaps.pop(heap);
              table.forget(first.number);
              break;
            }
            case 'remove': {
              const [removed] = own.splice(operation.which % Math.max(1, own.length), 1);
              if (removed === undefined) break;
              table.remove(removed.number);
              heaps.clean(heap);
              expect(table.isWaiting(removed.number, removed.job.id)).toBe(false);
              break;
            }
            case 'more':
              more[heap] = operation.more;
              heaps.setMore(heap, operation.more);
              break;
          }
          model.forEach((jobs, index) => {
            const first = jobs[0];
            expect(heaps.first(index)).toBe(first?.number ?? NONE);
            expect(heaps.firstConflict(index)).toBe(
              first === undefined ? NONE : table.conflictOf(first.number),
            );
            const empty = more[index] ? -Infinity : Infinity;
            expect(heaps.firstRank(index)).toBe(
              first === undefined ? empty : rank(first.job, SCORE_DEFAULTS),
            );
            const kept = jobs.every(
              ({ job: waiting, number }) =>
                table.isWaiting(number, waiting.id) && table.lineOf(number) === index,
            );
            expect(kept).toBe(true);
          });
          const [a, b] = [model[0]?.[0], model[1]?.[0]];
          if (a !== undefined && b !== undefined) {
            expect(heaps.precedes(0, 1)).toBe(byRank(a.job, b.job) < 0);
          }
        }
      }),
      { numRuns: Math.ceil(FEWER_RUNS / 5) },
    );
  });

  it('use the memory of heaps that have shrunk for others', () => {
    const table = new JobTable();
    const heaps = new JobHeaps(table);
    const ids: string[] = [];
    for (let round = 0; round < 50; round += 1) {
      const heap = heaps.open();
      const numbers = Array.from({ length: 100 }, (_, step) =>
        table.add(job(step, 0, `${step}`), WHOLE, 0, NONE),
      );
      for (const [step, number] of numbers.entries()) heaps.push(heap, number, step);
      while (heaps.first(heap) !== NONE) {
        const number = heaps.first(heap);
        ids.push(table.idOf(number));
        heaps.pop(heap);
        table.forget(number);
      }
      heaps.close(heap);
      expect(heap).toBe(0);
      expect(Math.max(...numbers)).toBe(99);
    }
    expect(ids.slice(-3)).toEqual(['97', '98', '99']);
  });

  it('are opened by the hundred', () => {
    const table = new JobTable();
    const heaps = new JobHeaps(table);
    const opened = Array.from({ length: 100 }, () => heaps.open());
    expect(new Set(opened).size).toBe(100);
    opened.forEach((heap, step) => {
      heaps.push(heap, table.add(job(step, 0, 'x'), WHOLE, heap, step), step);
    });
    expect(opened.map((heap) => heaps.firstConflict(heap))).toEqual(opened.map((_, step) => step));
  });
});
