/** A night as a grid: what happened at each node in each hour. */
import type { Documents } from '../api/client';
import { plural, words } from '../text/format';

type Night = Documents['NightDocument'];
type Hour = Documents['HourDocument'];
export type Outcome = 'good' | 'warning' | 'running' | 'waiting' | 'bad';

export interface NightCell {
  outcome: Outcome;
  /** An event of the hour; absent if there were only backups without a schedule. */
  event?: number;
  text: string;
}
export interface NightRow {
  node: string;
  cells: (NightCell | undefined)[];
  worst: Outcome;
}

export const HOURS = 24;
const HOUR = 3_600_000;
/** From the best outcome to the worst. */
const ORDER: Outcome[] = ['good', 'waiting', 'running', 'warning', 'bad'];
const OUTCOMES: Record<Hour['state'], Outcome> = {
  failed: 'bad', missed: 'bad', 'cut-off': 'bad', warned: 'warning', running: 'running', pending: 'waiting', good: 'good',
};

/** The begin of the night that a day ends: noon of the day before. */
export function beginOfNight(day: Date): Date {
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() - 1, 12);
}

/** The begin of the last 24 hours, the present one among them. */
export function beginOfLast(now = new Date()): Date {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate(), now.getHours() - (HOURS - 1));
}

/** Makes the rows of a night, the worst first. Nodes at which nothing was are left out. */
export function nightOf(nights: Night[], begin: Date): NightRow[] {
  const rows = nights.filter((night) => night.hours.length).map((night) => rowOf(night, begin.getTime()));
  const rank = (row: NightRow) => ORDER.indexOf(row.worst);
  return rows.sort((one, other) => rank(other) - rank(one) || one.node.localeCompare(other.node));
}

function rowOf(night: Night, begin: number): NightRow {
  const row: NightRow = { node: night.node, cells: Array(HOURS).fill(undefined), worst: 'good' };
  for (const hour of night.hours) {
    const place = Math.floor((new Date(hour.hour).getTime() - begin) / HOUR);
    if (place < 0 || place >= HOURS) continue;
    const outcome = OUTCOMES[hour.state];
    if (ORDER.indexOf(outcome) > ORDER.indexOf(row.worst)) row.worst = outcome;
    row.cells[place] = { outcome, event: hour.events[0], text: textOf(hour) };
  }
  return row;
}

function textOf(hour: Hour): string {
  const parts = [hour.events.length && plural(hour.events.length, 'event'), hour.backups && plural(hour.backups, 'backup')];
  return [words(hour.state), ...parts.filter(Boolean)].join(', ');
}
