/** Roles of people as text: "system", or "tenant@LAB" for a role in a domain. */
import type { Documents } from '../api/client';

export type HeldRole = Documents['RoleDocument'];
export const ROLES: Documents['Role'][] = ['system', 'policy', 'storage', 'operator', 'auditor', 'tenant', 'owner'];

export const MEANINGS: Record<Documents['Role'], string> = {
  system: 'May do everything',
  policy: 'Decides what is backed up and how long it is kept',
  storage: 'Looks after pools, volumes and libraries',
  operator: 'Looks after the daily work',
  auditor: 'Reads everything but contents, and changes nothing',
  tenant: 'Administers the nodes and people of a domain',
  owner: 'Owns nodes',
};

export function roleText(held: HeldRole): string {
  return held.domain ? `${held.role}@${held.domain}` : held.role;
}
