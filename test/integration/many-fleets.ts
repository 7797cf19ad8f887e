/** As many fleets and types as are promised. The last fleet is the one whose processes the tests have. */
const FLEETS = 200;
const TYPES_OF_FLEET = 5;
export const LAST_FLEET = `fleet-${FLEETS - 1}`;

const typesOf = (fleet: number): readonly string[] =>
  Array.from({ length: TYPES_OF_FLEET }, (_, type) =>
    // What `fleet-process.ts` has a handler for.
    fleet === FLEETS - 1 && type === 0 ? 'work' : `type-${fleet}-${type}`,
  ).slice(0, fleet === FLEETS - 1 ? 1 : TYPES_OF_FLEET);

const fleets = Array.from({ length: FLEETS }, (_, fleet) => ({
  name: `fleet-${fleet}`,
  types: typesOf(fleet),
}));

export const MANY_FLEETS = {
  types: Object.fromEntries(
    fleets.flatMap(({ types }) => types.map((type) => [type, { timeoutMs: 60_000 }] as const)),
  ),
  fleets: Object.fromEntries(fleets.map(({ name, types }) => [name, { types }])),
};
