/** The specialised fleet for text. */
import { worker } from '../../lib/worker/lambda.ts';
import { index } from './handlers.ts';

export const handler = worker({ index });
