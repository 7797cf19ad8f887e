/** Measures how busy a resident is, and how many jobs wait in its partitions. The renewals of its membership publish this. */
import type { DispatcherLoad } from '../../store/contract/records.ts';
import { combinedDepth, type Depth, depthOf, HEARTBEAT_BOUNDS } from '../partition/depth.ts';
import type { ResidentSettings } from './options.ts';
import type { ResidentContext } from './resident-context.ts';

export class LoadMeter {
  readonly #settings: ResidentSettings;
  readonly #context: ResidentContext;
  readonly #ending: AbortSignal;
  #depth: Depth | undefined;
  #waitedMs: number | undefined;
  #countAtMonotonicMs = -Infinity;
  #counting: Promise<void> | undefined;
  #inPassesMs = 0;
  #sinceMonotonicMs: number;

  constructor(settings: ResidentSettings, context: ResidentContext, ending: AbortSignal) {
    this.#settings = settings;
    this.#context = context;
    this.#ending = ending;
    this.#sinceMonotonicMs = settings.clock.monotonicMs();
  }

  /** Resolves when the count in progress has ended; undefined: none is in progress. */
  get counting(): Promise<void> | undefined {
    return this.#counting;
  }

  /** Notes the duration of a pass. */
  note(passMs: number): void {
    this.#inPassesMs += passMs;
  }

  /** Returns the load since the last call, and starts the next count if it is due. */
  now(leads: readonly number[]): DispatcherLoad {
    const { clock, countEveryMs, vitals } = this.#settings;
    const nowMonotonicMs = clock.monotonicMs();
    if (leads.length === 0) this.#depth = undefined;
    else if (
      this.#counting === undefined &&
      nowMonotonicMs >= this.#countAtMonotonicMs &&
      !this.#ending.aborted
    ) {
      this.#countAtMonotonicMs = nowMonotonicMs + countEveryMs;
      this.#counting = this.#count(leads);
    }
    const elapsedMs = nowMonotonicMs - this.#sinceMonotonicMs;
    const busy = elapsedMs <= 0 ? 0 : Math.min(1, this.#inPassesMs / elapsedMs / Math.max(1, leads.length));
    this.#inPassesMs = 0;
    this.#sinceMonotonicMs = nowMonotonicMs;
    const depth = this.#depth;
    const waitedMs = this.#waitedMs;
    return {
      ...(depth === undefined ? {} : { waiting: { jobs: depth.jobs, isLeast: depth.isLeast } }),
      ...(depth === undefined || waitedMs === undefined ? {} : { waitedMs }),
      busy: Math.round(busy * 1_000) / 1_000,
      ...vitals?.(),
    };
  }

  /** Counts the waiting jobs in the background. If a count is late or fails, the last one is used. */
  async #count(leads: readonly number[]): Promise<void> {
    const context = this.#context.now;
    const { clock, log, dispatcherId } = this.#settings;
    try {
      const depths = await Promise.all(
        leads.map((partition) => depthOf(context, partition, HEARTBEAT_BOUNDS)),
      );
      const depth = combinedDepth(depths);
      const { oldestReadyAtMs } = depth;
      this.#depth = depth;
      this.#waitedMs =
        oldestReadyAtMs === undefined ? undefined : Math.max(0, clock.nowMs() - oldestReadyAtMs);
    } catch (error) {
      log.warn('waiting jobs could not be counted; trying again', { dispatcherId, error: String(error) });
    } finally {
      this.#counting = undefined;
    }
  }
}
