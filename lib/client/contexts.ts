/** The parts of a client, and the context that its verbs work in, with a declaration that is recent enough. */

import type { PoolConfiguration } from '../core/configuration.ts';
import { MisconfiguredError } from '../core/errors.ts';
import { partitionOf } from '../core/partition.ts';
import { DECLARATION_AGAIN_MS, type Declarations } from '../declaration/declaration.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { LargeValues } from '../objects/large-values.ts';
import type { OperateContext } from '../operate/controls.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import type { JobStore } from '../store/contract/verbs.ts';
import type { AnnouncedLines } from '../submit/submit.ts';
import type { CountedBacklogs } from '../submit/waiting.ts';
import { checked, SHAPES } from './arguments.ts';

/** One call that submits jobs, as the code around it sees it. */
export interface SubmitCall {
  readonly verb: 'submit' | 'submitMany' | 'run';
  /** The number of requested jobs. */
  readonly jobs: number;
  /** The distinct types of the requested jobs, as far as they can be read. */
  readonly types: readonly string[];
}

/** How submissions are traced; `fairlead/otel` has one for OpenTelemetry. */
export interface SubmitTracing {
  /**
   * Gives the trace (a W3C `traceparent`, or none) of submissions whose request has none. It is called for each. A
   * malformed trace is refused with a `ValidationError`.
   * @default - the environment's: X-Ray's `_X_AMZN_TRACE_ID`, else `TRACEPARENT`; malformed values are ignored
   */
  readonly traceparent?: (() => string | undefined) | undefined;
  /** Runs each call that submits jobs: it calls `work` once, and answers what that answers. @default - `work` alone */
  readonly around?: (<Value>(call: SubmitCall, work: () => Promise<Value>) => Promise<Value>) | undefined;
}

/** Returns the call with what can be read of its requests, which are not checked yet. */
export function submitCall(verb: SubmitCall['verb'], asked: unknown): SubmitCall {
  const requests: readonly unknown[] = Array.isArray(asked) ? asked : [];
  const types = requests.flatMap((request) => typeIn(request) ?? []);
  return { verb, jobs: requests.length, types: [...new Set(types)] };
}

function typeIn(request: unknown): string | undefined {
  try {
    const type =
      typeof request === 'object' && request !== null
        ? (request as { readonly type?: unknown }).type
        : request;
    return typeof type === 'string' ? type : undefined;
  } catch {
    // A getter or a proxy threw. The check of the request reports that later.
    return undefined;
  }
}

/** The parts of a client. */
export interface ClientParts<Declared extends Jobs = Jobs> extends SubmitTracing {
  /** The declared job types, for the compiler and for checks of payloads and results. @default - any type is accepted */
  readonly jobs?: Declared | undefined;
  readonly store: JobStore;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  /** The configuration to use if `declarations` is not given. */
  readonly configuration?: PoolConfiguration | undefined;
  /** The source of the configuration as it was deployed. */
  readonly declarations?: Declarations | undefined;
  /** Values over 64 KB. @default - they are not accepted, and cannot be read */
  readonly large?: LargeValues | undefined;
  readonly clock: Clock;
  /** Returns an id for a job without an idempotency key: 32 hexadecimal digits. */
  readonly newId: () => string;
  /** Whether dispatchers are notified of jobs while these are stored, see `ClientSettings`. @default true */
  readonly promptStart?: boolean | undefined;
}

export class ClientContexts {
  readonly #parts: ClientParts;
  readonly #announced: AnnouncedLines = new Map();
  readonly #counted: CountedBacklogs = new Map();

  constructor(parts: ClientParts) {
    this.#parts = parts;
  }

  /** Returns the context, with a declaration that was read at most `maxAgeMs` ago. */
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
      payloadSchemas: declared?.payloadSchemas,
      clock,
      nowMs: clock.nowMs,
      partitionOf: (fairnessKey) => partitionOf(fairnessKey, configuration.partitions),
      announced: this.#announced,
      large: this.#parts.large,
      counted: this.#counted,
    };
  }

  /**
   * Returns the trace that the caller is part of, if the client has a way to find it.
   * @throws ValidationError if it is malformed
   */
  ambientTrace(): string | undefined {
    return checked(SHAPES.traceparent, this.#parts.traceparent?.(), 'traceparent');
  }

  /** Returns the context of verbs that inspect or change what exists. Its declaration is about a second old at most. */
  latest(): Promise<OperateContext> {
    // planted: stale-looks
    return this.current(DECLARATION_AGAIN_MS);
  }

  /**
   * Runs `work` for all partitions. It runs again if partitions were added meanwhile: a new partition copies the
   * controls that exist when it is declared, and may have missed this one.
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
