/** Reports of work as names and values for people. */
import { bytes, count, duration } from '../../text/format';

type Fact = [string, string];

/** Every figure of a report, in its order, with a unit where its name tells one. */
export function reportFacts(report: unknown): Fact[] {
  if (typeof report !== 'object' || report === null) return [];
  return Object.entries(report).flatMap(([name, value]) => fact(name, value));
}

function fact(name: string, value: unknown): Fact[] {
  const title = name.replaceAll('_', ' ').replace(/ (secs|percent|kb per sec)$/, '');
  const label = title.charAt(0).toUpperCase() + title.slice(1);
  if (Array.isArray(value)) return value.length ? [[label, value.slice(0, 20).map(text).join('; ')]] : [];
  if (value === null || value === '' || value === undefined) return [];
  if (typeof value === 'number') return [[label, figure(name, value)]];
  if (typeof value === 'object') return reportFacts(value).map(([inner, shown]) => [`${label}: ${inner}`, shown] as Fact);
  return [[label, String(value)]];
}

function figure(name: string, value: number): string {
  if (name.endsWith('percent')) return `${value.toFixed(1)} %`;
  if (name.endsWith('_secs') || name === 'elapsed' || name === 'seconds') return duration(value);
  if (name.endsWith('kb_per_sec')) return `${bytes(value * 1024)}/s`;
  if (name.includes('bytes')) return bytes(value);
  return count(value);
}

function text(value: unknown): string {
  return typeof value === 'object' && value !== null ? Object.values(value).map(String).join(': ') : String(value);
}
