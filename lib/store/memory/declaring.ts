/** Declarations, and the moves of jobs and controls that follow a new one. */
import { CONTROL_FIELDS } from '../../core/capacity.ts';
import type { MovingJob } from '../../core/job.ts';
import { giveBack, rehome } from '../../core/life-cycle.ts';
import type { DeclareStore } from '../contract/declaring.ts';
import type { DeclarationRecord } from '../contract/records.ts';
import type { Applied, DeclareOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { declarationHash } from '../table/declaration.ts';
import { requireDeclarationFits } from './imitation/fits.ts';
import type { MemoryItems } from './items.ts';

export class MemoryDeclareStore implements DeclareStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async readDeclaredVersion(): Promise<number> {
    return this.#items.read('readDeclaredVersion', () => {
      this.#items.bill.small('readDeclaredVersion', 'read');
      return this.#items.state.declarations.length;
    });
  }

  async readDeclaration(version?: number): Promise<DeclarationRecord | undefined> {
    return this.#items.read('readDeclaration', () => {
      this.#items.bill.small('readDeclaration', 'read');
      return this.#items.state.declarations.at(version === undefined ? -1 : version - 1);
    });
  }

  async putDeclaration({ text, after, nowMs }: RequestOf<'putDeclaration'>): Promise<DeclareOutcome> {
    return this.#items.write('putDeclaration', () => {
      requireDeclarationFits(text);
      const newest = this.#items.state.declarations.length;
      const hash = declarationHash(text);
      const next = this.#items.state.declarations[after];
      // As in DynamoDB, a repeated call finds its own declaration, even if others were declared since.
      const isOwn = next?.hash === hash && next.declaredAtMs === nowMs;
      if (isOwn) return { kind: 'declared', version: after + 1 };
      if (newest !== after) return { kind: 'outdated', version: newest };
      const record = { version: after + 1, hash, text, declaredAtMs: nowMs };
      this.#items.state.declarations.push(record);
      this.#items.observe?.({ kind: 'declared', record });
      return { kind: 'declared', version: after + 1 };
    });
  }

  async announceDeclaration({ partition, version }: RequestOf<'announceDeclaration'>): Promise<void> {
    return this.#items.write('announceDeclaration', () => {
      this.#items.bill.small('announceDeclaration', 'write');
      const items = this.#items.partition(partition);
      items.declared = Math.max(version, items.declared ?? 0);
    });
  }

  async rehome({ jobs, partition, nowMs }: RequestOf<'rehome'>): Promise<readonly (MovingJob | undefined)[]> {
    return this.#items.write('rehome', () =>
      jobs.map((job) => {
        const item = this.#items.item(job.id);
        const isSeen = item?.value.version === job.version;
        const transition = isSeen ? rehome(item.value, partition, nowMs) : undefined;
        if (transition?.kind === 'moved') return this.#items.put(item, transition.job);
        this.#items.bill.refused('rehome', item);
        return undefined;
      }),
    );
  }

  async adoptControl({ partition, control }: RequestOf<'adoptControl'>): Promise<Applied> {
    return this.#items.write('adoptControl', () => {
      this.#items.bill.small('adoptControl', 'write');
      const { controls, controlRevisions } = this.#items.partition(partition);
      if (controlRevisions.has(control.scope)) return 'superseded';
      const set = CONTROL_FIELDS.filter((field) => control[field] !== undefined);
      controlRevisions.set(control.scope, Object.fromEntries(set.map((field) => [field, 1])));
      // A worker may have written a rest of the scope into this partition before: that rest stays.
      const restsUntilMs = controls.get(control.scope)?.restsUntilMs ?? control.restsUntilMs;
      controls.set(control.scope, { ...control, ...(restsUntilMs === undefined ? {} : { restsUntilMs }) });
      return 'applied';
    });
  }

  async giveBack({ job, claimId, nowMs }: RequestOf<'giveBack'>): Promise<Applied> {
    return this.#items.write('giveBack', () => {
      const item = this.#items.item(job.id);
      const transition = item === undefined ? undefined : giveBack(item.value, claimId, nowMs);
      if (transition?.kind !== 'moved') {
        this.#items.bill.refused('giveBack', item);
        return 'superseded';
      }
      this.#items.put(item, transition.job);
      return 'applied';
    });
  }
}
