import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Timers } from '../../lib/simulate/model/timers.ts';

describe('Timers', () => {
  it('starts nothing before the time, and everything at it, by trigger and id', () => {
    const timers = new Timers();
    timers.start();
    timers.create('c', 20);
    timers.create('b', 10);
    timers.create('a', 20);
    expect(timers.nextTriggerMs()).toBe(10);
    expect(timers.startDue(9)).toEqual([]);
    expect(timers.startDue(20).map(({ id }) => id)).toEqual(['b', 'a', 'c']);
    expect(timers.startDue(20)).toEqual([]);
    expect(timers.nextTriggerMs()).toBeUndefined();
  });

  it('starts nothing while it is down, and what was missed when it is up again', () => {
    const timers = new Timers();
    timers.create('a', 10);
    expect(timers.startDue(10)).toEqual([]);
    expect(timers.nextTriggerMs()).toBeUndefined();
    timers.start();
    timers.crash();
    expect(timers.startDue(11)).toEqual([]);
    timers.start();
    expect(timers.startDue(12)).toEqual([{ id: 'a', triggerMs: 10 }]);
  });

  it('lets a moved time win over every older one', () => {
    const timers = new Timers();
    timers.start();
    timers.create('a', 10);
    expect(timers.update('a', 30)).toBe(true);
    expect(timers.startDue(20)).toEqual([]);
    timers.update('a', 10);
    timers.create('a', 25);
    expect(timers.nextTriggerMs()).toBe(25);
    expect(timers.startDue(30)).toEqual([{ id: 'a', triggerMs: 25 }]);
    expect(timers.startDue(30)).toEqual([]);
  });

  it('keeps hundreds in order, however they come', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1_000), { minLength: 50, maxLength: 300 }), (triggers) => {
        const timers = new Timers();
        timers.start();
        triggers.forEach((triggerMs, index) => {
          timers.create(`t${index}`, triggerMs);
        });
        const started = timers.startDue(1_000).map(({ triggerMs }) => triggerMs);
        expect(started).toEqual(triggers.toSorted((one, other) => one - other));
      }),
      { numRuns: 20 },
    );
  });

  it('does not move or cancel what is not there', () => {
    const timers = new Timers();
    timers.start();
    expect(timers.update('a', 10)).toBe(false);
    expect(timers.cancel('a')).toBe(false);
    timers.create('a', 10);
    expect(timers.cancel('a')).toBe(true);
    expect(timers.startDue(10)).toEqual([]);
    expect(timers.waiting()).toEqual([]);
  });

  it('does the same as a list that is sorted anew each time', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
    const change = fc.oneof(
      fc.record({ op: fc.constant('create' as const), id, triggerMs: fc.nat(50) }),
      fc.record({ op: fc.constant('update' as const), id, triggerMs: fc.nat(50) }),
      fc.record({ op: fc.constant('cancel' as const), id }),
      fc.record({ op: fc.constantFrom('start' as const, 'crash' as const) }),
      fc.record({ op: fc.constant('look' as const), nowMs: fc.nat(50) }),
    );
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (script) => {
        const timers = new Timers();
        const rows = new Map<string, number>();
        let up = false;
        const sorted = () =>
          [...rows]
            .map(([key, triggerMs]) => ({ id: key, triggerMs }))
            .sort((a, b) => a.triggerMs - b.triggerMs || (a.id < b.id ? -1 : 1));
        for (const step of script) {
          if (step.op === 'start' || step.op === 'crash') {
            up = step.op === 'start';
            timers[step.op]();
          } else if (step.op === 'create' || (step.op === 'update' && rows.has(step.id))) {
            rows.set(step.id, step.triggerMs);
            timers[step.op](step.id, step.triggerMs);
          } else if (step.op === 'cancel') {
            expect(timers.cancel(step.id)).toBe(rows.delete(step.id));
          } else if (step.op === 'look') {
            const due = up ? sorted().filter(({ triggerMs }) => triggerMs <= step.nowMs) : [];
            expect(timers.startDue(step.nowMs)).toEqual(due);
            for (const row of due) rows.delete(row.id);
          }
          expect(timers.waiting()).toEqual(sorted());
          expect(timers.nextTriggerMs()).toBe(up ? sorted()[0]?.triggerMs : undefined);
        }
      }),
    );
  });
});
