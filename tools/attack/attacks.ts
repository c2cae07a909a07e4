/** The attacks, in the order in which they run. */
import type { Attack } from './attack.ts';
import { greedyBackend, hostileBackend, squattingBackend } from './hostile-backends.ts';
import { GATEWAY_ATTACKS } from './gateway-attacks.ts';
import { fullHistory, heldConnections, signInPages } from './outside-attacks.ts';
import type { AttackStage } from './stage.ts';
import { startAttacker } from './start-attacker.ts';

/** An attack by a process of its own, which knows only Leasehold's address and a token. */
function fromOutside(
  name: string,
  what: string,
  tokenOf: (stage: AttackStage) => string | null = () => null,
): Attack {
  return {
    name,
    what,
    carryOut: (stage, attackMs) =>
      startAttacker({ name, url: stage.url, token: tokenOf(stage), attackMs }),
  };
}

const viewer = (stage: AttackStage): string => stage.tokens.viewer;
const client = (stage: AttackStage): string => stage.tokens.attacker;

export const ATTACKS: readonly Attack[] = [
  hostileBackend,
  greedyBackend,
  squattingBackend,
  fromOutside(
    'anonymous-batches',
    'batches of 1,000 calls without a token, over 4 sockets and HTTP',
  ),
  fromOutside('anonymous-garbage', 'wrong tokens, broken JSON and wrong paths, as fast as they go'),
  fromOutside(
    'viewer-sockets',
    'a viewer lists leases over 12 sockets, 50 calls at a time each',
    viewer,
  ),
  fromOutside('old-events', '30 streams from the oldest event', viewer),
  fromOutside('subscriptions', '1,000 subscriptions of one viewer', viewer),
  fromOutside('waiters', '5,000 callers wait for one lease', client),
  fromOutside('large-pages', 'leases with 16 KB of metadata, listed over 12 sockets', client),
  fromOutside('pipelined-requests', '20 sockets that send requests and do not wait for answers'),
  fromOutside(
    'requests-one-by-one',
    '50 sockets: health, what is not there, wrong tokens, upgrades',
  ),
  fromOutside('viewer-requests', 'a viewer sends lists over 20 sockets, and does not wait', viewer),
  fromOutside('frames-in-parts', '50 WebSockets without a token, a message in parts of one byte'),
  fromOutside(
    'large-messages',
    'metadata of 4 MB, a text of 900 KB, 350,000 unknown fields, 10,000 renewals, wrong items',
    client,
  ),
  fromOutside('unread-answers', '12 sockets that ask for lists and never read', viewer),
  fromOutside('unread-streams', '30 streams over HTTP that are never read', viewer),
  heldConnections,
  signInPages,
  fullHistory,
  ...GATEWAY_ATTACKS,
];
