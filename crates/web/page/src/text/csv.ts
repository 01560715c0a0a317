/** Tables as CSV, as RFC 4180 has it. */

import { printable } from './names';

export type Cell = string | number | boolean | null | undefined;

function quoted(cell: Cell): string {
  let text = cell === null || cell === undefined ? '' : printable(String(cell));
  // A program for tables must not take a text from elsewhere for a formula.
  if (typeof cell === 'string' && /^[=+\-@]/.test(text)) text = `'${text}`;
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(rows: Cell[][]): string {
  return rows.map((row) => row.map(quoted).join(',')).join('\r\n') + '\r\n';
}

/** Reads a table. Each line of it is as long as it was written. */
export function parse(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  // A field, quoted or not, and what ends it.
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n"]*))(,|\r?\n|$)/g)) {
    if (end === '' && !row.length && !quoted && !plain) break;
    row.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
    if (end === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

/** Gives a text or bytes to the person as a file. */
export function save(name: string, content: BlobPart, media: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type: media }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
