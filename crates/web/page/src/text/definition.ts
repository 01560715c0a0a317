/** Definitions of schedules, as the server keeps them, and how people read them. */

/** A word of an action: text, or the bytes in Base64 of a name that is no text. */
export type Word = string | { bytes: string };

export interface Definition {
  description?: string;
  action: { work: string; objects?: Word[]; options?: string[] };
  timing: {
    starts: {
      calendar?: { times: string; months?: string; month_days?: string; weekdays?: string; weeks?: string };
      interval?: { every: unknown; first: unknown };
      once?: number;
    };
    window_minutes: number;
    spread_percent: number;
    last_day?: string;
    blackouts?: unknown[];
  };
  zone: string;
  priority: number;
  retries: number;
  retry_pause_minutes: number;
  duration_max_minutes?: number;
  runs_late?: boolean;
  is_suspended?: boolean;
}

export const WORK_OF_NODES = ['incremental', 'selective', 'full', 'archive', 'verify', 'drill', 'image', 'command'];
export const WORK_OF_SERVER = [
  'expire', 'reclaim', 'audit', 'scrub', 'copy-catalog', 'drain', 'copy-pools', 'repair', 'reclaim-volumes', 'move-volumes', 'audit-volumes',
];

/** The definition of work that begins now. The server sets the time. */
export function now(work: string, objects: Word[] = [], options: string[] = []): Definition {
  return {
    action: { work, objects, options },
    timing: { starts: { once: 0 }, window_minutes: 60, spread_percent: 0 },
    zone: zone(),
    priority: 5,
    retries: 0,
    retry_pause_minutes: 20,
  };
}

export function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}

/** The times of a schedule in words, as in "22:00, mon-fri, Europe/Berlin". */
export function describeTiming(definition: Definition): string {
  const { calendar, interval, once } = definition.timing.starts;
  if (once !== undefined) return 'once';
  if (calendar) {
    const parts = [calendar.times, calendar.weekdays, calendar.weeks && `weeks ${calendar.weeks}`, calendar.month_days && `days ${calendar.month_days}`, calendar.months];
    return [...parts.filter(Boolean), definition.zone].join(', ');
  }
  return interval ? `every ${plain(interval.every)}, ${definition.zone}` : definition.zone;
}

/** A value of a definition that has no form of its own here. */
function plain(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value).map(([name, part]) => `${plain(part)} ${name}`).join(' ');
}
