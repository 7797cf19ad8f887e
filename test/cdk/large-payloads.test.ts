/** Large payloads: a bucket that only its roles can use, and what collects its objects; without them, nothing of it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { App, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AccountRootPrincipal, Role } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Bucket, type IBucket } from 'aws-cdk-lib/aws-s3';
import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../cdk/scheduler.ts';
import cdkJson from '../../cdk.json' with { type: 'json' };
import { ConfigurationError } from '../../lib/core/errors.ts';
import {
  at,
  emptyStack,
  listOf,
  outputFolder,
  type Resource,
  referred,
  resourcesOf,
  synthesize,
} from './stacks.ts';

const ROLES = ['submit', 'putEvents', 'read', 'operate', 'work', 'dispatch'] as const;

const { template } = synthesize({ largePayloads: { maxBytes: 1_000_000 }, api: true }, (stack, scheduler) => {
  for (const role of ROLES) {
    const person = new Role(stack, `Person${role}`, { assumedBy: new AccountRootPrincipal() });
    if (role === 'work') scheduler.grants.work(person, 'gpu');
    else scheduler.grants[role](person);
  }
});
const { template: without } = synthesize({ api: true });

/** The only resource of a type. */
function only(of: Template, type: string): readonly [id: string, resource: Resource] {
  const [first, ...others] = resourcesOf(of, type);
  if (first === undefined || others.length > 0) throw new Error(`${others.length} more of ${type}`);
  return first;
}

/** The rights of a role in S3: `<action> <the resource's path below the bucket>`. */
function objectRightsOf(of: Template, role: string): readonly string[] {
  const statements = ['AWS::IAM::Policy', 'AWS::IAM::ManagedPolicy']
    .flatMap((type) => resourcesOf(of, type))
    .filter(([, { Properties }]) => listOf(Properties.Roles).some((each) => referred(each)?.startsWith(role)))
    .flatMap(([, { Properties }]) => listOf(at(Properties, 'PolicyDocument', 'Statement')));
  const rights = statements.flatMap((statement) =>
    listOf(at(statement, 'Action'))
      .map(String)
      .filter((action) => action.startsWith('s3:'))
      .flatMap((action) =>
        listOf(at(statement, 'Resource')).map((resource) => {
          const path = at(resource, 'Fn::Join', 1, 1) ?? '';
          return `${action.slice(3)} ${path}`.trim();
        }),
      ),
  );
  return rights.toSorted();
}

describe('a scheduler with large payloads', () => {
  it('has a bucket that is encrypted, private, unversioned, kept with the table, and open by TLS only', () => {
    const [id, bucket] = only(template, 'AWS::S3::Bucket');
    expect(bucket.DeletionPolicy).toBe('RetainExceptOnCreate');
    expect(bucket.Properties).toEqual({
      BucketEncryption: {
        ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } }],
      },
      OwnershipControls: { Rules: [{ ObjectOwnership: 'BucketOwnerEnforced' }] },
      PublicAccessBlockConfiguration: {
        BlockPublicAcls: true,
        BlockPublicPolicy: true,
        IgnorePublicAcls: true,
        RestrictPublicBuckets: true,
      },
    });
    const [, policy] = only(template, 'AWS::S3::BucketPolicy');
    expect(referred(at(policy.Properties, 'Bucket'))).toBe(id);
    expect(listOf(at(policy.Properties, 'PolicyDocument', 'Statement'))).toMatchObject([
      { Effect: 'Deny', Action: 's3:*', Condition: { Bool: { 'aws:SecureTransport': 'false' } } },
    ]);
  });

  it('declares the bucket by its name', () => {
    const [, declared] = only(template, 'Custom::FairleadDeclaration');
    expect(referred(at(declared.Properties, 'bucket'))).toMatch(/^JobsBucket/);
  });

  const readers = ['GetObject /kept/*', 'GetObject /payload/*', 'ListBucket'];
  const worker = [
    'DeleteObject /kept/*',
    'GetObject /kept/*',
    'GetObject /payload/*',
    'ListBucket',
    'PutObject /kept/*',
  ];

  it.each([
    ['a producer', 'Personsubmit', [...readers, 'PutObject /payload/*']],
    ['a producer on the bus', 'PersonputEvents', []],
    ['a reader', 'Personread', readers],
    ['an operator', 'Personoperate', [...readers, 'PutObject /payload/*']],
    ['a worker', 'Personwork', worker],
    ['a fleet’s function', 'ImagesServiceRole', worker],
    ['a dispatcher', 'Persondispatch', []],
    ['the dispatch function', 'JobsDispatchFunctionRole', []],
    ['the ingest function', 'JobsIngestFunctionRole', ['PutObject /payload/*']],
    ['what declares', 'JobsDeclarationFunctionRole', []],
    [
      'what collects',
      'JobsObjectsFunctionRole',
      ['DeleteObject /kept/*', 'DeleteObject /payload/*', 'ListBucket'],
    ],
  ])('lets %s do in the bucket what it has to, and no more', (_, role, rights) => {
    expect(objectRightsOf(template, role)).toEqual(rights);
  });

  it('collects once a day', () => {
    const rules = resourcesOf(template, 'AWS::Events::Rule').filter(([id]) => id.startsWith('JobsObjects'));
    expect(rules.map(([, { Properties }]) => Properties.ScheduleExpression)).toEqual(['rate(1 day)']);
  });

  it('encrypts objects with the key of its account', () => {
    const stack = emptyStack();
    const encryptionKey = new Key(stack, 'Key') as IKey;
    new Scheduler(stack, 'Jobs', { largePayloads: {}, encryptionKey });
    const [, bucket] = only(Template.fromStack(stack), 'AWS::S3::Bucket');
    expect(at(bucket.Properties, 'BucketEncryption', 'ServerSideEncryptionConfiguration', 0)).toMatchObject({
      BucketKeyEnabled: true,
      ServerSideEncryptionByDefault: { SSEAlgorithm: 'aws:kms' },
    });
  });

  it('goes with its table where that is to go', () => {
    const { template: gone } = synthesize({ largePayloads: {}, removalPolicy: RemovalPolicy.DESTROY });
    const [, bucket] = only(gone, 'AWS::S3::Bucket');
    expect(bucket.DeletionPolicy).toBe('Delete');
  });

  it('uses a bucket that is there', () => {
    const stack = emptyStack();
    const scheduler = new Scheduler(stack, 'Jobs', {
      largePayloads: {},
      largePayloadsBucket: Bucket.fromBucketName(stack, 'Old', 'old-objects') as IBucket,
    });
    expect(scheduler.bucket?.bucketName).toBe('old-objects');
    expect(scheduler.node.tryFindChild('Bucket')).toBeUndefined();
  });
});

describe('a scheduler without large payloads', () => {
  it('has no bucket, no function for it, and no right in S3', () => {
    expect(resourcesOf(without, 'AWS::S3::Bucket')).toEqual([]);
    expect(JSON.stringify(without.toJSON())).not.toMatch(/"s3:(Get|Put|List|Delete)|JobsObjects/);
  });

  it('refuses a bucket', () => {
    const stack = emptyStack();
    const bucket = Bucket.fromBucketName(stack, 'Old', 'old-objects') as IBucket;
    expect(() => new Scheduler(stack, 'Jobs', { largePayloadsBucket: bucket })).toThrow(ConfigurationError);
  });

  it.each([
    ['largePayloads.maxBytes', { maxBytes: 65_536 }],
    ['largePayloads.maxBytes', { maxBytes: 16_777_217 }],
    ['largePayloads.most', { most: 100_000 }],
    ['largePayloads', true],
  ])('refuses a wrong %s: %j', (field, largePayloads) => {
    expect(() => new Scheduler(emptyStack(), 'Jobs', { largePayloads: largePayloads as never })).toThrow(
      field,
    );
  });
});

describe('the functions’ code', () => {
  const bundled = (isLarge: boolean): ReadonlyMap<string, boolean> => {
    const app = new App({ context: cdkJson.context, analyticsReporting: false, outdir: outputFolder() });
    const stack = new Stack(app, 'Bundled');
    new Scheduler(stack, 'Jobs', isLarge ? { largePayloads: {}, api: true } : { api: true });
    const { directory } = app.synth();
    const resources = JSON.parse(readFileSync(join(directory, 'Bundled.template.json'), 'utf8')).Resources;
    const functions = Object.entries(resources as Record<string, Record<string, unknown>>).filter(
      ([, { Type }]) => Type === 'AWS::Lambda::Function',
    );
    const folders = readdirSync(directory);
    return new Map(
      functions.map(([id, each]) => {
        const hash = String(at(each, 'Properties', 'Code', 'S3Key')).split('.')[0];
        const folder = folders.find((name) => name === `asset.${hash}`) ?? '';
        const code = readFileSync(join(directory, folder, 'index.mjs'), 'utf8');
        return [id.replace(/Function[0-9A-F]{8}$/, ''), code.includes('AmazonS3')];
      }),
    );
  };

  it('holds the client of S3 where objects are read or written, and nowhere without large payloads', {
    timeout: 120_000,
  }, () => {
    expect(Object.fromEntries(bundled(false))).toEqual({
      JobsIngest: false,
      JobsDispatch: false,
      JobsDeclaration: false,
      JobsApi: false,
    });
    expect(Object.fromEntries(bundled(true))).toEqual({
      JobsIngest: true,
      JobsDispatch: false,
      JobsDeclaration: false,
      JobsApi: true,
      JobsObjects: true,
    });
  });
});
