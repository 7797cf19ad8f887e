/** Physical names, where something must have one. */
import { createHash } from 'node:crypto';
import { Aws, Fn, Names, Stack, Token } from 'aws-cdk-lib';
import { Construct, RootConstruct } from 'constructs';

const HASH_DIGITS = 16;
/** EventBridge takes 256 characters. */
const BUS_NAME_READABLE = 200;

const hashOf = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, HASH_DIGITS);

const readable = (path: string, length: number): string =>
  path.replaceAll(/[^A-Za-z0-9]+/g, '-').slice(-length);

/** Of a nested stack, the one that it is nested in, however deep. */
const outermostStack = (stack: Stack): Stack =>
  stack.nestedStackParent === undefined ? stack : outermostStack(stack.nestedStackParent);

/**
 * The way to it from the name of the stack that is deployed: it stays as it is when that stack gets another id, or moves into a
 * stage, and what was deployed is the same then.
 */
function deployedPath(construct: Construct): readonly [stackName: string, ...ids: string[]] {
  const stack = outermostStack(Stack.of(construct));
  const { scopes } = construct.node;
  return [stack.stackName, ...scopes.slice(scopes.indexOf(stack) + 1).map(({ node }) => node.id)];
}

/**
 * A name that nothing else of the account and region has: of a stack with that name there is one, whatever the construct
 * ids of the app are. Undefined where the stack's name is known only when it is deployed.
 */
export function stackWideName(construct: Construct, length: number): string | undefined {
  if (Token.isUnresolved(Stack.of(construct).stackName)) return undefined;
  const path = deployedPath(construct).join('/');
  return `${readable(path, length - HASH_DIGITS - 1)}-${hashOf(path)}`;
}

/** EventBridge makes no names. A nested stack has none before it is deployed, but an id that is its own. */
export function busName(construct: Construct): string {
  const own = stackWideName(construct, BUS_NAME_READABLE);
  if (own !== undefined) return own;
  const path = deployedPath(construct).join('/');
  const stackUuid = Fn.select(2, Fn.split('/', Aws.STACK_ID));
  return Fn.join('-', [readable(path, BUS_NAME_READABLE - 64), hashOf(path), stackUuid]);
}

/**
 * What the library calls `Names.nodeUniqueId`, which holds the id of the stack, with its name instead: by default they are the
 * same.
 */
export function uniqueId(construct: Construct): string {
  const root = new RootConstruct();
  const known = deployedPath(construct).reduce<Construct>((scope, id) => new Construct(scope, id), root);
  return Names.nodeUniqueId(known.node);
}
