/** The report of a month about a domain: lines of nodes, read from the table of the server. */
import { parse } from './csv';

const NUMBERS = [
  'days', 'days_good', 'backups_complete', 'backups_partial', 'events_completed', 'events_failed', 'events_missed',
  'objects', 'bytes', 'bytes_sent', 'restores', 'restored_objects', 'restored_bytes',
] as const;
type Numbers = Record<(typeof NUMBERS)[number], number>;

/** A node in a month. */
export interface NodeMonth extends Numbers {
  node: string;
  last_good_backup: string;
}

/** Reads the table of the server. A name that a program for tables must not take for a formula begins with an apostrophe. */
export function nodesOf(table: string): NodeMonth[] {
  const [columns = [], ...rows] = parse(table);
  return rows.map((row) => {
    const field = (name: string) => row[columns.indexOf(name)] ?? '';
    const numbers = Object.fromEntries(NUMBERS.map((name) => [name, Number(field(name))])) as Numbers;
    return { node: field('node').replace(/^'/, ''), last_good_backup: field('last_good_backup'), ...numbers };
  });
}

/** The sums over all nodes. */
export function totalOf(nodes: NodeMonth[]): Numbers {
  const sum = (name: (typeof NUMBERS)[number]) => nodes.reduce((total, node) => total + node[name], 0);
  return Object.fromEntries(NUMBERS.map((name) => [name, sum(name)])) as Numbers;
}
