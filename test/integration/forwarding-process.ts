/** A worker that forwards its jobs, as `fairlead fleet-worker` runs it. Usage: forwarding-process.ts NAME; FORWARD_URL names the server. */
import { runForwardingWorker } from '../../lib/worker/fleet-worker.ts';

const { FORWARD_URL = '' } = process.env;

await runForwardingWorker(FORWARD_URL, { slots: 2 });
