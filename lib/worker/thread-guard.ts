/** The worker's side of a guard that runs in its own thread: see `guard-thread.ts`. */

import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import type { PoolConfiguration } from '../core/configuration.ts';
import type { Clock } from '../runtime/contract.ts';
import { sinceMs } from '../runtime/instant.ts';
import { WorkerStoppedError } from './errors.ts';
import type { Guard, GuardedLife, GuardMaker, GuardMessage } from './guard.ts';
import { LEASE_MARGIN_MS, type LeaseLoss } from './membership.ts';

/** The data that the thread starts with. It creates its own client of the store. */
export interface GuardThreadData {
  readonly guarded: GuardedLife;
  readonly table: string;
  readonly configuration: PoolConfiguration;
  readonly requests: Pick<DynamoDBClientConfig, 'maxAttempts' | 'requestHandler'>;
  /** The start of the lease, in whole milliseconds: first by the wall clock, then by the monotonic one. */
  readonly leaseSince: BigInt64Array;
}

/** Messages from the worker to the thread. */
export type GuardRequest =
  | GuardMessage
  | { readonly kind: 'abort' }
  | { readonly kind: 'leave' }
  | { readonly kind: 'serve'; readonly partition: number };

/** Messages from the thread to the worker. */
export type GuardAnswer =
  | { readonly kind: 'joined' | 'superseded' | 'aborted' | 'left' }
  | { readonly kind: 'served'; readonly partition: number; readonly isServed: boolean }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'lost'; readonly loss: LeaseLoss };

export interface ThreadGuardOptions extends Pick<GuardThreadData, 'table' | 'configuration' | 'requests'> {
  readonly clock: Clock;
  /** Ends the process, because it is not guarded any more. */
  readonly exit: (reason: string) => void;
}

const instantIn = (leaseSince: BigInt64Array): { readonly wallMs: number; readonly monotonicMs: number } => ({
  wallMs: Number(Atomics.load(leaseSince, 0)),
  monotonicMs: Number(Atomics.load(leaseSince, 1)),
});

/** Makes guards that run in threads of their own. */
export function guardInThread({ clock, exit, ...given }: ThreadGuardOptions): GuardMaker {
  return (guarded, { onLost, signal }) => {
    const leaseSince = new BigInt64Array(new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT));
    const workerData: GuardThreadData = { ...given, guarded, leaseSince };
    const thread = new Worker(new URL(`./guard-thread${extname(import.meta.url)}`, import.meta.url), {
      workerData,
    });
    const ask = (request: GuardRequest): void => thread.postMessage(request);
    const { promise: joined, resolve, reject } = Promise.withResolvers<Guard | 'superseded' | 'aborted'>();
    const left = Promise.withResolvers<void>();
    /** Calls of `serve` that wait for an answer, by partition. */
    const serving = new Map<number, PromiseWithResolvers<boolean>>();
    const served = (partition: number, isServed: boolean): void => {
      serving.get(partition)?.resolve(isServed);
      serving.delete(partition);
    };
    const abort = (): void => ask({ kind: 'abort' });
    let stage: 'joining' | 'guarding' | 'lost' | 'over' = 'joining';

    const end = (): void => {
      stage = 'over';
      signal.removeEventListener('abort', abort);
      left.resolve();
      for (const partition of serving.keys()) served(partition, false);
      void thread.terminate();
    };
    const lose = (loss: LeaseLoss): void => {
      if (stage === 'lost' || stage === 'over') return;
      stage = 'lost';
      onLost(loss);
    };
    const isTrusted = (): boolean => {
      if (sinceMs(clock, instantIn(leaseSince)) >= guarded.leaseMs - LEASE_MARGIN_MS) lose('unreachable');
      return stage === 'guarding';
    };
    const guard: Guard = {
      isTrusted,
      tell: ask,
      serve: (partition) => {
        if (stage === 'over') return Promise.resolve(false);
        const known = serving.get(partition);
        if (known !== undefined) return known.promise;
        const answer = Promise.withResolvers<boolean>();
        serving.set(partition, answer);
        ask({ kind: 'serve', partition });
        return answer.promise;
      },
      leave: async () => {
        ask({ kind: 'leave' });
        await left.promise;
      },
      abandon: end,
    };

    /** Without its guard the worker has no heartbeats, and a handler that hangs would not be ended. */
    const fail = (why: string): void => {
      if (stage === 'over') return;
      const wasJoining = stage === 'joining';
      end();
      if (wasJoining) reject(new WorkerStoppedError(why));
      else exit(why);
    };
    thread.on('message', (answer: GuardAnswer) => {
      switch (answer.kind) {
        case 'joined':
          if (stage === 'joining') stage = 'guarding';
          return resolve(guard);
        case 'superseded':
        case 'aborted':
          end();
          return resolve(answer.kind);
        case 'failed':
          return fail(`the worker could not be registered: ${answer.error}`);
        case 'served':
          return served(answer.partition, answer.isServed);
        case 'lost':
          return lose(answer.loss);
        case 'left':
          return end();
      }
    });
    thread.on('error', (error) =>
      fail(
        `the guard thread of this worker failed: ${String(error)}; if fairlead is bundled, leave it out of the bundle`,
      ),
    );
    thread.on('exit', () => fail('the guard thread of this worker ended'));
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    return joined;
  };
}
