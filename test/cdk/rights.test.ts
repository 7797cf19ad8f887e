/** What each role may do, as a reviewer reads it: one golden file a role. */
import type { Template } from 'aws-cdk-lib/assertions';
import { AccountPrincipal, AccountRootPrincipal, type Grant, Role } from 'aws-cdk-lib/aws-iam';
import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../cdk/scheduler.ts';
import {
  backlogKey,
  controlKey,
  declarationKey,
  declaredSchedulesKey,
  dispatcherKey,
  type ItemKey,
  jobKey,
  LEADING_KEYS,
  ledgerKey,
  letterKey,
  lockKey,
  newestDeclarationKey,
  parkedKey,
  partitionPk,
  rejectionKey,
  scheduleKey,
  scheduleSpecKey,
  unreadableKey,
} from '../../lib/store/table/schema.ts';
import { at, emptyStack, listOf, referred, resourcesOf, synthesize } from './stacks.ts';

const REQUESTS = [
  'Job Requested',
  'Job Move Requested',
  'Job Cancel Requested',
  'Schedule Put Requested',
  'Schedule Delete Requested',
  'Schedule Pause Requested',
  'Schedule Resume Requested',
  'Schedule Run Requested',
];

const ROLES = ['submit', 'putEvents', 'read', 'operate', 'work', 'dispatch'] as const;

const roleId = (role: string): string => `Person${role}`;

const given = new Map<string, Grant>();
const { template } = synthesize({}, (stack, scheduler) => {
  for (const role of ROLES) {
    const person = new Role(stack, roleId(role), { assumedBy: new AccountRootPrincipal() });
    given.set(role, role === 'work' ? scheduler.grants.work(person, 'gpu') : scheduler.grants[role](person));
  }
});

/** `{ 'Fn::GetAtt': ['JobsTable48AC46C8', 'Arn'] }` as `${JobsTable.Arn}`: for readers, and whatever changes a hash. */
function readable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(readable);
  if (typeof value !== 'object' || value === null) return value;
  const id = referred(value)?.replace(/[0-9A-F]{8}$/, '');
  const attribute = at(value, 'Fn::GetAtt', 1);
  if (id !== undefined) return attribute === undefined ? `\${${id}}` : `\${${id}.${attribute}}`;
  const parts = at(value, 'Fn::Join', 1);
  if (Array.isArray(parts)) return parts.map(readable).join('');
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, readable(each)]));
}

/** All statements of a role, from whatever policy. */
function statementsOf(of: Template, role: string): readonly unknown[] {
  return ['AWS::IAM::Policy', 'AWS::IAM::ManagedPolicy']
    .flatMap((type) => resourcesOf(of, type))
    .filter(([, { Properties }]) => listOf(Properties.Roles).some((each) => referred(each)?.startsWith(role)))
    .flatMap(([, { Properties }]) => listOf(at(Properties, 'PolicyDocument', 'Statement')))
    .map(readable);
}

const golden = (name: string): string => `golden/${name}.json`;
const asFile = (statements: readonly unknown[]): string => `${JSON.stringify(statements, null, 2)}\n`;

describe('the policy of each role', () => {
  it.each(ROLES)('of whoever is granted %s is the one that was reviewed', async (role) => {
    const statements = statementsOf(template, roleId(role));
    expect(statements).not.toEqual([]);
    await expect(asFile(statements)).toMatchFileSnapshot(golden(role));
  });

  it.each([
    ['the ingest function', 'JobsIngestFunctionRole', 'function-ingest'],
    ['the dispatch function', 'JobsDispatchFunctionRole', 'function-dispatch'],
    ['what declares', 'JobsDeclarationFunctionRole', 'function-declare'],
    ['a fleet’s function', 'ImagesServiceRole', 'function-worker'],
  ])('of %s is the one that was reviewed', async (_, role, name) => {
    const statements = statementsOf(template, role);
    expect(statements).not.toEqual([]);
    await expect(asFile(statements)).toMatchFileSnapshot(golden(name));
  });

  it('is answered as a grant that a caller may assert', () => {
    for (const role of ROLES) {
      expect(given.get(role)?.success).toBe(true);
      expect(() => given.get(role)?.assertSuccess()).not.toThrow();
    }
  });

  it('is answered as one that failed where a part of it did', () => {
    const stack = emptyStack();
    const jobs = new Scheduler(stack, 'Jobs');
    const granted = jobs.grants.submit(new AccountPrincipal('222222222222'));
    expect(granted.success).toBe(false);
    expect(() => granted.assertSuccess()).toThrow(/222222222222/);
  });

  it('names its actions one by one, and its resources', () => {
    const all = [...ROLES.map(roleId), 'JobsIngest', 'JobsDispatch', 'JobsDeclaration', 'Images'];
    for (const statement of all.flatMap((role) => statementsOf(template, role))) {
      expect(at(statement, 'Effect')).toBe('Allow');
      for (const action of listOf(at(statement, 'Action'))) expect(action).toMatch(/^[a-z]+:[A-Za-z]+$/);
      const actions = listOf(at(statement, 'Action'));
      // The one that knows no resource.
      if (!actions.includes('dynamodb:ListStreams'))
        expect(listOf(at(statement, 'Resource'))).not.toContain('*');
    }
  });

  it.each(['submit', 'work', 'operate', 'dispatch', 'JobsDispatchFunctionRole', 'ImagesServiceRole'])(
    'of %s cannot change what is declared',
    (role) => {
      const statements = statementsOf(
        template,
        role.startsWith('J') || role.startsWith('I') ? role : roleId(role),
      );
      for (const statement of statements) {
        const writes = listOf(at(statement, 'Action')).filter((action) =>
          /^dynamodb:(Put|Update|Delete|PartiQL)/.test(String(action)),
        );
        if (writes.length === 0) continue;
        const keys = listOf(at(statement, 'Condition', 'ForAllValues:StringLike', 'dynamodb:LeadingKeys'));
        expect(keys).not.toEqual([]);
        expect(keys).not.toContain(LEADING_KEYS.declaration);
      }
    },
  );

  it('of a producer allows requests only, and never those of the scheduler’s own source', () => {
    const [statement, ...others] = statementsOf(template, roleId('putEvents'));
    expect(others).toEqual([]);
    expect(at(statement, 'Condition')).toEqual({
      StringEquals: { 'events:detail-type': REQUESTS },
      StringNotEquals: { 'events:source': 'fairlead' },
    });
    const filtered = synthesize({ sources: ['orders', 'invoices'] }, (stack, scheduler) => {
      scheduler.grantPutEvents(
        new Role(stack, roleId('putEvents'), { assumedBy: new AccountRootPrincipal() }),
      );
    });
    expect(at(statementsOf(filtered.template, roleId('putEvents')), 0, 'Condition')).toEqual({
      StringEquals: { 'events:detail-type': REQUESTS, 'events:source': ['orders', 'invoices'] },
    });
  });

  it('of an operator who only looks has no action that changes anything', () => {
    const actions = statementsOf(template, roleId('read')).flatMap((each) => listOf(at(each, 'Action')));
    expect(new Set(actions)).toEqual(
      new Set(['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:Query']),
    );
  });

  it('is the same by the names that older code uses', () => {
    const aliases = synthesize({}, (stack, scheduler) => {
      const person = (role: string): Role =>
        new Role(stack, roleId(role), { assumedBy: new AccountRootPrincipal() });
      scheduler.grantSubmit(person('submit'));
      scheduler.grantPutEvents(person('putEvents'));
      scheduler.grantRead(person('read'));
      scheduler.grantOperate(person('operate'));
      scheduler.grantWork(person('work'), 'gpu');
      scheduler.grantDispatch(person('dispatch'));
    });
    for (const role of ROLES) {
      expect(statementsOf(aliases.template, roleId(role))).toEqual(statementsOf(template, roleId(role)));
    }
  });
});

describe('what partition keys begin with', () => {
  const examples: readonly (readonly [keyof typeof LEADING_KEYS, ItemKey['pk']])[] = [
    ['jobs', jobKey('a').pk],
    ['rejections', rejectionKey('event', 3).pk],
    ['declaration', newestDeclarationKey.pk],
    ['declaration', declarationKey(4).pk],
    ['partitions', partitionPk(12)],
    ['partitions', controlKey(1, 'type/a').pk],
    ['mail', letterKey(0, 1, 'a').pk],
    ['ledgers', ledgerKey(1, 'ann').pk],
    ['ledgers', backlogKey(1, 'a', 'ann').pk],
    ['locks', lockKey('album/1').pk],
    ['parked', parkedKey(3, 'album/1').pk],
    ['unreadable', unreadableKey(2, jobKey('a')).pk],
    ['dispatchers', dispatcherKey('d').pk],
    ['schedules', scheduleKey('nightly').pk],
    ['schedules', scheduleSpecKey('nightly').pk],
    ['declaredSchedules', declaredSchedulesKey.pk],
  ];

  it.each(examples)('tells %s from all others', (family, pk) => {
    const matching = Object.entries(LEADING_KEYS).filter(([, pattern]) =>
      pattern.endsWith('*') ? pk.startsWith(pattern.slice(0, -1)) : pk === pattern,
    );
    expect(matching.map(([name]) => name)).toEqual([family]);
  });
});
