/** Forms of values for people. Times are in the zone of the browser. */

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
const NONE = '\u2013';

/** A size in decimal units with three digits, as in "1.25 GB". */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  let [size, unit] = [value, 0];
  while (size >= 999.5 && unit < UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return `${size.toFixed(digits)} ${UNITS[unit]}`;
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : value.toLocaleString('en-GB');
}

/** "1 node", "2 nodes". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${((part / whole) * 100).toFixed(part / whole < 0.1 ? 1 : 0)} %` : NONE;
}

type Moment = string | number | Date | null | undefined;

const TIME = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit',
});
const DAY = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' });
const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });

export function time(value: Moment): string {
  return value ? TIME.format(new Date(value)) : NONE;
}

export function day(value: Moment): string {
  return value ? DAY.format(new Date(value)) : NONE;
}

/** The name of a day in the zone of the browser, as in 2026-11-26. */
export function nameOfDay(date: Date): string {
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, '0')}-${String(date.getDate()).padStart(2, '0')}`;
}

/** The begin of a day in the zone of the browser, by its name; `undefined` if there is no such day. */
export function beginOfDay(name: string): Date | undefined {
  const [, year, month, date] = (/^(\d{4})-(\d\d)-(\d\d)$/.exec(name) ?? []).map(Number);
  if (year === undefined || month === undefined || date === undefined) return undefined;
  const begin = new Date(year, month - 1, date);
  return nameOfDay(begin) === name ? begin : undefined;
}

/** The last second of a day that begins so. */
export function endOfDay(begin: Date): Date {
  return new Date(begin.getFullYear(), begin.getMonth(), begin.getDate(), 23, 59, 59);
}

/** True for a time with its zone, as the server and addresses have it. */
export function isMoment(text: string): boolean {
  return /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(text) && !Number.isNaN(Date.parse(text));
}

export function clock(value: Moment): string {
  return value ? CLOCK.format(new Date(value)) : NONE;
}

/** A length of time in its two largest units, as in "3 h 20 min". */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NONE;
  const whole = Math.max(0, Math.round(seconds));
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days > 0) return hours > 0 && days < 10 ? `${days} d ${hours} h` : `${days} d`;
  if (hours > 0) return minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
  return minutes > 0 ? `${minutes} min${whole % 60 && minutes < 10 ? ` ${whole % 60} s` : ''}` : `${whole} s`;
}

/** "3 h ago" or "in 2 d". */
export function ago(value: Moment, now = Date.now()): string {
  if (!value) return 'never';
  const seconds = (now - new Date(value).getTime()) / 1000;
  if (Math.abs(seconds) < 45) return 'now';
  return seconds > 0 ? `${duration(coarse(seconds))} ago` : `in ${duration(coarse(-seconds))}`;
}

/** Rounds to a minute, hour or day. */
function coarse(seconds: number): number {
  const step = seconds < 3600 ? 60 : seconds < 86400 * 2 ? 3600 : 86400;
  return Math.max(step, Math.round(seconds / step) * step);
}

/** Words with hyphens as a person writes them. */
export function words(code: string): string {
  const text = code.replaceAll('-', ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}
