/** The days of a node, from what its backups did and what failed or was missed. */
import type { Documents } from '../../api/client';
import type { CalendarDay } from '../../charts/Calendar.svelte';
import { address } from '../../shell/router.svelte';
import { bytes, nameOfDay, plural } from '../../text/format';

type Day = Documents['DayDocument'];
type Event = Documents['EventDocument'];

/** Names of the last `number` days up to today. */
export function lastDays(number: number, now = new Date()): string[] {
  return Array.from({ length: number }, (_, index) =>
    nameOfDay(new Date(now.getFullYear(), now.getMonth(), now.getDate() - (number - 1 - index))));
}

/** The last `number` days, those without a backup too. */
export function everyDay(days: Day[], number: number): Day[] {
  const known = new Map(days.map((day) => [day.day, day]));
  const none = { backups: 0, incomplete: 0, inspected: 0, backed_up: 0, updated: 0, expired: 0, failed: 0, bytes_inspected: 0, bytes_sent: 0 };
  return lastDays(number).map((day) => known.get(day) ?? { day, ...none });
}

/** The squares of the calendar: what went wrong outweighs what went well. */
export function calendarOf(days: Day[], failures: Event[], number: number, node: string): CalendarDay[] {
  const wrong = new Map<string, string[]>();
  for (const event of failures) {
    const day = nameOfDay(new Date(event.planned));
    wrong.set(day, [...(wrong.get(day) ?? []), `${event.schedule} ${event.state}`]);
  }
  return everyDay(days, number).map((day) => {
    const href = address(['nodes', node, 'events'], { day: day.day });
    const failed = wrong.get(day.day);
    if (failed) return { day: day.day, outcome: 'bad', text: failed.join(', '), href };
    if (!day.backups) return { day: day.day, outcome: 'none', text: 'no backup' };
    const text = `${plural(day.backups, 'backup')}, ${plural(day.backed_up, 'object')}, ${bytes(day.bytes_sent)} sent`;
    const isIncomplete = day.incomplete > 0 || day.failed > 0;
    return { day: day.day, outcome: isIncomplete ? 'warning' : 'good', text: isIncomplete ? `${text}, ${plural(day.failed, 'failure')}` : text, href };
  });
}
