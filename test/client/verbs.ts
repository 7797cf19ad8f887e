/** Every verb of the client, to be called with options. */
import type { StoreClient } from '../../lib/client/client.ts';

const SOON = { runAt: '2027-01-31T08:00:00Z' };
export type Verb = (client: StoreClient, options: never) => unknown;

/** The verbs of the client that take options, after arguments that are right. */
export const VERBS: Readonly<Record<string, Verb>> = {
  'client.submit': (client, options) => client.submit({ type: 'report', payload: 1 }, options),
  'client.submitMany': (client, options) => client.submitMany([{ type: 'report', payload: 1 }], options),
  'client.run': (client, options) => client.run({ type: 'report', payload: 1 }, options),
  'client.wait': (client, options) => client.wait('a', options),
  'client.waitMany': (client, options) => client.waitMany(['a'], options).next(),
  'client.get': (client, options) => client.get('a', options),
  'client.cancel': (client, options) => client.cancel('a', options),
  'client.retime': (client, options) => client.retime('a', SOON, options),
  'client.setPriority': (client, options) => client.setPriority('a', 5, options),
  'client.retry': (client, options) => client.retry('a', options),
  'client.history': (client, options) => client.history('a', options),
  'client.explain': (client, options) => client.explain('a', options),
  'client.list': (client, options) => client.list({ type: 'report', state: 'pending' }, options).next(),
  'client.deadLetters': (client, options) => client.deadLetters({}, options).next(),
  'client.rejections': (client, options) => client.rejections({}, options).next(),
  'client.unreadable': (client, options) => client.unreadable(options),
  'client.keys': (client, options) => client.keys(options).next(),
  'client.fleets': (client, options) => client.fleets(options),
  'client.types': (client, options) => client.types(options),
  'client.declaration': (client, options) => client.declaration(options),
  'client.dispatchers': (client, options) => client.dispatchers(options),
  'client.controls': (client, options) => client.controls(options),
  'client.capacity': (client, options) => client.capacity(options),
  'client.locks': (client, options) => client.locks(options),
  'client.statistics': (client, options) => client.statistics(options),
  'client.redriveDeadLetters': (client, options) => client.redriveDeadLetters({}, options).next(),
  'client.cancelMany': (client, options) =>
    client.cancelMany({ type: 'report', state: 'pending' }, options).next(),
  'client.retimeMany': (client, options) =>
    client.retimeMany({ type: 'report', state: 'pending' }, SOON, options).next(),
  'client.pause': (client, options) => client.pause('pool', options),
  'client.resume': (client, options) => client.resume('pool', options),
  'client.override': (client, options) => client.override('pool', { maxConcurrency: 1 }, options),
  'client.drain': (client, options) => client.drain('pool', options),
  'client.schedules.put': (client, options) =>
    client.schedules.put('a', { type: 'report', every: '1h' }, options),
  'client.schedules.get': (client, options) => client.schedules.get('a', options),
  'client.schedules.list': (client, options) => client.schedules.list(options).next(),
  'client.schedules.pause': (client, options) => client.schedules.pause('a', options),
  'client.schedules.resume': (client, options) => client.schedules.resume('a', options),
  'client.schedules.delete': (client, options) => client.schedules.delete('a', options),
  'client.schedules.next': (client, options) => client.schedules.next('a', options),
  'client.schedules.runNow': (client, options) => client.schedules.runNow('a', options),
};
