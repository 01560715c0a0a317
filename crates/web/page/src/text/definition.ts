/** Definitions of schedules, and how people read them. */
import type { Documents } from '../api/client';

export type Definition = Documents['Definition'];
export type Word = Documents['Word'];
export type Work = Documents['Work'];

export const WORK_OF_NODES: Work[] = ['incremental', 'selective', 'full', 'archive', 'verify', 'drill', 'image', 'command'];
export const WORK_OF_SERVER: Work[] = [
  'expire', 'reclaim', 'audit', 'scrub', 'copy-catalog', 'drain', 'copy-pools', 'repair', 'reclaim-volumes', 'move-volumes', 'audit-volumes',
];

/** The definition of work that begins now. The server sets the time. */
export function now(work: Work, objects: Word[] = [], options: string[] = []): Definition {
  return {
    action: { work, objects, options },
    timing: { starts: { once: 0 }, window_minutes: 60, spread_percent: 0 },
    zone: zone(),
    priority: 5,
    retries: 0,
    retry_pause_minutes: 20,
    runs_late: false,
    is_suspended: false,
  };
}

export function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}

/** The days and times of a schedule that is due by calendar. */
export function calendarOf(definition: Definition | undefined): Documents['Calendar'] | undefined {
  const starts = definition?.timing.starts;
  return starts && 'calendar' in starts ? starts.calendar : undefined;
}

/** The times of a schedule in words, as in "22:00, mon-fri, Europe/Berlin". */
export function describeTiming(definition: Definition): string {
  const { starts } = definition.timing;
  if ('once' in starts) return 'once';
  if ('calendar' in starts) {
    const { calendar } = starts;
    const parts = [calendar.times, calendar.weekdays, calendar.weeks && `weeks ${calendar.weeks}`, calendar.month_days && `days ${calendar.month_days}`, calendar.months];
    return [...parts.filter(Boolean), definition.zone].join(', ');
  }
  const every = Object.entries(starts.interval.every).map(([unit, length]) => `${length} ${unit}`);
  return `every ${every.join(' ')}, ${definition.zone}`;
}
