/** Values that only a deployment knows have no place in what is checked and packed when an app is synthesised. */

import { Token } from 'aws-cdk-lib';
import { ConfigurationError } from '../lib/core/errors.ts';

interface Allowed {
  /** Texts stay as they are until CloudFormation fills them in. */
  readonly texts: boolean;
}

const isPlain = (value: object): boolean =>
  Object.getPrototypeOf(value) === Object.prototype || Object.getPrototypeOf(value) === null;

/**
 * Looks into objects and lists, and not into constructs.
 * @throws ConfigurationError for a token, which names the field
 */
export function refuseTokens(path: string, value: unknown, allowed: Allowed = { texts: false }): void {
  if (typeof value === 'string' && allowed.texts) return;
  if (Token.isUnresolved(value)) {
    throw new ConfigurationError(
      path,
      'a token',
      'must be known when the app is synthesised: what is declared is checked and packed then',
      allowed.texts
        ? 'Write the value itself, or take it from the context or the environment; a token of text may stand in a text.'
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
