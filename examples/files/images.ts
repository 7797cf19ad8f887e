/** The specialised fleet for images. */
import { worker } from '../../lib/worker/lambda.ts';
import { thumbnail } from './thumbnail.ts';

export const handler = worker({ thumbnail });
