/** Handlers that say when they ran. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Json } from '../../lib/core/job.ts';
import { worker } from '../../lib/worker/lambda.ts';

/** Takes as many milliseconds as it is told, or until an address answers. */
const takingTime = async (payload: Json): Promise<Json> => {
  const fromMs = Date.now();
  if (typeof payload === 'string') await (await fetch(payload)).text();
  else await wait(typeof payload === 'number' ? payload : 0);
  return { fromMs, toMs: Date.now() };
};

export const handler = worker({ print: takingTime, pack: takingTime, ship: takingTime });
