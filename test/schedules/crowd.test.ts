import { it } from 'vitest';
import { expectCrowd } from './crowd.ts';

it('many schedules of one minute all fire, heat no key, and other work starts between them: 1,500', async () => {
  await expectCrowd(1_500);
}, 120_000);
