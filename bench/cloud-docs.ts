/** Writes `docs/cost-and-speed.md` and its picture from the figures that `npm run bench:cloud -- --save` keeps. */
import { writeDocuments } from './cloud/document.ts';

await writeDocuments();
