/** Names of resources that need an explicit one. */
import { createHash } from 'node:crypto';
import { Aws, Fn, Names, Stack, Token } from 'aws-cdk-lib';
import { Construct, RootConstruct } from 'constructs';

const HASH_DIGITS = 16;
/** The length of the bus's name as far as it is made of readable parts. EventBridge allows 256 characters. */
const BUS_NAME_READABLE = 200;
/** The length of what the names of a scheduler's rules begin with. EventBridge allows 64 characters in all. */
const RULE_PREFIX_MAX = 54;

const hashOf = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, HASH_DIGITS);

const readable = (path: string, length: number): string =>
  path.replaceAll(/[^A-Za-z0-9]+/g, '-').slice(-length);

/** Returns the outermost parent of a nested stack, or the stack itself. */
const outermostStack = (stack: Stack): Stack =>
  stack.nestedStackParent === undefined ? stack : outermostStack(stack.nestedStackParent);

/**
 * Returns the path of a construct, from the name of its deployed stack. It stays the same when the stack gets another
 * id or moves into a stage, and so do names made from it.
 */
function deployedPath(construct: Construct): readonly [stackName: string, ...ids: string[]] {
  const stack = outermostStack(Stack.of(construct));
  const { scopes } = construct.node;
  return [stack.stackName, ...scopes.slice(scopes.indexOf(stack) + 1).map(({ node }) => node.id)];
}

/**
 * Returns a name that is unique in the account and Region, because a stack's name is, and that does not depend on the
 * app's construct ids. Undefined if the stack's name is known only at deployment.
 */
export function stackWideName(construct: Construct, length: number): string | undefined {
  if (Token.isUnresolved(Stack.of(construct).stackName)) return undefined;
  const path = deployedPath(construct).join('/');
  return `${readable(path, length - HASH_DIGITS - 1)}-${hashOf(path)}`;
}

/**
 * Returns a name for the bus, because EventBridge generates none. A nested stack has no name before its deployment, but
 * a unique id.
 */
export function busName(construct: Construct): string {
  const own = stackWideName(construct, BUS_NAME_READABLE);
  if (own !== undefined) return own;
  const path = deployedPath(construct).join('/');
  return Fn.join('-', [readable(path, BUS_NAME_READABLE - 64), hashOf(path), stackUuid()]);
}

/** Returns what the names of the scheduler's own rules of business events begin with. No other rule has such a name. */
export function rulePrefix(construct: Construct): string {
  return (
    stackWideName(construct, RULE_PREFIX_MAX) ??
    Fn.join('-', [hashOf(deployedPath(construct).join('/')), stackUuid()])
  );
}

const stackUuid = (): string => Fn.select(2, Fn.split('/', Aws.STACK_ID));

/**
 * Returns what `Names.nodeUniqueId` of aws-cdk-lib does, but with the name of the stack instead of its id. By default
 * both are equal.
 */
export function uniqueId(construct: Construct): string {
  const root = new RootConstruct();
  const known = deployedPath(construct).reduce<Construct>((scope, id) => new Construct(scope, id), root);
  return Names.nodeUniqueId(known.node);
}

/** Whether the stack is the whole one or nested in it. Nested stacks are deployed with it and can refer to its resources. */
export const isPartOf = (stack: Stack, whole: Stack): boolean =>
  stack === whole || (stack.nestedStackParent !== undefined && isPartOf(stack.nestedStackParent, whole));
