/** Physical names, where something must have one. */
import { createHash } from 'node:crypto';
import { Aws, Fn, Stack, Token } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

const HASH_DIGITS = 16;
/** EventBridge takes 256 characters. */
const BUS_NAME_READABLE = 200;

const hashOf = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, HASH_DIGITS);

const readable = (path: string, length: number): string =>
  path.replaceAll(/[^A-Za-z0-9]+/g, '-').slice(-length);

/** The way to it inside of its stack, which stays as it is when the stack gets another id, or moves into a stage. */
function pathInStack(construct: Construct): string {
  const scopes = construct.node.scopes;
  return scopes
    .slice(scopes.indexOf(Stack.of(construct)) + 1)
    .map(({ node }) => node.id)
    .join('/');
}

/**
 * A name that nothing else of the account and region has: of a stack with that name there is one, whatever the construct
 * ids of the app are. Undefined where the stack's name is known only when it is deployed.
 */
export function stackWideName(construct: Construct, length: number): string | undefined {
  const { stackName } = Stack.of(construct);
  if (Token.isUnresolved(stackName)) return undefined;
  const path = `${stackName}/${pathInStack(construct)}`;
  return `${readable(path, length - HASH_DIGITS - 1)}-${hashOf(path)}`;
}

/** EventBridge makes no names. A nested stack has none before it is deployed, but an id that is its own. */
export function busName(construct: Construct): string {
  const own = stackWideName(construct, BUS_NAME_READABLE);
  if (own !== undefined) return own;
  const { path } = construct.node;
  const stackUuid = Fn.select(2, Fn.split('/', Aws.STACK_ID));
  return Fn.join('-', [readable(path, BUS_NAME_READABLE - 64), hashOf(path), stackUuid]);
}
