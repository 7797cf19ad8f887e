/** Which fault meets which call. Decided by the call's own name, so that leaving one fault out leaves the others where they are. */
import { CALL_FAULTS, FAULT_CLASSES, type FaultClass, type SimulationPlan } from './plan.ts';
import { hashText, seeded } from './random.ts';

export type CallFault = (typeof CALL_FAULTS)[number];

/** A fault that happened: `<node>/<verb>#<n>:<class>` names it in every run of the seed. */
export type FiredFault = string;

export class Faults {
  readonly #plan: SimulationPlan;
  readonly #nowMs: () => number;
  /** When shrinking: only these happen. */
  readonly #only: ReadonlySet<FiredFault> | undefined;
  /** Calls that must meet a fault, by name; then no others happen. */
  readonly #forced: ReadonlyMap<string, CallFault> | undefined;
  readonly counts: Record<FaultClass, number>;
  readonly fired: FiredFault[] = [];

  constructor(
    plan: SimulationPlan,
    nowMs: () => number,
    chosen: {
      readonly only?: ReadonlySet<FiredFault> | undefined;
      readonly forced?: ReadonlyMap<string, CallFault> | undefined;
    } = {},
  ) {
    this.#plan = plan;
    this.#nowMs = nowMs;
    this.#only = chosen.only;
    this.#forced = chosen.forced;
    this.counts = Object.fromEntries(FAULT_CLASSES.map((fault) => [fault, 0])) as Record<FaultClass, number>;
  }

  /** True while faults happen. */
  get active(): boolean {
    return this.#plan.endless || this.#nowMs() < this.#plan.faultsUntilMs;
  }

  /** Numbers that belong to one call, whatever else happens. */
  randomOf(name: string): () => number {
    return seeded(hashText(name, this.#plan.seed ^ 0x5bd1e995));
  }

  /** Chosen to meet a fault, and not drawn. */
  isForced(call: string): boolean {
    return this.#forced?.has(call) === true;
  }

  /** The fault that meets a call, if any. */
  draw(
    call: string,
    possible: (fault: CallFault) => boolean,
    random: () => number,
    factorOf: (fault: CallFault) => number = () => 1,
  ): CallFault | undefined {
    let left = random();
    const forced = this.#forced?.get(call);
    if (forced !== undefined) {
      return possible(forced) && this.#fire(`${call}:${forced}`, forced) ? forced : undefined;
    }
    if (!this.active) return undefined;
    for (const fault of CALL_FAULTS) {
      if (!possible(fault)) continue;
      left -= this.#plan.rates[fault] * factorOf(fault);
      if (left < 0) return this.#fire(`${call}:${fault}`, fault) ? fault : undefined;
    }
    return undefined;
  }

  /** Whether a fault of the surroundings happens now. */
  happens(fault: FaultClass, name: string, factor = 1): boolean {
    const rate = this.#plan.rates[fault] * factor;
    // Most seeds leave most faults out: then there is nothing to draw.
    const isDrawn = rate > 0 && this.active && this.randomOf(`${name}:${fault}`)() < rate;
    return isDrawn && this.#fire(`${name}:${fault}`, fault);
  }

  count(fault: FaultClass): void {
    this.counts[fault] += 1;
  }

  #fire(name: FiredFault, fault: FaultClass): boolean {
    if (this.#only !== undefined && !this.#only.has(name)) return false;
    this.fired.push(name);
    this.count(fault);
    return true;
  }
}
