import { expect, it } from 'vitest';
import { seedsOf } from '../sample.ts';
import { scheduleWorld } from './schedules.ts';

const [SAMPLE_FIRST, SAMPLE_LAST] = seedsOf('schedules', [21, 520], 50);
/** `FAIRLEAD_SCHEDULE_FIRST=700000` tries others than were tried before. */
const FIRST = Number(process.env.FAIRLEAD_SCHEDULE_FIRST ?? SAMPLE_FIRST);
/** `FAIRLEAD_SCHEDULE_SEEDS=20000` tries as many as are asked for before a release. */
const SEEDS = Number(process.env.FAIRLEAD_SCHEDULE_SEEDS ?? SAMPLE_LAST - SAMPLE_FIRST + 1);

it(`schedules lose no firing and double none, whatever happens: ${SEEDS} seeds`, async () => {
  let decided = 0;
  for (let seed = FIRST; seed < FIRST + SEEDS; seed += 1) decided += (await scheduleWorld(seed)).decided;
  console.log(`${SEEDS} seeds from ${FIRST} on, ${decided} firings`);
  expect(decided).toBeGreaterThan(SEEDS);
}, 3_600_000);

it(`schedules beside jobs obey their policies and hold up nothing, whoever dies at any verb: ${SEEDS} seeds`, async () => {
  let decided = 0;
  for (let seed = FIRST; seed < FIRST + SEEDS; seed += 1)
    decided += (await scheduleWorld(seed, { isWide: true })).decided;
  console.log(`${SEEDS} wide seeds from ${FIRST} on, ${decided} firings`);
  expect(decided).toBeGreaterThan(SEEDS);
}, 3_600_000);

it(`schedules of deployments and guests keep their owners, and fire by their policies: ${SEEDS} seeds`, async () => {
  let decided = 0;
  for (let seed = FIRST; seed < FIRST + SEEDS; seed += 1)
    decided += (await scheduleWorld(seed, { isDeployed: true })).decided;
  console.log(`${SEEDS} deployed seeds from ${FIRST} on, ${decided} firings`);
  expect(decided).toBeGreaterThan(SEEDS);
}, 3_600_000);
