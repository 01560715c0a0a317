/** Tables as CSV, as RFC 4180 has it. */

export type Cell = string | number | boolean | null | undefined;

function quoted(cell: Cell): string {
  let text = cell === null || cell === undefined ? '' : String(cell);
  // A program for tables must not take a text from elsewhere for a formula.
  if (typeof cell === 'string' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(rows: Cell[][]): string {
  return rows.map((row) => row.map(quoted).join(',')).join('\r\n') + '\r\n';
}

/** Gives a text to the person as a file. */
export function save(name: string, text: string, media: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: media }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
