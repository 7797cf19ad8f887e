/** What a client works with, and what its verbs work by: the declaration as it is now, or was a moment ago. */

import type { PoolConfiguration } from '../core/configuration.ts';
import { MisconfiguredError } from '../core/errors.ts';
import { partitionOf } from '../core/partition.ts';
import { DECLARATION_AGAIN_MS, type Declarations } from '../declaration/declaration.ts';
import type { OperateContext } from '../operate/controls.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import type { JobStore } from '../store/contract/verbs.ts';
import type { AnnouncedLines } from '../submit/submit.ts';
import { checked, SHAPES } from './arguments.ts';

/** What a client works with. */
export interface ClientParts {
  readonly store: JobStore;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  /** What is declared; or, in its stead, where that is read. */
  readonly configuration?: PoolConfiguration | undefined;
  readonly declarations?: Declarations | undefined;
  readonly clock: Clock;
  /** Ids of jobs without an idempotency key: 32 hexadecimal digits. */
  readonly newId: () => string;
  /** Whether dispatchers are told of jobs while these are stored, see `ClientSettings`. @default true */
  readonly promptStart?: boolean | undefined;
  /** The trace that a submission is part of, where it does not say so itself: asked with each. */
  readonly traceparent?: (() => string | undefined) | undefined;
}

export class ClientContexts {
  readonly #parts: ClientParts;
  readonly #announced: AnnouncedLines = new Map();

  constructor(parts: ClientParts) {
    this.#parts = parts;
  }

  /** What its verbs work with: by what is declared, as it was at most so long ago. */
  async current(maxAgeMs?: number): Promise<OperateContext> {
    const { store, queue, configuration: given, declarations, clock } = this.#parts;
    const declared = await declarations?.current(maxAgeMs);
    const configuration = declared?.configuration ?? given;
    if (configuration === undefined) throw new MisconfiguredError('a client needs a declaration');
    return {
      store,
      queue,
      configuration,
      formerTypes: declared?.formerTypes,
      shared: declared,
      clock,
      nowMs: clock.nowMs,
      partitionOf: (fairnessKey) => partitionOf(fairnessKey, configuration.partitions),
      announced: this.#announced,
    };
  }

  /** The trace that the caller is part of, where the client was told how to learn of it. */
  ambientTrace(): string | undefined {
    return checked(SHAPES.traceparent, this.#parts.traceparent?.(), 'traceparent');
  }

  /** For who looks at what is there, or changes it: by what was declared a second ago. */
  latest(): Promise<OperateContext> {
    // planted: stale-looks
    return this.current(DECLARATION_AGAIN_MS);
  }

  /**
   * What is done in every partition. Where there are others than before when it was done, it is done again: a new partition
   * takes controls over as they were when it came to its declaration, and may have missed this one.
   */
  async everywhere<T>(work: (context: OperateContext) => Promise<T>): Promise<T> {
    for (;;) {
      const context = await this.current(0);
      const answer = await work(context);
      const { shared } = await this.current(0);
      if (shared?.partitionNumbers.length === context.shared?.partitionNumbers.length) return answer;
    }
  }
}
