/** Checks the sources of schedulers that share a bus. They must differ, or each scheduler would run every job. */

import { Stack, Token } from 'aws-cdk-lib';
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { EVENT_SOURCE, REQUEST_TYPES } from '../lib/events/contract.ts';

/** The quota "Event pattern size" of EventBridge, for one rule. */
const PATTERN_MAX_CHARS = 2_048;

/**
 * Checks the length of a rule's pattern.
 * @throws ConfigurationError for a pattern that is too long for a rule
 */
export function checkPattern(field: string, pattern: object, wayOut: string): void {
  const chars = JSON.stringify(pattern).length;
  if (chars <= PATTERN_MAX_CHARS) return;
  throw new ConfigurationError(
    field,
    chars,
    `makes a pattern that is too long: EventBridge allows ${PATTERN_MAX_CHARS} characters`,
    wayOut,
  );
}

interface Claim {
  readonly scheduler: Construct;
  readonly bus: IEventBus;
  readonly sources: readonly string[];
}

/** The sources that the schedulers of each app accept, with their buses. */
const claims = new WeakMap<object, Claim[]>();

/**
 * Checks the sources.
 * @throws ConfigurationError for an impossible source
 */
export function checkSources(sources: readonly string[]): void {
  if (!Array.isArray(sources)) {
    throw new ConfigurationError('sources', sources, 'must be a list', 'Write it as ["orders"].');
  }
  if (sources.length === 0) {
    throw new ConfigurationError(
      'sources',
      sources,
      'names no source',
      'Name the sources of the producers, or leave sources out to accept every source.',
    );
  }
  const other = sources.findIndex((source) => typeof source !== 'string');
  if (other >= 0) {
    throw new ConfigurationError(
      `sources[${other}]`,
      sources[other],
      'must be a text',
      'Name the source as its events do.',
    );
  }
  const own = sources.indexOf(EVENT_SOURCE);
  if (own >= 0) {
    throw new ConfigurationError(
      `sources[${own}]`,
      EVENT_SOURCE,
      'is the source of the scheduler’s own events, which no producer may use',
      'Name the source after the producer.',
    );
  }
  const empty = sources.indexOf('');
  if (empty >= 0) {
    throw new ConfigurationError(
      `sources[${empty}]`,
      '',
      'cannot be the source of an event',
      'Name the source after the producer, or leave sources out to accept every source.',
    );
  }
  checkPattern(
    'sources',
    { 'detail-type': REQUEST_TYPES, source: sources },
    'Let producers share a source, or leave sources out: grants.putEvents still decides who may send.',
  );
}

/**
 * Records which sources a scheduler accepts from a bus.
 * @throws ConfigurationError for sources that another scheduler of the app accepts from the same bus
 */
export function claimSources(scheduler: Construct, bus: IEventBus, sources: readonly string[]): void {
  const made = claims.get(scheduler.node.root) ?? [];
  for (const [at, source] of sources.length === 0 ? [[0, undefined] as const] : sources.entries()) {
    const other = made.find((claim) => isSameBus(claim, { scheduler, bus }) && takes(claim.sources, source));
    if (other === undefined) continue;
    throw new ConfigurationError(
      source === undefined ? 'sources' : `sources[${at}]`,
      source,
      `is accepted from the same bus by ${other.scheduler.node.path} too, so both would run every job`,
      'Give each scheduler of a bus sources of its own, such as sources: ["orders"].',
    );
  }
  claims.set(scheduler.node.root, [...made, { scheduler, bus, sources }]);
}

const takes = (sources: readonly string[], source: string | undefined): boolean =>
  source === undefined || sources.length === 0 || sources.includes(source);

/**
 * Whether two claims are about one bus. An imported bus may be imported twice, in one stack or in several that are
 * deployed to one account and Region.
 */
function isSameBus(claim: Claim, { scheduler, bus }: Omit<Claim, 'sources'>): boolean {
  if (claim.bus === bus) return true;
  if (claim.bus.eventBusName !== bus.eventBusName) return false;
  if (Stack.of(claim.scheduler) === Stack.of(scheduler)) return true;
  // A bus that its own stack creates has a token, or a generated name that no other stack has.
  const isNamed = !Token.isUnresolved(bus.eventBusName);
  return isNamed && placeOf(claim.bus) === placeOf(bus);
}

/** Returns the account and Region of a bus. If stacks name neither, they are deployed to the same ones. */
const placeOf = ({ env: { account, region } }: IEventBus): string =>
  [account, region].map((each) => (Token.isUnresolved(each) ? '' : each)).join('/');
