/** Versions of option sets: how they differ, in words. */
import type { Documents } from '../../api/client';

export type Version = Documents['SetVersionDocument'];
export type Option = Documents['OptionDocument'];

/** An option as text. */
export function optionText(option: Option): string {
  return `${option.name} = ${option.value}${option.force ? ', forced' : ''}`;
}

/** Sentences that say how a version differs from the one before. */
export function differences(before: Version | null | undefined, after: Version): string[] {
  const [old, now] = [before?.options ?? [], after.options];
  const found: string[] = [];
  for (const option of now) {
    const known = old.find((one) => one.name === option.name);
    if (!known) found.push(`New option: ${optionText(option)}.`);
    else if (optionText(known) !== optionText(option)) found.push(`Option ${optionText(option)}; before: ${known.value}${known.force ? ', forced' : ''}.`);
  }
  for (const option of old) if (!now.some((one) => one.name === option.name)) found.push(`No longer an option: ${option.name}.`);
  const [lines, linesBefore] = [after.statements, before?.statements ?? []];
  for (const line of lines) if (!linesBefore.includes(line)) found.push(`New statement: ${line}`);
  for (const line of linesBefore) if (!lines.includes(line)) found.push(`No longer a statement: ${line}`);
  if (!found.length && lines.join('\n') !== linesBefore.join('\n')) found.push('The statements are in another order.');
  return found;
}
