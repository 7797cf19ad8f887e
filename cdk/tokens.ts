/** Refuses tokens in values that are checked and packed at synth. */

import { Token } from 'aws-cdk-lib';
import { ConfigurationError } from '../lib/core/errors.ts';
import { isDuration } from './values.ts';

interface Allowed {
  /** Whether texts may contain tokens, which CloudFormation replaces. */
  readonly texts: boolean;
}

const isPlain = (value: object): boolean =>
  Object.getPrototypeOf(value) === Object.prototype || Object.getPrototypeOf(value) === null;

const isLateDuration = (value: unknown): boolean => isDuration(value) && value.isUnresolved();

/**
 * Checks objects and lists, but not constructs.
 * @throws ConfigurationError that names the field of a token
 */
export function refuseTokens(path: string, value: unknown, allowed: Allowed = { texts: false }): void {
  if (typeof value === 'string' && allowed.texts) return;
  if (Token.isUnresolved(value) || isLateDuration(value)) {
    throw new ConfigurationError(
      path,
      'a token',
      'must be known when the app is synthesised, because the declaration is checked and packed then',
      allowed.texts
        ? 'Write the value itself, or take it from the context or the environment. Texts may contain tokens of text.'
        : 'Write the value itself, or take it from the context (node.tryGetContext) or the environment (process.env).',
    );
  }
  if (typeof value !== 'object' || value === null || !(Array.isArray(value) || isPlain(value))) return;
  for (const [name, each] of Object.entries(value)) {
    const field = path === '' ? name : `${path}.${name}`;
    if (Token.isUnresolved(name)) refuseTokens(path === '' ? 'a name' : `a name in ${path}`, name);
    refuseTokens(field, each, allowed);
  }
}
