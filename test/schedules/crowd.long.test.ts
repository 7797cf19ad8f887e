import { it } from 'vitest';
import { expectCrowd } from './crowd.ts';

it('many schedules of one minute all fire, heat no key, and other work starts between them: 100,000', async () => {
  const { untilAllMs, movedInSecond, passes, othersMs, othersAloneMs } = await expectCrowd(100_000);
  const longest = (all: readonly number[]): number => Math.round(Math.max(...all));
  const later = othersMs.filter((ms) => ms > Math.max(...othersAloneMs));
  console.log(
    `100,000 schedules of one minute: ${Math.round(untilAllMs / 1_000)} s in one partition, ${passes} passes, ` +
      `at most ${movedInSecond} a second; of ${othersMs.length} other jobs ${later.length} started later than alone, ` +
      `at most ${longest(othersMs)} ms after they came (alone ${longest(othersAloneMs)} ms)`,
  );
}, 3_600_000);
