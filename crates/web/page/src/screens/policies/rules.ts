/** Sets of management classes, and their rules in words. */
import type { Documents, Problem } from '../../api/client';

export type BackupGroup = Documents['BackupGroupDocument'];
export type ArchiveGroup = Documents['ArchiveGroupDocument'];
export type ManagementClass = Documents['ClassDocument'];
export type PolicySet = Documents['PolicySetDocument'];

/** The rules of a backup group in a sentence. */
export function backupText(group: BackupGroup): string {
  return `${versions(group.versions_existing_max)} of an object that exists, ${versions(group.versions_deleted_max)} of one that is deleted; inactive ones for ${days(group.extra_days)}, the last one of a deleted object for ${days(group.only_days)}`;
}

export function archiveText(group: ArchiveGroup): string {
  return `${days(group.keep_days)} from ${group.starts === 'event' ? `an event, at least ${group.minimum_days} days` : 'the archive'}`;
}

function versions(limit: string): string {
  return isNoLimit(limit) ? 'all versions' : `${limit} ${limit === '1' ? 'version' : 'versions'}`;
}

function days(limit: string): string {
  return isNoLimit(limit) ? 'ever' : `${limit} ${limit === '1' ? 'day' : 'days'}`;
}

function isNoLimit(limit: string): boolean {
  return /^no ?limit$/i.test(limit);
}

/** What a draft would drop, if that alone keeps it from being activated. */
export function lossOf(problem: Problem): string | undefined {
  if (problem.code !== 'confirmation-needed') return undefined;
  const [loss = problem.message] = problem.message.split(';');
  return `${loss.charAt(0).toUpperCase()}${loss.slice(1)}.`;
}
