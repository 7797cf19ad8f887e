/** The versatile fleet: takes what the specialised ones have no room for, and all that only needs compressing. */
import { worker } from '../../lib/worker/lambda.ts';
import { compress, index } from './handlers.ts';
import { thumbnail } from './thumbnail.ts';

export const handler = worker({ compress, thumbnail, index });
