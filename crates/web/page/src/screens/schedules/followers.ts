/** Nodes that follow a schedule, as text. */
import type { Documents } from '../../api/client';

type Follower = Documents['FollowerDocument'];
export type FollowerKind = 'node' | 'label' | 'domain';

export function followerText(follower: Follower): string {
  if ('node' in follower) return `node ${follower.node}`;
  return 'label' in follower ? `label ${follower.label}` : `domain ${follower.domain}`;
}

export function follower(kind: FollowerKind, name: string): Follower {
  if (kind === 'node') return { node: name };
  return kind === 'label' ? { label: name } : { domain: name };
}
