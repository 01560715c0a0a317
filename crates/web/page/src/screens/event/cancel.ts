/** What becomes of an event that somebody cancels. */
import type { Documents } from '../../api/client';

type Event = Pick<Documents['EventDocument'], 'schedule' | 'node' | 'state'>;

export function effectsOfCancel({ schedule, node, state }: Event): string[] {
  const work = `${schedule} at ${node ?? 'the server'}`;
  if (state === 'pending') return [`${work} does not begin. The event is noted as missed once its window is over.`];
  return [`${work} ends as soon as it hears of it.`, 'What is stored already stays. The event is noted as failed, and is not tried again.'];
}
