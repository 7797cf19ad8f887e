/** The replacement of the packages of workers, in a user's module under `fairlead dev`. */
import { expect, it } from 'vitest';
import * as standIn from '../../lib/dev/stand-in.ts';
import * as processes from '../../lib/worker/fleet-worker.ts';
import * as functions from '../../lib/worker/lambda.ts';

/** A forwarding process has no handlers of its own: the command line starts it. */
const WITHOUT_HANDLERS = ['runForwardingWorker'];

it('has all that a module can import from them', () => {
  const names = [...Object.keys(functions), ...Object.keys(processes)];
  expect(names.filter((name) => !(name in standIn) && !WITHOUT_HANDLERS.includes(name))).toEqual([]);
});
