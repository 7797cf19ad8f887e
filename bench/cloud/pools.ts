/** The pool of the idle month. */
export const IDLE_POOL = { types: 10, fleets: 3 } as const;
