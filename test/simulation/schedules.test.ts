import { expect, it } from 'vitest';
import { scheduleWorld } from './schedules.ts';

/** Others are in `schedules.long.test.ts`. */
const SEEDS = 30;

it(`schedules lose no firing and double none, whatever happens: ${SEEDS} seeds`, async () => {
  let decided = 0;
  const seen = new Set<string>();
  // 35: two dispatchers decide about the same firing. 1991: one that was removed and made again, while a dispatcher stood still that
  // knew the former one.
  for (const seed of [35, 1_991, ...Array.from({ length: SEEDS }, (_, at) => at + 1)]) {
    const world = await scheduleWorld(seed);
    decided += world.decided;
    for (const what of world.seen) seen.add(what);
  }
  expect(decided).toBeGreaterThan(SEEDS * 10);
  // What the world is for has taken place.
  for (const what of [
    'stood still',
    'died behind saveSchedule',
    'died behind createJobs',
    'UnavailableError',
    'ThrottledError',
  ])
    expect(seen).toContain(what);
}, 120_000);

const WIDE_SEEDS = 90;

it(`schedules beside jobs obey their policies and hold up nothing, whoever dies at any verb: ${WIDE_SEEDS} seeds`, async () => {
  const seen = new Set<string>();
  let decided = 0;
  for (let seed = 1; seed <= WIDE_SEEDS; seed += 1) {
    const world = await scheduleWorld(seed, { isWide: true });
    decided += world.decided;
    for (const what of world.seen) seen.add(what);
  }
  expect(decided).toBeGreaterThan(WIDE_SEEDS * 4);
  for (const what of [
    'stood still',
    'died behind saveSchedule',
    'died behind commit',
    'died behind lead',
    'firing made',
    'firing missed',
    'firing running',
    'firing manual',
    'scheduled succeeded',
    'scheduled failed',
    'scheduled cancelled',
    'ordinary succeeded',
  ])
    expect(seen).toContain(what);
}, 120_000);

const DEPLOYED_SEEDS = 20;

it(`schedules of deployments and guests keep their owners, and fire by their policies: ${DEPLOYED_SEEDS} seeds`, async () => {
  const seen = new Set<string>();
  let decided = 0;
  // 193: a firing that waits for the end of a job meets a jitter that was declared meanwhile.
  for (const seed of [193, ...Array.from({ length: DEPLOYED_SEEDS }, (_, at) => at + 1)]) {
    const world = await scheduleWorld(seed, { isDeployed: true });
    decided += world.decided;
    for (const what of world.seen) seen.add(what);
  }
  expect(decided).toBeGreaterThan(DEPLOYED_SEEDS * 4);
  for (const what of [
    'a deployment died',
    'a deployment went through',
    'ConfigurationError',
    'firing blackout',
    'firing paused',
    'stopped: type',
    'scheduled succeeded',
  ])
    expect(seen).toContain(what);
}, 120_000);
