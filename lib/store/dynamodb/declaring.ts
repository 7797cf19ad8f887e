/** Declarations, and the moves of jobs and controls that follow a new one. */

import { randomUUID } from 'node:crypto';
import { CONTROL_FIELDS } from '../../core/capacity.ts';
import type { MovingJob } from '../../core/job.ts';
import { giveBack } from '../../core/life-cycle.ts';
import type { DeclareStore } from '../contract/declaring.ts';
import { MalformedItemError } from '../contract/errors.ts';
import type { DeclarationRecord } from '../contract/records.ts';
import type { Applied, DeclareOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { ATTRIBUTE } from '../table/codec/attributes.ts';
import {
  decodeDeclaration,
  decodeDeclarationText,
  encodeDeclaration,
  encodeDeclarationText,
} from '../table/codec/declaration.ts';
import { decodeMovingJob } from '../table/codec/job.ts';
import { declarationHash, declarationParts } from '../table/declaration.ts';
import {
  controlKey,
  declarationKey,
  declarationTextKey,
  jobKey,
  leaderKey,
  newestDeclarationKey,
} from '../table/schema.ts';
import type { DynamoConnection } from './connection.ts';
import {
  controlUpdate,
  notedHistory,
  PARALLEL_MAX,
  standingValues,
  stateValues,
  versionValues,
} from './expressions.ts';
import type { TableItems } from './items.ts';
import { inParallel } from './parallel.ts';

export class DynamoDeclareStore implements DeclareStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;

  constructor(items: TableItems) {
    this.#items = items;
    this.#table = items.table;
  }

  async readDeclaredVersion(): Promise<number> {
    const newest = await this.#table.get('readDeclaredVersion', newestDeclarationKey);
    return newest === undefined ? 0 : decodeDeclaration(newest).version;
  }

  async readDeclaration(version?: number): Promise<DeclarationRecord | undefined> {
    const key = version === undefined ? newestDeclarationKey : declarationKey(version);
    const item = await this.#table.get('readDeclaration', key);
    if (item === undefined) return undefined;
    const { hash, parts, ...declared } = decodeDeclaration(item);
    const keys = Array.from({ length: parts }, (_, at) => declarationTextKey(hash, at));
    const texts = await this.#items.getAll('readDeclaration', keys, decodeDeclarationText);
    const missing = texts.indexOf(undefined);
    if (missing !== -1) {
      const { pk, sk } = declarationTextKey(hash, missing);
      throw new MalformedItemError(`${pk} ${sk}`, ATTRIBUTE.text, 'is missing', 'deploy the stack again');
    }
    return { ...declared, hash, text: texts.join('') };
  }

  async putDeclaration({ text, after, nowMs }: RequestOf<'putDeclaration'>): Promise<DeclareOutcome> {
    const hash = declarationHash(text);
    const parts = declarationParts(text);
    await inParallel([...parts.entries()], PARALLEL_MAX, async ([at, part]) => {
      await this.#table.put('putDeclaration', { item: encodeDeclarationText(hash, at, part) });
    });
    const declared = { version: after + 1, hash, parts: parts.length, declaredAtMs: nowMs };
    const outcome = await this.#table.transact('putDeclaration', randomUUID(), [
      this.#table.putPart({
        item: encodeDeclaration(newestDeclarationKey, declared),
        ...(after === 0
          ? { condition: 'attribute_not_exists(#pk)' }
          : { condition: '#version = :after', values: { ':after': after } }),
      }),
      this.#table.putPart({ item: encodeDeclaration(declarationKey(declared.version), declared) }),
    ]);
    if (outcome.applied) return { kind: 'declared', version: declared.version };
    const [newest, next] = await Promise.all(
      [newestDeclarationKey, declarationKey(declared.version)].map(async (key) => {
        const item = await this.#table.get('putDeclaration', key);
        return item === undefined ? undefined : decodeDeclaration(item);
      }),
    );
    // A repeated transaction is refused. If the next version is this declaration, the first try was applied, even if others were declared
    // since.
    if (next?.hash === hash && next.declaredAtMs === nowMs)
      return { kind: 'declared', version: declared.version };
    return { kind: 'outdated', version: newest?.version ?? 0 };
  }

  async announceDeclaration({ partition, version }: RequestOf<'announceDeclaration'>): Promise<void> {
    await this.#table.update('announceDeclaration', {
      key: leaderKey(partition),
      update: 'SET #declared = :version',
      condition: 'attribute_not_exists(#declared) OR #declared < :version',
      values: { ':version': version },
    });
  }

  async rehome({ jobs, partition, nowMs }: RequestOf<'rehome'>): Promise<readonly (MovingJob | undefined)[]> {
    return inParallel(jobs, PARALLEL_MAX, async (job) => {
      const outcome = await this.#table.update('rehome', {
        key: jobKey(job.id),
        update:
          'SET #state = :pending, #version = :next, #partition = :partition, #line = :line, #rank = :rank',
        condition:
          '#version = :version AND (#state = :pending OR (#state = :scheduled AND #runAtMs <= :now))',
        values: {
          ...stateValues('pending', 'scheduled'),
          ':now': nowMs,
          ':partition': partition,
          ...versionValues(job.version),
          ...standingValues(this.#items.readyStanding({ ...job, partition })),
        },
      });
      if (!outcome.applied) return undefined;
      const [moved] = await this.#items.readable(partition, [outcome.item], decodeMovingJob);
      return moved;
    });
  }

  async adoptControl({ partition, control }: RequestOf<'adoptControl'>): Promise<Applied> {
    const { scope, paused, maxConcurrency, weight, restsUntilMs, changes = [] } = control;
    const callId = randomUUID();
    const { sets, values } = controlUpdate({ paused, maxConcurrency, weight }, {}, changes);
    // A worker may have written a rest of the scope into this partition before: that rest stays.
    const rests = restsUntilMs === undefined ? '' : ', #restsUntilMs = if_not_exists(#restsUntilMs, :rests)';
    const outcome = await this.#table.update('adoptControl', {
      key: controlKey(partition, scope),
      update: `SET ${sets.join(', ')}${rests}`,
      condition: CONTROL_FIELDS.map((field) => `attribute_not_exists(#${field}Revision)`).join(' AND '),
      values: {
        ...values,
        ':scope': scope,
        ':callId': callId,
        ...(restsUntilMs === undefined ? {} : { ':rests': restsUntilMs }),
      },
    });
    return outcome.applied || outcome.old?.[ATTRIBUTE.callId] === callId ? 'applied' : 'superseded';
  }

  async giveBack({ job, claimId, nowMs }: RequestOf<'giveBack'>): Promise<Applied> {
    const given = giveBack(job, claimId, nowMs);
    if (given.kind !== 'moved') return 'superseded';
    // While a job is claimed, its history does not change, so the history as read can be written.
    const historyClause = notedHistory(given.job.history);
    const outcome = await this.#table.update('giveBack', {
      key: jobKey(job.id),
      update: `SET #state = :pending, #version = #version + :one, #line = :line, #rank = :rank${historyClause.set} REMOVE #claim`,
      condition: '#state = :claimed AND #claim.#claimId = :claimId',
      values: {
        ...stateValues('pending', 'claimed'),
        ':one': 1,
        ':claimId': claimId,
        ...standingValues(this.#items.readyStanding(job)),
        ...historyClause.values,
      },
    });
    return outcome.applied ? 'applied' : 'superseded';
  }
}
