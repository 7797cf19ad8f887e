/** One life of a process: it can die at any call, freeze at any await, and have a clock of its own. */

import type { VirtualTime } from '../../lib/local/virtual-time.ts';
import type { Clock } from '../../lib/runtime/contract.ts';

/** Shorter, and nobody can have given up what the process holds. */
const LONG_FREEZE_MS = 2_000;
/** A guard looks at the clocks every 2 s, and ends what it must within another. */
const NOTICED_MS = 3_000;

/** Whoever makes calls: a process, or one of its threads. */
export interface Caller {
  readonly name: string;
  readonly clock: Clock;
  readonly kill: () => void;
  readonly freeze: (ms: number) => void;
  /** Passes when it may go on: later if it stands still, never if it is dead. */
  readonly gate: () => Promise<void>;
  /** Names a call in every run of the seed. */
  readonly nameCall: (verb: string) => string;
}

export class SimulatedNode implements Caller {
  readonly name: string;
  readonly #time: VirtualTime;
  readonly #bornAtMs: number;
  readonly #calls = new Map<string, number>();
  readonly #onDeath: (() => void)[] = [];
  readonly #onLongFreeze: { readonly begin: (thawsAtMs: number) => void; readonly goOn: () => void }[] = [];
  #frozenUntilMs = 0;
  #busyUntilMs = 0;
  /** How long its machine was suspended, the last time included, and until when. */
  #suspendedMs = 0;
  #suspendedUntilMs = 0;
  /** How long it was frozen in all, now included. */
  stoodMs = 0;
  isAlive = true;
  skewMs: number;
  readonly clock: Clock;
  /** The thread of its handlers, which may be busy while the others go on. */
  readonly thread: Caller;

  constructor(name: string, time: VirtualTime, skewMs: number) {
    this.name = name;
    this.#time = time;
    this.#bornAtMs = time.nowMs;
    this.skewMs = skewMs;
    this.clock = this.#clockOf(this.gate);
    const threadGate = async (): Promise<void> => {
      await this.gate();
      while (this.isAlive && this.#busyUntilMs > time.nowMs) {
        await time.sleep(this.#busyUntilMs - time.nowMs);
        await this.gate();
      }
    };
    this.thread = {
      name,
      clock: this.#clockOf(threadGate),
      kill: () => this.kill(),
      freeze: (ms) => this.freeze(ms),
      gate: threadGate,
      nameCall: (verb) => this.nameCall(verb),
    };
  }

  #clockOf(gate: () => Promise<void>): Clock {
    const time = this.#time;
    return {
      nowMs: () => time.nowMs + this.skewMs,
      monotonicMs: () => this.#monotonicMs(),
      sleep: async (ms, signal) => {
        const before = this.#suspendedMs;
        const untilMonotonicMs = this.#monotonicMs() + ms;
        await time.sleep(ms, signal);
        await gate();
        // A timer does not count what its machine was suspended.
        while (this.#suspendedMs > before && signal?.aborted !== true) {
          const leftMs = untilMonotonicMs - this.#monotonicMs();
          if (leftMs < 1) return;
          await time.sleep(leftMs, signal);
          await gate();
        }
      },
    };
  }

  #monotonicMs(): number {
    const { nowMs } = this.#time;
    const leftMs = Math.max(0, this.#suspendedUntilMs - nowMs);
    return nowMs - this.#bornAtMs - this.#suspendedMs + leftMs;
  }

  nameCall(verb: string): string {
    const count = (this.#calls.get(verb) ?? 0) + 1;
    this.#calls.set(verb, count);
    return `${this.name}/${verb}#${count}`;
  }

  readonly gate = async (): Promise<void> => {
    while (this.isAlive && this.#frozenUntilMs > this.#time.nowMs) {
      await this.#time.sleep(this.#frozenUntilMs - this.#time.nowMs);
    }
    if (!this.isAlive) await new Promise<never>(() => {});
  };

  freeze(ms: number): void {
    this.#frozenUntilMs = Math.max(this.#frozenUntilMs, this.#time.nowMs + ms);
    this.stoodMs += ms;
    if (ms <= LONG_FREEZE_MS) return;
    const thawsAtMs = this.#frozenUntilMs;
    for (const { begin } of this.#onLongFreeze) begin(thawsAtMs);
    this.#time.after(thawsAtMs - this.#time.nowMs + NOTICED_MS, () => {
      // Frozen again meanwhile: then it goes on after that.
      if (!this.isAlive || this.#frozenUntilMs !== thawsAtMs) return;
      for (const { goOn } of this.#onLongFreeze) goOn();
    });
  }

  /** Its machine is suspended: the process stands still, and its monotonic clock and timers with it. */
  suspend(ms: number): void {
    const { nowMs } = this.#time;
    if (nowMs < this.#suspendedUntilMs) return;
    this.#suspendedUntilMs = nowMs + ms;
    this.#suspendedMs += ms;
    this.freeze(ms);
  }

  /** A handler keeps its thread for so long. */
  busy(ms: number): void {
    this.#busyUntilMs = Math.max(this.#busyUntilMs, this.#time.nowMs + ms);
  }

  get isBusy(): boolean {
    return this.#busyUntilMs > this.#time.nowMs;
  }

  get isFrozen(): boolean {
    return this.#frozenUntilMs > this.#time.nowMs;
  }

  /** Of a freeze that may outlast a lease; and when it is over for so long that a guard has looked. */
  onLongFreeze(begin: (thawsAtMs: number) => void, goOn: () => void): void {
    this.#onLongFreeze.push({ begin, goOn });
  }

  kill(): void {
    if (!this.isAlive) return;
    this.isAlive = false;
    for (const end of this.#onDeath) end();
  }

  onDeath(end: () => void): void {
    this.#onDeath.push(end);
  }
}
