/** One life of a process: it can die at any call, freeze at any await, and have a clock of its own. */
import type { Clock } from '../../lib/runtime/contract.ts';
import type { VirtualTime } from '../../lib/testing/virtual-time.ts';

/** Less than what a worker's lease of 15 s leaves of itself after a heartbeat interval and its margins. */
const LONG_FREEZE_MS = 2_000;
/** A guard looks at the clocks every 2 s, and ends what it must within another. */
const NOTICED_MS = 3_000;

export class SimulatedNode {
  readonly name: string;
  readonly #time: VirtualTime;
  readonly #bornAtMs: number;
  readonly #calls = new Map<string, number>();
  readonly #onDeath: (() => void)[] = [];
  readonly #onLongFreeze: { readonly end: () => void; readonly goOn: () => void }[] = [];
  #frozenUntilMs = 0;
  isAlive = true;
  skewMs: number;
  readonly clock: Clock;

  constructor(name: string, time: VirtualTime, skewMs: number) {
    this.name = name;
    this.#time = time;
    this.#bornAtMs = time.nowMs;
    this.skewMs = skewMs;
    this.clock = {
      nowMs: () => time.nowMs + this.skewMs,
      monotonicMs: () => time.nowMs - this.#bornAtMs,
      sleep: async (ms, signal) => {
        await time.sleep(ms, signal);
        await this.gate();
      },
    };
  }

  /** Names a call in every run of the seed. */
  nameCall(verb: string): string {
    const count = (this.#calls.get(verb) ?? 0) + 1;
    this.#calls.set(verb, count);
    return `${this.name}/${verb}#${count}`;
  }

  /** Passes when the process may go on: later if it is frozen, never if it is dead. */
  async gate(): Promise<void> {
    while (this.isAlive && this.#frozenUntilMs > this.#time.nowMs) {
      await this.#time.sleep(this.#frozenUntilMs - this.#time.nowMs);
    }
    if (!this.isAlive) await new Promise<never>(() => {});
  }

  freeze(ms: number): void {
    this.#frozenUntilMs = Math.max(this.#frozenUntilMs, this.#time.nowMs + ms);
    if (ms <= LONG_FREEZE_MS) return;
    for (const { end } of this.#onLongFreeze) end();
    const thawedAtMs = this.#frozenUntilMs;
    this.#time.after(thawedAtMs - this.#time.nowMs + NOTICED_MS, () => {
      // Frozen again meanwhile: then it goes on after that.
      if (!this.isAlive || this.#frozenUntilMs !== thawedAtMs) return;
      for (const { goOn } of this.#onLongFreeze) goOn();
    });
  }

  /** Of a freeze that may outlast the lease of a worker; and when it is over for so long that its guard has looked. */
  onLongFreeze(end: () => void, goOn: () => void): void {
    this.#onLongFreeze.push({ end, goOn });
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
