/** The command by which a machine becomes a node. */
import { get } from '../../api/client';

/** Returns the address of a server for the nodes of a domain, as machines reach it. */
export async function serverFor(domain: string): Promise<string> {
  const [own, servers] = await Promise.all([
    get('/v1/domains/{domain}', { path: { domain } }),
    get('/v1/servers'),
  ]);
  return own.servers[0] ?? reachable(servers.items.find((one) => one.is_this)?.address ?? '');
}

/** The address of a server that listens on all addresses is the one under which it shows this page. */
function reachable(address: string): string {
  const split = address.lastIndexOf(':');
  const [host, port] = [address.slice(0, split), address.slice(split + 1)];
  return ['0.0.0.0', '[::]', ''].includes(host) ? [location.hostname, port].filter(Boolean).join(':') : address;
}

/** The command for a server that may still be unknown. */
export function enrolCommand(server: string | undefined, token: string): string {
  return `holdfast enroll ${server ?? location.hostname} --token ${token}`;
}
