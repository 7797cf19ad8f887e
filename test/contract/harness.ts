/** What the conformance suites need of an implementation, beside the contract itself. */
import type { EventBus, OutcomeEvent } from '../../lib/events/contract.ts';
import type { JobQueue } from '../../lib/queue/contract.ts';
import type { Wake } from '../../lib/queue/message.ts';
import type { CoreStore } from '../../lib/store/contract/core.ts';
import type { JobHead } from '../../lib/store/contract/job-fields.ts';
import type { UnreadableItem } from '../../lib/store/contract/records.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { instantRank } from '../../lib/store/table/schema.ts';

/** The type of the suites' jobs, unless they say otherwise. */
export const SUITE_TYPE = 'resize';

/** Stores of the suites place jobs so: priority is worth 64 s, as in the score. */
export const suitePlace = (job: JobHead): { readonly rank: string } => ({
  rank: instantRank(job.readyAtMs - job.priority * 64_000, job.id),
});

export interface StoreHarness {
  readonly store: JobStore;
  readonly close: () => Promise<void>;
}

export interface ScheduleStoreHarness extends StoreHarness {
  /** Spoils a schedule's item, as something else than the scheduler may; `mend` undoes it. */
  readonly damage: (id: string) => Promise<void>;
  readonly mend: (id: string) => Promise<void>;
  /** What the store has told of items that cannot be read. */
  readonly told: readonly UnreadableItem[];
}

export interface JobStoreHarness<Store extends CoreStore = JobStore> {
  readonly store: Store;
  readonly close: () => Promise<void>;
  /** The store as another process has it: it remembers nothing of what the first one did. */
  readonly another: Store;
  /** By which items expire: `NOW_MS` at first. */
  readonly setClock: (nowMs: number) => void;
}

export interface QueueHarness {
  readonly queue: JobQueue;
  /** Fleets that exist, each with an empty queue at the start. */
  readonly fleets: readonly [string, string];
  /** The wakes, and asked looks, that came since the last call; waits for the first one. */
  readonly receiveWakes: () => Promise<readonly Wake[]>;
  /** Passes time, for what a queue does later: by the injected clock, or by waiting. */
  readonly pass: (ms: number) => Promise<void>;
  readonly close: () => Promise<void>;
}

export interface BusHarness {
  readonly bus: EventBus;
  /** Events that came since the last call, with their detail type; waits for `count` of them. */
  readonly received: (
    count: number,
  ) => Promise<readonly { readonly detailType: string; readonly detail: OutcomeEvent['detail'] }[]>;
  readonly close: () => Promise<void>;
}

/** Names that are easy to get wrong in keys, paths and expressions. Each is valid as an id, a type and a key. */
export const ODD_NAMES: readonly (readonly [string, string])[] = [
  ['slashes', 'a/b//c/'],
  ['what looks encoded', 'a%2Fb%'],
  ['spaces', '  two  spaces '],
  ['accents and emoji', 'Größe-日本-🚀'],
  ['quotes and backslashes', `"it's" \\ \`x\``],
  ['placeholders', '#name :value {{x}} <%y%>'],
  ['control characters', 'tab\tline\nnull\u0000'],
  ['what code calls its own', '__proto__'],
  ['dots', '../..'],
  ['digits', '0'],
];
