/**
 * Wake-up calls of a hotel: guests set, move and cancel them, for any morning, in the hotel's own time. A call is a schedule of
 * the room, so that whoever restarts has nothing to arm again, and the last time that was asked for is the one that counts.
 */
import type { SchedulerClient } from '../../lib/client/aws.ts';

/** What the hotel needs of a client. */
export type Desk = Pick<SchedulerClient, 'schedules'>;

export interface Stay {
  readonly room: string;
  /** The last morning: nobody is called after it. */
  readonly until: string;
}

const callOf = (room: string): string => `wake-up/${room}`;

/** Calls the room each morning of the stay at a time of the clock, such as 07:30; a call that was set before is moved. */
export async function setCall(desk: Desk, zone: string, { room, until }: Stay, time: string): Promise<void> {
  const [hour = '', minute = ''] = time.split(':');
  await desk.schedules.put(callOf(room), {
    cron: `${Number(minute)} ${Number(hour)} * * *`,
    zone,
    end: until,
    type: 'wake-up',
    resourceId: room,
    payloadTemplate: { room, at: '{{scheduledLocal}}' },
    // Nobody wants to be called for a time that has passed.
    misfire: 'skip',
    misfireGrace: '10m',
    ifRunning: 'skip',
  });
}

/** Nobody calls the room any more. */
export async function cancelCall(desk: Desk, room: string): Promise<void> {
  await desk.schedules.delete(callOf(room));
}

/** When the room is called next, in the hotel's time; undefined: it is not. */
export async function nextCall(desk: Desk, room: string): Promise<string | undefined> {
  const { firings } = await desk.schedules.next(callOf(room), { count: 1 });
  return firings[0]?.local;
}
